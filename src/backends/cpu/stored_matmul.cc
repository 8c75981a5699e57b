// SPDX-License-Identifier: Apache-2.0
// Exact mode: fp32 activations and sums, one call of kernels/quantized_matmul.h a node.
#include "backends/cpu/stored_matmul.h"

#include "backends/cpu/cpu_kernel.h"
#include "backends/cpu/kernels/quantized_matmul.h"
#include "base/error.h"
#include "graph/einsum.h"

namespace ridge::backends::cpu {

bool has_stored_weight(const Call& call) {
  return call.inputs[0].dtype == DType::kF32 && call.inputs[1].dtype != DType::kF32;
}

std::string unsupported_stored(const Call& call) {
  Einsum e = parse_einsum(call.attrs.text("einsum"));
  bool is_projection = e.a.size() == 2 && e.b.size() == 2 && e.batch.empty() && e.k.size() == 1 && e.a[1] == e.b[1] &&
                       e.out == std::string{e.a[0], e.b[0]};
  if (!is_projection || call.inputs.size() != 2)
    return "a weight as it is stored is multiplied in the form nd,fd->nf alone";
  DType weight = call.inputs[1].dtype;
  if (!supports_quantized(weight)) return fmt::format("no product takes a weight of {}", ridge::name(weight));
  if (call.outputs[0].dtype != DType::kF32) return "a product with a weight as it is stored gives f32";
  return "";
}

int64_t stored_workspace_bytes(const Call&) { return 0; }

Launch bind_stored(const BindCall& call) {
  const Type& weight = call.inputs[1].type;
  QuantizedProduct product{{weight.dtype, weight.shape[0], weight.shape[1], call.inputs[1].data},
                           rows<float>(call.outputs[0])};
  Rows<const float> x = rows<const float>(call.inputs[0]);
  int64_t tokens = call.inputs[0].type.shape[0];
  if (tokens <= kGemvTokens) return [product, x, tokens] { quantized_gemv_exact({&product, 1}, x, tokens); };
  return [product, x, tokens] { quantized_gemm_exact({&product, 1}, x, tokens); };
}

}  // namespace ridge::backends::cpu
