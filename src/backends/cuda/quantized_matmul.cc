// SPDX-License-Identifier: Apache-2.0
// Binding of quantized_matmul, with bf16 and fp32 weights: one launch per weight.
#include "backends/cuda/kernels/gemm/quantized_matmul.h"

#include "backends/cuda/kernel_table.h"
#include "backends/in_order.h"

namespace ridge::backends::cuda {
namespace {

Launch bind(const BindCall& call, BindContext& context) {
  std::vector<Launch> products;
  for (size_t i = 0; i < call.outputs.size(); ++i) {
    const Operand& weight = call.inputs[i + 1];
    products.push_back(by_dtype(weight.type.dtype, [&](auto element) -> Launch {
      using Weight = decltype(element);
      QuantizedGemm<Weight> product;
      product.tokens = call.inputs[0].type.shape[0];
      product.in = weight.type.shape[1];
      product.out = weight.type.shape[0];
      product.x = call.inputs[0].as<const float>();
      product.weight = weight.as<const Weight>();
      product.y = call.outputs[i].as<float>();
      return launch_on(context.device, "quantized_matmul", launch_quantized_gemm<Weight>, product);
    }));
  }
  return in_order(std::move(products));
}

int launches(const Call& call) { return static_cast<int>(call.inputs.size()) - 1; }

std::string unsupported(const Call& call) {
  if (call.attrs.text("activations") != "f32") return "the cuda backend does not round activations";
  if (!call.attrs.text("glu").empty()) return "the cuda backend computes a GLU in another kernel";
  return "";
}

}  // namespace

Kernel quantized_matmul_kernel(BindContext& context) {
  return {.op = "quantized_matmul",
          .bind = in_context(bind, context),
          .unsupported = unsupported,
          .launches = launches};
}

}  // namespace ridge::backends::cuda
