// SPDX-License-Identifier: Apache-2.0
// Hopper's warpgroup instructions read TF32 operands only contiguous along the depth. The library
// has kernels that transpose one operand during the product, but none that transpose two: such a
// product falls back to older instructions.
#include "backends/cuda/transposed_operand.h"

#include "backends/cuda/gemm.h"
#include "backends/product_plan.h"

namespace ridge::backends::cuda {
namespace {

constexpr int kNone = -1;

// The gain of a product relative to its time at the manufacturer's peak rate: 0.6 to 1.4 were
// measured, the lowest for the longest products.
constexpr double kGain = 0.6;
// The time of a copy's launch, whether or not it starts early.
constexpr double kLaunchNs = 1500;
// The library's vector size in elements: a transposed row must start at a multiple of it.
constexpr int64_t kVector = 4;

bool gains(const GemmShape& g, const DeviceFacts& facts) {
  const double flops =
      2.0 * static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k);
  const double flops_per_ns =
      facts.multiprocessors * facts.clock_ghz * flops_per_clock(facts, g.input, true);
  const double bytes = 2.0 * static_cast<double>(storage_bytes(g.input, std::min(g.m, g.n) * g.k));
  const double bytes_per_ns = 2 * facts.memory_clock_ghz * facts.memory_bus_bits / 8;
  return kGain * flops / flops_per_ns > kLaunchNs + bytes / bytes_per_ns;
}

}  // namespace

int transposed_operand(const Call& matmul, const DeviceFacts& facts, bool tf32) {
  constexpr int kHopper = 9;
  if (!tf32 || facts.capability_major != kHopper || matmul.inputs[0].dtype != DType::kF32 ||
      matmul.inputs[1].dtype != DType::kF32 || matmul.inputs[0].shape.rank() != 2 ||
      matmul.inputs[1].shape.rank() != 2 || is_empty_product(matmul))
    return kNone;
  const ProductPlan plan = plan_product(matmul, dense_layouts(matmul));
  const GemmBatch products = join_batch(plan.gemm);
  const GemmShape& g = products.shape;
  const bool is_one = plan.loop.empty() && plan.copies.empty() && g.batch.empty();
  const bool are_across = g.a_m == 1 && g.a_k > 1 && g.b_n == 1 && g.b_k > 1;
  if (!is_one || !are_across || g.k % kVector != 0 || !gains(g, facts)) return kNone;
  return g.m < g.n ? 0 : 1;
}

}  // namespace ridge::backends::cuda
