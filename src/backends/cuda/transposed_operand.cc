// SPDX-License-Identifier: Apache-2.0
// Hopper's warpgroup products read TF32 along the depth only, and the library has kernels that transpose
// one operand on the way, but none for two: such a product takes the older instructions.
#include "backends/cuda/transposed_operand.h"

#include "backends/cuda/gemm.h"
#include "backends/product_plan.h"

namespace ridge::backends::cuda {
namespace {

constexpr int kNone = -1;

// What a product gains, of its time at the makers' rate: 0.6 to 1.4 were measured, the least where
// it is longest.
constexpr double kGain = 0.6;
// A copy's launch, ready early or not.
constexpr double kLaunchNs = 1500;
// The library's vectors, in elements: a transposed row begins at a multiple.
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
