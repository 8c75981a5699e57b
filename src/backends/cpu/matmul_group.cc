// SPDX-License-Identifier: Apache-2.0
// Binding of products with stored weights to kernels/quantized/matmul.h, which documents how the
// forms are chosen.
#include "backends/cpu/matmul_group.h"

#include <algorithm>
#include <vector>

#include "backends/cpu/isa.h"
#include "backends/cpu/kernel_table.h"
#include "backends/cpu/kernels/partition.h"
#include "backends/cpu/kernels/quantized/matmul.h"
#include "backends/cpu/kernels/quantized/tiles.h"
#include "backends/row_layout.h"
#include "base/error.h"
#include "base/row_panels.h"
#include "graph/einsum.h"

namespace ridge::backends::cpu {
namespace {

std::string unsupported_weight(DType weight) {
  return supports_quantized(weight)
             ? ""
             : fmt::format("no kernel multiplies weights of type {}", ridge::name(weight));
}

bool any_panels(const Call& call) {
  const auto weights = call.inputs.subspan(1);
  return std::any_of(weights.begin(), weights.end(),
                     [](const Type& weight) { return is_panels(weight.dtype); });
}

bool all_panels(const Call& call) {
  const auto weights = call.inputs.subspan(1);
  return std::all_of(weights.begin(), weights.end(),
                     [](const Type& weight) { return is_panels(weight.dtype); });
}

// Whether the kernels for few tokens compute it.
bool is_for_few(const Call& call) {
  // A matmul with a stored weight keeps its activations.
  const std::string form = call.attrs.has("activations") ? call.attrs.text("activations") : "f32";
  const bool is_direct = (form == "i8" || form == "i16") && all_panels(call) &&
                         few_token_codes(true) == Codes::kTwoBytes;
  const int64_t most = is_direct ? kDirectVectors / (form == "i8" ? 1 : 2) : kGemvTokens;
  return call.inputs[0].shape[0] <= most && !is_batch_invariant(call);
}

bool is_rounded(const Call& call, size_t input) {
  return call.attrs.text("activations") != "f32" && supports_fast(call.inputs[input].dtype);
}

bool is_glu(const Call& call) { return !call.attrs.text("glu").empty(); }

std::string unsupported_glu(const Call& call) {
  const DType gate = call.inputs[1].dtype, up = call.inputs[2].dtype;
  if (gate == up && is_rounded(call, 1)) return "";
  return fmt::format(
      "gate and up of a GLU have one type of blocks and rounded activations, not {} and {}",
      ridge::name(gate), ridge::name(up));
}

std::string unsupported(const Call& call) {
  if (call.attrs.text("activations") == "bf16" && !has_bf16_tiles())
    return "only AMX tiles multiply blocks in bf16";
  for (const Type& weight : call.inputs.subspan(1)) {
    if (call.attrs.text("activations") == "i8" && is_block(weight.dtype) && takes_panels() &&
        !multiplies_bytes(weight.dtype))
      return fmt::format("weights in {} are multiplied by 8-bit activations with AVX-512 VNNI only",
                         ridge::name(weight.dtype));
    if (is_panels(weight.dtype) && (!takes_panels() || call.attrs.text("activations") == "f32"))
      return "panels of rows are multiplied in codes, from AVX2 on, or in bf16 tiles (AMX)";
    std::string missing = unsupported_weight(weight.dtype);
    if (!missing.empty()) return missing;
  }
  return is_glu(call) ? unsupported_glu(call) : "";
}

QuantizedMatrix matrix(const Operand& weight) {
  return {weight.type.dtype, weight.type.shape[0], weight.type.shape[1], weight.data};
}

QuantizedProduct product(const Operand& weight, const Operand& y) {
  return {matrix(weight), rows<float>(y)};
}

// Where few tokens keep x up^T.
int64_t up_bytes(const Call& call) {
  const int64_t tokens = call.inputs[0].shape[0];
  return tokens <= kDirectVectors ? bytes_of<float>(tokens * call.inputs[1].shape[0]) : 0;
}

Launch bind_exact(std::vector<QuantizedProduct> products,
                  StridedRows<const float> x,
                  const Call& call) {
  const int64_t tokens = call.inputs[0].shape[0];
  if (is_for_few(call))
    return
        [products = std::move(products), x, tokens] { quantized_gemv_exact(products, x, tokens); };
  return [products = std::move(products), x, tokens] { quantized_gemm_exact(products, x, tokens); };
}

bool takes_tiles(const Call& call) { return call.attrs.text("activations") == "bf16"; }

Launch bind_tiles(std::vector<QuantizedProduct> products,
                  StridedRows<const float> x,
                  const ActivationTiles& tiles) {
  return [products = std::move(products), x, tiles] {
    round_activations(x, tiles);
    quantized_gemm_tiles(products, tiles);
  };
}

Launch bind_codes(std::vector<QuantizedProduct> products,
                  StridedRows<const float> x,
                  const QuantizedActivations& codes,
                  const Call& call,
                  const QuantizedMatrix& next) {
  if (is_for_few(call))
    return [products = std::move(products), x, codes, next] {
      quantize_activations(x, codes);
      quantized_gemv(products, codes, next);
    };
  return [products = std::move(products), x, codes, next] {
    quantize_activations(x, codes);
    quantized_gemm(products, codes, next);
  };
}

// The activations as codes, without a data pointer yet.
QuantizedActivations codes_of(const Call& call) {
  const Shape& x = call.inputs[0].shape;
  const Codes form = call.attrs.text("activations") == "i8" ? Codes::kByte
                     : is_for_few(call)                     ? few_token_codes(any_panels(call))
                                                            : Codes::kWord;
  return {x[0], x[1], nullptr, form};
}

Launch bind_rounded(std::vector<QuantizedProduct> products,
                    StridedRows<const float> x,
                    const BindCall& call) {
  const Shape& shape = call.inputs[0].type.shape;
  if (takes_tiles(call.call()))
    return bind_tiles(std::move(products), x, {shape[0], shape[1], call.workspace});
  QuantizedActivations codes = codes_of(call.call());
  codes.data = call.workspace;
  return bind_codes(std::move(products), x, codes, call.call(),
                    call.next_inputs.empty() ? QuantizedMatrix{} : matrix(call.next_inputs[1]));
}

int64_t activation_bytes(const Call& call) {
  const Shape& x = call.inputs[0].shape;
  return takes_tiles(call) ? ActivationTiles{x[0], x[1], nullptr}.bytes() : codes_of(call).bytes();
}

Launch bind_glu(const BindCall& call) {
  QuantizedProduct glu = product(call.inputs[1], call.outputs[0]);
  glu.up = {
      matrix(call.inputs[2]),
      glu_activation(call.attrs().text("glu")),
      {reinterpret_cast<float*>(call.workspace + activation_bytes(call.call())), glu.weight.out}};
  return bind_rounded({glu}, rows<const float>(call.inputs[0]), call);
}

Launch bind(const BindCall& call) {
  if (is_glu(call.call())) return bind_glu(call);
  std::vector<QuantizedProduct> rounded, exact;
  for (size_t i = 1; i < call.inputs.size(); ++i)
    (is_rounded(call.call(), i) ? rounded : exact)
        .push_back(product(call.inputs[i], call.outputs[i - 1]));
  StridedRows<const float> x = rows<const float>(call.inputs[0]);
  if (rounded.empty()) return bind_exact(std::move(exact), x, call.call());
  Launch first = bind_rounded(std::move(rounded), x, call);
  if (exact.empty()) return first;
  return [first, second = bind_exact(std::move(exact), x, call.call())] {
    first();
    second();
  };
}

// The rounded activations, then x up^T of a GLU.
int64_t workspace_bytes(const Call& call) {
  for (size_t i = 1; i < call.inputs.size(); ++i)
    if (is_rounded(call, i)) return activation_bytes(call) + (is_glu(call) ? up_bytes(call) : 0);
  return 0;
}

bool takes_input(const Call& call, int input, const Layout& layout) {
  return input == 0 && lies_in_rows(call, input, layout);
}

}  // namespace

bool is_batch_invariant(const Call& call) { return call.attrs.flag("batch_invariant"); }

bool has_stored_weight(const Call& call) {
  return call.inputs[0].dtype == DType::kF32 && call.inputs[1].dtype != DType::kF32;
}

std::string unsupported_stored(const Call& call) {
  if (!parse_einsum(call.attrs.text("einsum")).is_projection() || call.inputs.size() != 2)
    return "a weight as stored supports only the form nd,fd->nf";
  if (call.outputs[0].dtype != DType::kF32) return "a GEMM with a weight as stored returns f32";
  return unsupported_weight(call.inputs[1].dtype);
}

int64_t stored_shared_bytes(const Call& call) {
  const int64_t tokens = call.inputs[0].shape[0];
  int64_t bytes = 0;
  for (const Type& weight : call.inputs.subspan(1))
    bytes += is_for_few(call) ? storage_bytes(weight.dtype, weight.shape.elements())
                              : tokens * weight.shape.elements();
  return bytes;
}

// With AMX tiles, prompts are rounded to bf16, which keeps 8 bits of each number. For decoded
// tokens, 8 bits per block are in line with that, and half as many multiplications save 10% of a
// token's time. Up to kDirectVectors tokens are in bytes, for tiles would unpack the weights for
// them: 5 sequences of SmolLM2 made 356 tokens/s with tiles and make 1,100, 16 made 817 and 1,145.
std::string_view rounded_activations(int64_t tokens, int bits) {
  if (has_bf16_tiles()) return tokens > kDirectVectors ? "bf16" : "i8";
  return bits == 8 ? "i8" : "i16";
}

bool has_byte_products() { return takes_panels(); }

Launch bind_stored(const BindCall& call) {
  return bind_exact({product(call.inputs[1], call.outputs[0])}, rows<const float>(call.inputs[0]),
                    call.call());
}

Kernel matmul_group_kernel() {
  return {.op = "matmul_group",
          .bind = bind,
          .takes_input = takes_input,
          .takes_output = output_lies_in_rows,
          .workspace_bytes = workspace_bytes,
          .unsupported = unsupported,
          .takes_stored = true,
          .shared_bytes = stored_shared_bytes};
}

}  // namespace ridge::backends::cpu
