// SPDX-License-Identifier: Apache-2.0
// Binding of matmul to cuBLASLt. backends/product_plan.h maps the einsum to products. GEMMs of a
// few rows are in skinny_gemm.h.
#include <algorithm>
#include <memory>
#include <vector>

#include "backends/cuda/gemm.h"
#include "backends/cuda/gemm_tuner.h"
#include "backends/cuda/kernel_table.h"
#include "backends/cuda/kernels/copy/fill.h"
#include "backends/cuda/kernels/gemm/strided_product.h"
#include "backends/cuda/native_gemm.h"
#include "backends/cuda/short_product.h"
#include "backends/cuda/skinny_gemm.h"
#include "backends/cuda/strided_copy.h"
#include "backends/cuda/unpacked_product.h"
#include "backends/in_order.h"
#include "backends/packed_product.h"
#include "backends/product_plan.h"
#include "base/error.h"

namespace ridge::backends::cuda {
namespace {

// The library does not support empty axes: either there is nothing to do, or the result is 0.
Launch bind_empty(const BindCall& call, BindContext& context) {
  const Operand& out = call.outputs[0];
  int64_t elements = out.type.shape.elements();
  if (elements == 0 || call.inputs.size() == 3) return [] {};
  return by_dtype(out.type.dtype, [&](auto element) -> Launch {
    using T = decltype(element);
    return launch_on(context.device, "matmul", launch_fill<T>,
                     Fill<T>{1, elements, {out.as<T>(), elements}, 0});
  });
}

// A product that the library has no kernel for: unusual strides, mostly in tests.
Launch bind_strided(const GemmShape& g,
                    const std::byte* a,
                    const std::byte* b,
                    std::byte* c,
                    BindContext& context) {
  StridedProduct product;
  product.m = g.m, product.n = g.n, product.k = g.k;
  product.input = g.input, product.output = g.output;
  product.a = {a, g.a_m, g.a_k, g.a_batch.empty() ? 0 : g.a_batch[0]};
  product.b = {b, g.b_k, g.b_n, g.b_batch.empty() ? 0 : g.b_batch[0]};
  product.c = c;
  product.c_row = g.c_m, product.c_column = g.c_n,
  product.c_batch = g.c_batch.empty() ? 0 : g.c_batch[0];
  product.batch = g.batch.empty() ? 1 : g.batch[0];
  product.accumulate = g.accumulate;
  return launch_on(context.device, "matmul", launch_strided_product, product);
}

// The number of multiprocessors for which the algorithm of a short product with neighbours should
// be chosen; 0: all. Measured alone on the whole GPU, small tiles or partial sums look best, and
// the time is mostly latency. A long product may outlast its neighbours, so it is chosen for the
// whole GPU.
int share_of(const GemmShape& shape, int concurrent, const BindContext& context) {
  const DeviceFacts& facts = context.device.facts();
  int64_t macs = shape.m * shape.n * shape.k;
  for (int64_t extent : shape.batch) macs *= extent;
  return concurrent >= 2 && is_short_product(macs, shape.input, facts, context.tf32)
             ? facts.multiprocessors / concurrent
             : 0;
}

Launch bind_gemm(const GemmShape& shape,
                 const std::byte* a,
                 const std::byte* b,
                 std::byte* c,
                 const BindCall& call,
                 BindContext& context) {
  if (!is_supported(shape)) return bind_strided(shape, a, b, c, context);
  int64_t alignment = std::min({alignment_of(a), alignment_of(b), alignment_of(c)});
  auto problem =
      std::make_shared<GemmProblem>(shape, Fp32Products{context.tf32, call.attrs().flag("native")},
                                    alignment, share_of(shape, call.concurrent, context));
  std::optional<GemmAlgorithm> algorithm = context.tuner.choose(*problem);
  if (!algorithm) return bind_strided(shape, a, b, c, context);
  return [problem, algorithm = *algorithm, a, b, c, workspace = call.workspace,
          &device = context.device] {
    problem->launch(algorithm, a, b, c, workspace, device.stream());
  };
}

Launch bind_packed(const BindCall& call, const PackedProduct& packed, BindContext& context) {
  const std::array<PackedPlace, 3> places =
      packed_places(call, packed, call.workspace + kGemmWorkspaceBytes);
  const auto& [a, b, c] = places;
  std::vector<Launch> steps;
  for (const PackedPlace* each : {&a, &b})
    if (each->is_packed)
      steps.push_back(bind_copy(each->there, each->here, false, "matmul", context.device));
  steps.push_back(bind_gemm(packed.gemm, a.here.data, b.here.data, c.here.data, call, context));
  if (c.is_packed)
    steps.push_back(bind_copy(c.here, c.there, call.inputs.size() == 3, "matmul", context.device));
  return in_order(std::move(steps));
}

int launches_of(const Call& call, const ProductLayouts& layouts) {
  ProductPlan plan = plan_product(call, layouts);
  return static_cast<int>(product_steps(call, layouts, plan).size() *
                          join_batch(plan.gemm).a.size());
}

// Used if dense operands would take many launches; other layouts are supported only where they take
// one launch.
std::optional<PackedProduct> packing(const Call& call) {
  int apart = launches_of(call, dense_layouts(call));
  if (apart == 1) return std::nullopt;
  PackedProduct packed = plan_packed_product(call);
  if (!is_supported(packed.gemm) || packed.launches() >= apart) return std::nullopt;
  return packed;
}

Launch bind(const BindCall& call, BindContext& context) {
  if (is_empty_product(call.call())) return bind_empty(call, context);
  if (auto some = bind_streamed_gemm(call, context)) return *some;
  if (auto few = bind_skinny_gemm(call, context)) return *few;
  if (has_fragments(call.call()))
    return bind_unpacked(
        call, call.workspace + kGemmWorkspaceBytes,
        [&](const GemmShape& shape, const std::byte* a, const std::byte* b, std::byte* c) {
          return bind_gemm(shape, a, b, c, call, context);
        },
        context);
  if (auto packed = packing(call.call())) return bind_packed(call, *packed, context);
  ProductLayouts layouts{call.inputs[0].strides, call.inputs[1].strides, call.outputs[0].strides};
  ProductPlan plan = plan_product(call.call(), layouts);
  std::vector<Launch> gemms;
  for (const ProductStep& step : product_steps(call.call(), layouts, plan)) {
    GemmShape shape = plan.gemm;
    shape.accumulate = step.accumulate;
    GemmBatch batch = join_batch(shape);
    for (size_t i = 0; i < batch.a.size(); ++i)
      gemms.push_back(bind_gemm(
          batch.shape, call.inputs[0].data + storage_bytes(shape.input, step.a + batch.a[i]),
          call.inputs[1].data + storage_bytes(shape.input, step.b + batch.b[i]),
          call.outputs[0].data + storage_bytes(shape.output, step.c + batch.c[i]), call, context));
  }
  return in_order(std::move(gemms));
}

int64_t workspace_bytes(const Call& call) {
  if (is_empty_product(call)) return 0;
  if (has_fragments(call))
    return is_fragment_gemm(call) ? fragment_workspace_bytes(call)
                                  : kGemmWorkspaceBytes + unpacked_bytes(call);
  std::optional<PackedProduct> packed = packing(call);
  return kGemmWorkspaceBytes + (packed ? packed->bytes() : 0);
}

int launches(const Call& call) {
  if (is_empty_product(call)) return 1;
  if (has_fragments(call))
    return is_fragment_gemm(call) ? fragment_launches(call) : unpacked_launches(call);
  std::optional<PackedProduct> packed = packing(call);
  return packed ? packed->launches() : launches_of(call, dense_layouts(call));
}

int rounds(const Call& call) {
  if (is_streamed_gemm(call)) {
    // A larger weight takes as long as in the library's product, whose times are sampled.
    constexpr int64_t kReadInTrips = int64_t{4} << 20;
    const Type& weight = call.inputs[1];
    return storage_bytes(weight.dtype, weight.shape.elements()) <= kReadInTrips
               ? streamed_gemm_rounds(call.inputs[0].shape[0])
               : 0;
  }
  if (is_fragment_gemm(call)) return fragment_gemm_rounds(call.inputs[0].shape[0]);
  // Kernels beside a product that is not fused do not start early, so its first reads and its last
  // sums show (docs/runs/2026-11-30-scores-on-wgmma-h200.md).
  constexpr int kUnfused = 6;
  return is_skinny_gemm(call) ? kUnfused : 0;
}

// Other products are kernels of ours.
bool calls_library(const Call& call) {
  if (is_empty_product(call) || call.attrs.flag("native")) return false;
  if (has_fragments(call)) return !is_fragment_gemm(call);
  return !is_skinny_gemm(call) && !is_streamed_gemm(call);
}

// Supports a layout if the product then takes one launch: several launches cost more than the copy
// that the layout avoids.
bool fits(const Call& call, int operand, const Layout& layout) {
  ProductLayouts layouts = dense_layouts(call);
  (operand == 0 ? layouts.a : operand == 1 ? layouts.b : layouts.out) = layout.strides;
  if (is_empty_product(call) || packing(call)) return false;
  return is_supported(plan_product(call, layouts).gemm) && launches_of(call, layouts) == 1;
}

bool takes_input(const Call& call, int input, const Layout& layout) {
  if (has_fragments(call)) return input == 0 && lies_in_vectors(call.inputs[0].shape, layout);
  return input < 2 && fits(call, input, layout);
}

bool takes_output(const Call& call, int, const Layout& layout) {
  if (has_fragments(call)) return lies_in_vectors(call.outputs[0].shape, layout);
  return call.inputs.size() == 2 && fits(call, 2, layout);
}

std::string unsupported(const Call& call) {
  if (has_fragments(call)) return unsupported_fragments(call);
  if (call.inputs[0].dtype == call.inputs[1].dtype && call.inputs[0].dtype != DType::kF16)
    return "";
  return fmt::format("the cuda backend multiplies operands of one element type, not {} and {}",
                     call.inputs[0].str(), call.inputs[1].str());
}

}  // namespace

bool has_native_gemm(const Call& call, bool tf32) {
  constexpr int64_t kAligned = 256;  // as buffers are aligned
  if (call.inputs[0].dtype != call.inputs[1].dtype || is_empty_product(call) || packing(call))
    return false;
  const ProductLayouts layouts = dense_layouts(call);
  return launches_of(call, layouts) == 1 &&
         suits_split_bf16(join_batch(plan_product(call, layouts).gemm).shape, tf32, kAligned);
}

Kernel matmul_kernel(BindContext& context) {
  return {.op = "matmul",
          .bind = in_context(bind, context),
          .takes_input = takes_input,
          .takes_output = takes_output,
          .workspace_bytes = workspace_bytes,
          .unsupported = unsupported,
          .takes_quantized = true,
          .launches = launches,
          .rounds_of = rounds,
          .calls_library = calls_library};
}

}  // namespace ridge::backends::cuda
