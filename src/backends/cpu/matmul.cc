// SPDX-License-Identifier: Apache-2.0
// Binding of matmul to oneDNN, to native GEMMs, and to the GEMV path of quantized GEMMs.
// backends/product_plan.h maps the einsum to products.
#include "backends/cpu/kernels/quantized/matmul.h"
#include "backends/cpu/gemm.h"
#include "backends/cpu/gemm_tuner.h"
#include "backends/cpu/kernel_table.h"
#include "backends/cpu/kernels/pointwise/tile_program.h"
#include "backends/cpu/kernels/quantized/gemv_bf16.h"
#include "backends/cpu/native_gemm.h"
#include "backends/cpu/quantized_matmul.h"
#include "backends/cpu/strided_copy.h"
#include "backends/in_order.h"
#include "backends/packed_product.h"
#include "backends/product_plan.h"
#include "backends/row_layout.h"
#include "graph/einsum.h"

namespace ridge::backends::cpu {
namespace {

// Whether the kernel for quantized weights computes a product in fp32 in one order for any number
// of tokens.
bool sums_alike(const Call& call) {
  return is_batch_invariant(call) && call.inputs[0].dtype == DType::kF32 &&
         call.inputs[1].dtype == DType::kF32 && unsupported_quantized(call).empty();
}

// For dense operands that oneDNN does not take in their order. The third input is packed as well,
// so that the sum is rounded once.
PackedProduct packed_product(const Call& call) {
  PackedProduct packed = plan_packed_product(call);
  packed.gemm.accumulate = call.inputs.size() == 3;
  return packed;
}

// Planned before the layouts are known, so it assumes dense operands.
int64_t workspace_bytes(const Call& call) {
  if (is_empty_product(call)) return 0;
  if (has_quantized_weight(call) || sums_alike(call)) return 0;
  ProductLayouts layouts = dense_layouts(call);
  ProductPlan plan = plan_product(call, layouts);
  const bool is_native = call.attrs.flag("native");
  if (!is_supported(plan.gemm)) {
    const PackedProduct packed = packed_product(call);
    return packed.bytes() + gemm_workspace_bytes(default_form(packed.gemm, is_native), packed.gemm);
  }
  int64_t bytes = 0;
  for (const ProductStep& step : product_steps(call, layouts, plan)) {
    plan.gemm.accumulate = step.accumulate;
    bytes = std::max(bytes, gemm_workspace_bytes(default_form(plan.gemm, is_native), plan.gemm));
  }
  return bytes;
}

// oneDNN does not support empty axes: either there is nothing to do, or the result is 0.
Launch bind_empty(const BindCall& call) {
  const Operand& out = call.outputs[0];
  if (out.type.shape.elements() == 0 || call.inputs.size() == 3) return [] {};
  static float zero = 0;
  Strides repeated(std::vector<int64_t>(static_cast<size_t>(out.type.shape.rank()), 0));
  TileKernel kernel({{}, {0}, 1}, out.type.shape, {{&zero, DType::kF32, repeated}},
                    {{out.data, out.type.dtype, out.strides}});
  return [kernel = std::move(kernel)] { kernel.run(); };
}

}  // namespace

// A few tokens, as many as the GEMV path of plain weights takes, times a dense fp32 or bf16
// weight: reading the weight takes most of the time. Unlike oneDNN's calls, this path allocates
// nothing for a decoded token.
bool streams_weight(const BindCall& call) {
  if (call.inputs.size() != 2 || !parse_einsum(call.attrs().text("einsum")).is_projection())
    return false;
  const Operand &x = call.inputs[0], &weight = call.inputs[1], &y = call.outputs[0];
  for (const Operand* each : {&x, &weight, &y})
    if (each->strides[1] != 1) return false;
  if (weight.strides[0] != weight.type.shape[1]) return false;
  const DType dtype = x.type.dtype, result = y.type.dtype;
  if (weight.type.dtype != dtype) return false;
  if (dtype != DType::kF32 && dtype != DType::kBF16) return false;
  const bool is_gemv = choose({.weight = dtype, .tokens = x.type.shape[0]})->is_gemv();
  if (dtype == DType::kBF16) return is_gemv && (result == DType::kBF16 || result == DType::kF32);
  return result == DType::kF32 && (is_gemv || sums_alike(call.call()));
}

namespace {

GemmForm form_of(const GemmShape& shape, bool is_native, GemmTuner* tuner) {
  return tuner == nullptr ? default_form(shape, is_native) : tuner->choose(shape, is_native);
}

Launch bind_packed(const BindCall& call, GemmTuner* tuner) {
  const PackedProduct packed = packed_product(call.call());
  const std::array<PackedPlace, 3> places = packed_places(call, packed, call.workspace);
  const auto& [a, b, c] = places;
  std::vector<Launch> steps;
  for (const PackedPlace* each : {&a, &b, &c})
    if (each->is_packed && (each != &c || packed.gemm.accumulate))
      steps.push_back(strided_copy(each->there, each->here));
  const GemmForm form = form_of(packed.gemm, call.attrs().flag("native"), tuner);
  const std::span<std::byte> left(
      call.workspace + packed.bytes(),
      static_cast<size_t>(workspace_bytes(call.call()) - packed.bytes()));
  steps.push_back(bind_gemm(form, packed.gemm, {a.here.data, b.here.data, c.here.data, left}));
  if (c.is_packed) steps.push_back(strided_copy(c.here, c.there));
  return in_order(std::move(steps));
}

template <typename Y>
Launch bind_gemv_bf16(const BindCall& call) {
  const Operand &x = call.inputs[0], &weight = call.inputs[1];
  return [gemv = GemvBf16<Y>{reinterpret_cast<const uint16_t*>(weight.data), weight.type.shape[0],
                             weight.type.shape[1], rows<const uint16_t>(x),
                             rows<Y>(call.outputs[0]), x.type.shape[0]}] { gemv_bf16(gemv); };
}

Launch bind_streamed(const BindCall& call) {
  if (call.inputs[0].type.dtype == DType::kF32) return bind_quantized(call);
  return call.outputs[0].type.dtype == DType::kF32 ? bind_gemv_bf16<float>(call)
                                                   : bind_gemv_bf16<uint16_t>(call);
}

Launch bind(const BindCall& call, GemmTuner* tuner) {
  if (is_empty_product(call.call())) return bind_empty(call);
  if (has_quantized_weight(call.call())) return bind_quantized(call);
  if (streams_weight(call)) return bind_streamed(call);
  ProductLayouts layouts{call.inputs[0].strides, call.inputs[1].strides, call.outputs[0].strides};
  ProductPlan plan = plan_product(call.call(), layouts);
  // Only dense operands come here in such an order: `fits` takes no other layout with them.
  if (!is_supported(plan.gemm)) return bind_packed(call, tuner);
  const bool is_native = call.attrs().flag("native");
  std::vector<Launch> gemms;
  std::span<std::byte> workspace(call.workspace, static_cast<size_t>(workspace_bytes(call.call())));
  for (const ProductStep& step : product_steps(call.call(), layouts, plan)) {
    GemmShape shape = plan.gemm;
    shape.accumulate = step.accumulate;
    gemms.push_back(
        bind_gemm(form_of(shape, is_native, tuner), shape,
                  {call.inputs[0].data + storage_bytes(shape.input, step.a),
                   call.inputs[1].data + storage_bytes(shape.input, step.b),
                   call.outputs[0].data + storage_bytes(shape.output, step.c), workspace}));
  }
  return in_order(std::move(gemms));
}

// oneDNN needs one of the two inner axes of each matrix to be contiguous, and at most as many
// batch axes as it supports.
bool fits(const Call& call, int operand, const Layout& layout) {
  ProductLayouts layouts = dense_layouts(call);
  (operand == 0 ? layouts.a : operand == 1 ? layouts.b : layouts.out) = layout.strides;
  return is_supported(plan_product(call, layouts).gemm);
}

bool takes_input(const Call& call, int input, const Layout& layout) {
  if (has_quantized_weight(call) || sums_alike(call))
    return input == 0 && lies_in_rows(call, input, layout);
  return input < 2 && fits(call, input, layout);
}

bool takes_output(const Call& call, int output, const Layout& layout) {
  if (has_quantized_weight(call) || sums_alike(call))
    return output_lies_in_rows(call, output, layout);
  return call.inputs.size() == 2 && fits(call, 2, layout);
}

// Empty for GEMMs that time samples of their own.
std::optional<int64_t> shared_bytes(const Call& call) {
  if (!has_quantized_weight(call) && !sums_alike(call)) return {};
  return quantized_shared_bytes(call);
}

std::string unsupported(const Call& call) {
  return has_quantized_weight(call) || sums_alike(call) ? unsupported_quantized(call) : "";
}

}  // namespace

bool has_native_gemm(const Call& call) {
  if (is_empty_product(call) || has_quantized_weight(call)) return false;
  return takes(GemmForm::kTiles, plan_product(call, dense_layouts(call)).gemm);
}

Kernel matmul_kernel(GemmTuner* tuner) {
  return {.op = "matmul",
          .bind = [tuner](const BindCall& call) { return bind(call, tuner); },
          .takes_input = takes_input,
          .takes_output = takes_output,
          .workspace_bytes = workspace_bytes,
          .unsupported = unsupported,
          .takes_quantized = true,
          .shared_bytes = shared_bytes};
}

}  // namespace ridge::backends::cpu
