// SPDX-License-Identifier: Apache-2.0
// Binding of products with quantized weights to kernels/quantized/matmul.h.
// kernels/quantized/choose.h says which kernel each weight takes.
#include "backends/cpu/quantized_matmul.h"

#include <algorithm>
#include <array>
#include <vector>

#include "backends/cpu/isa.h"
#include "backends/cpu/kernel_table.h"
#include "backends/cpu/kernels/quantized/matmul.h"
#include "backends/cpu/kernels/quantized/tiles.h"
#include "backends/in_order.h"
#include "backends/row_layout.h"
#include "base/error.h"
#include "graph/einsum.h"

namespace ridge::backends::cpu {
namespace {

// A matmul with a quantized weight keeps its activations.
DType activations_of(const Call& call) {
  return call.attrs.has("activations") ? *parse_dtype(call.attrs.text("activations")) : DType::kF32;
}

bool is_glu(const Call& call) { return call.attrs.has("glu") && !call.attrs.text("glu").empty(); }

// The kernels of a call's weights, in order; null where no kernel multiplies one.
std::vector<const QuantizedKernel*> kernels_of(const Call& call) {
  std::vector<DType> weights;
  for (const Type& weight : call.inputs.subspan(1)) weights.push_back(weight.dtype);
  const QuantizedIsa isa = quantized_isa();
  std::vector<const QuantizedKernel*> kernels;
  for (DType weight : weights)
    kernels.push_back(choose({weight, call.inputs[0].shape[0], activations_of(call), isa,
                              other_weights(weight, weights), is_batch_invariant(call)}));
  return kernels;
}

// Why no kernel multiplies this weight.
std::string missing_kernel(DType weight, DType activations) {
  if (layout_of(weight) == WeightLayout::kRepacked &&
      (!takes_repacked(quantized_isa()) || activations == DType::kF32))
    return "repacked tiles are multiplied in int16 or int8, from AVX2 on, or in bf16 tiles (AMX)";
  if (is_block(weight) && activations == DType::kI8)
    return fmt::format("weights in {} are multiplied by 8-bit activations with AVX-512 VNNI only",
                       ridge::name(weight));
  return fmt::format("no kernel multiplies weights of type {}", ridge::name(weight));
}

std::string unsupported(const Call& call) {
  const DType activations = activations_of(call);
  if (activations == DType::kBF16 && !has_bf16_tiles())
    return "only AMX tiles multiply blocks in bf16";
  const std::vector<const QuantizedKernel*> kernels = kernels_of(call);
  for (size_t i = 0; i < kernels.size(); ++i)
    if (kernels[i] == nullptr) return missing_kernel(call.inputs[i + 1].dtype, activations);
  if (!is_glu(call)) return "";
  const DType gate = call.inputs[1].dtype, up = call.inputs[2].dtype;
  if (gate == up && kernels[0]->form != ActivationForm::kFloat32) return "";
  return fmt::format(
      "gate and up of a GLU have one type of blocks and rounded activations, not {} and {}",
      ridge::name(gate), ridge::name(up));
}

QuantizedMatrix matrix(const Operand& weight) {
  return {weight.type.dtype, weight.type.shape[0], weight.type.shape[1], weight.data};
}

bool is_gemv(const QuantizedKernel* kernel) { return kernel != nullptr && kernel->is_gemv(); }

// The form to which the call's activations are rounded; fp32 if no weight needs that.
ActivationForm form_of(const Call& call) {
  for (const QuantizedKernel* kernel : kernels_of(call))
    if (kernel != nullptr && kernel->form != ActivationForm::kFloat32) return kernel->form;
  return ActivationForm::kFloat32;
}

int64_t activation_bytes(const Call& call) {
  const Shape& x = call.inputs[0].shape;
  return activation_bytes(form_of(call), x[0], x[1]);
}

// The rounded activations, then x up^T of a GLU on the GEMV path.
int64_t workspace_bytes(const Call& call) {
  const bool keeps_up = is_glu(call) && is_gemv(kernels_of(call)[0]);
  const int64_t up = call.inputs[0].shape[0] * call.inputs[1].shape[0];
  return activation_bytes(call) + (keeps_up ? storage_bytes(DType::kF32, up) : 0);
}

// The paths of one launch share these.
struct Bound {
  StridedRows<const float> x;
  int64_t tokens, in;
  std::byte* workspace;
  QuantizedMatrix next;
};

Launch round(const Bound& b, ActivationForm form) {
  if (form == ActivationForm::kBf16Tiles)
    return [x = b.x, tiles = ActivationTiles{b.tokens, b.in, b.workspace}] {
      round_activations(x, tiles);
    };
  return [x = b.x, rounded = QuantizedActivations{b.tokens, b.in, b.workspace, form}] {
    quantize_activations(x, rounded);
  };
}

Launch multiply(std::vector<QuantizedProduct> products, const Bound& b) {
  const QuantizedKernel& kernel = *products[0].kernel;
  const QuantizedActivations rounded{b.tokens, b.in, b.workspace, kernel.form};
  switch (kernel.path) {
    case QuantizedPath::kGemvExact:
      return [=] { quantized_gemv_exact(products, b.x, b.tokens); };
    case QuantizedPath::kGemmExact:
      return [=] { quantized_gemm_exact(products, b.x, b.tokens); };
    case QuantizedPath::kGemv:
      return [=] { quantized_gemv(products, rounded, b.next); };
    case QuantizedPath::kGemm:
      return [=] { quantized_gemm(products, rounded); };
    case QuantizedPath::kGemmTiles:
      break;
  }
  return [products, tiles = ActivationTiles{b.tokens, b.in, b.workspace}] {
    quantized_gemm_tiles(products, tiles);
  };
}

std::vector<QuantizedProduct> products_of(const BindCall& call) {
  const std::vector<const QuantizedKernel*> kernels = kernels_of(call.call());
  std::vector<QuantizedProduct> products;
  for (size_t o = 0; o < call.outputs.size(); ++o) {
    RIDGE_CHECK(kernels[o] != nullptr, "no kernel multiplies {}",
                ridge::name(call.inputs[o + 1].type.dtype));
    products.push_back(
        {matrix(call.inputs[o + 1]), rows<float>(call.outputs[o]), false, {}, kernels[o]});
  }
  if (is_glu(call.call()))
    products[0].up = {matrix(call.inputs[2]),
                      glu_activation(call.attrs().text("glu")),
                      {reinterpret_cast<float*>(call.workspace + activation_bytes(call.call())),
                       products[0].weight.out}};
  return products;
}

// Rounds the activations, then multiplies the weights of each path in one launch.
Launch bind(const BindCall& call) {
  const Shape& x = call.inputs[0].type.shape;
  const Bound b{rows<const float>(call.inputs[0]), x[0], x[1], call.workspace,
                call.next_inputs.empty() ? QuantizedMatrix{} : matrix(call.next_inputs[1])};
  std::vector<Launch> launches;
  const ActivationForm form = form_of(call.call());
  if (form != ActivationForm::kFloat32) launches.push_back(round(b, form));
  std::vector<QuantizedProduct> left = products_of(call);
  while (!left.empty()) {
    const QuantizedPath path = left[0].kernel->path;
    const auto others = std::stable_partition(
        left.begin(), left.end(), [&](const auto& each) { return each.kernel->path == path; });
    launches.push_back(multiply({left.begin(), others}, b));
    left.erase(left.begin(), others);
  }
  return in_order(std::move(launches));
}

bool takes_input(const Call& call, int input, const Layout& layout) {
  return input == 0 && lies_in_rows(call, input, layout);
}

}  // namespace

bool is_batch_invariant(const Call& call) { return call.attrs.flag("batch_invariant"); }

bool has_quantized_weight(const Call& call) {
  return call.inputs[0].dtype == DType::kF32 && call.inputs[1].dtype != DType::kF32;
}

std::string unsupported_quantized(const Call& call) {
  if (!parse_einsum(call.attrs.text("einsum")).is_projection() || call.inputs.size() != 2)
    return "a quantized weight supports only the form nd,fd->nf";
  if (call.outputs[0].dtype != DType::kF32) return "a GEMM with a quantized weight returns f32";
  const DType weight = call.inputs[1].dtype;
  return kernels_of(call)[0] == nullptr ? missing_kernel(weight, DType::kF32) : "";
}

int64_t quantized_shared_bytes(const Call& call) {
  const std::vector<const QuantizedKernel*> kernels = kernels_of(call);
  int64_t bytes = 0;
  for (size_t i = 0; i < kernels.size(); ++i) {
    const Type& weight = call.inputs[i + 1];
    bytes += is_gemv(kernels[i]) ? storage_bytes(weight.dtype, weight.shape.elements())
                                 : call.inputs[0].shape[0] * weight.shape.elements();
  }
  return bytes;
}

Launch bind_quantized(const BindCall& call) { return bind(call); }

Kernel quantized_matmul_kernel() {
  return {.op = "quantized_matmul",
          .bind = bind,
          .takes_input = takes_input,
          .takes_output = output_lies_in_rows,
          .workspace_bytes = workspace_bytes,
          .unsupported = unsupported,
          .takes_quantized = true,
          .shared_bytes = quantized_shared_bytes};
}

}  // namespace ridge::backends::cpu
