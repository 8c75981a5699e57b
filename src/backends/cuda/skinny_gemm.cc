// SPDX-License-Identifier: Apache-2.0
// Bindings of skinny_gemm, and of matmuls of a few rows.
#include "backends/cuda/skinny_gemm.h"

#include <algorithm>
#include <bit>

#include "backends/cuda/early_operand.h"
#include "backends/cuda/kernel_table.h"
#include "backends/cuda/kernels/gemm/skinny_gemm.h"
#include "backends/cuda/kernels/gemm/streamed_gemm.h"
#include "backends/cuda/unpacked_product.h"
#include "backends/fragment_choice.h"
#include "backends/kernels/glu.h"
#include "base/error.h"
#include "base/fragment_tiles.h"
#include "graph/einsum.h"
#include "ops/skinny_gemm.h"

namespace ridge::backends::cuda {
namespace {

constexpr int64_t kVectorElements = 8;  // 16 bytes of bf16
constexpr int64_t kVectorBytes = 16;
constexpr int64_t kChunk = 32;

GemmActivation activation(const std::string& name) {
  if (name.empty()) return GemmActivation::kNone;
  switch (glu_activation(name)) {
    case GluActivation::kSilu:
      return GemmActivation::kSilu;
    case GluActivation::kGeluTanh:
      return GemmActivation::kGeluTanh;
  }
  throw InternalError("an activation without a value");
}

// y = x times weight.
SkinnyGemm product_of(const Operand& x, const Operand& weight, const Operand& y) {
  SkinnyGemm p;
  p.tokens = x.type.shape[0];
  p.in = x.type.shape[1];
  p.weight_rows = weight.type.shape[0];
  p.x = rows<const uint16_t>(x);
  if (!is_fragments(weight.type.dtype)) p.weight = rows<const uint16_t>(weight);
  p.y = y.data;
  p.y_stride = row_stride(y);
  p.y_is_f32 = y.type.dtype == DType::kF32;
  return p;
}

// The same for some tens of rows.
StreamedGemm streamed_product_of(const Operand& x, const Operand& weight, const Operand& y) {
  const SkinnyGemm few = product_of(x, weight, y);
  StreamedGemm p;
  p.tokens = few.tokens, p.in = few.in, p.weight_rows = few.weight_rows;
  p.x = few.x, p.weight = few.weight;
  p.y = few.y, p.y_stride = few.y_stride, p.y_is_f32 = few.y_is_f32;
  return p;
}

Launch launch_of(const SkinnyGemm& p,
                 const Operand& weight,
                 std::byte* workspace,
                 const char* op,
                 BindContext& context) {
  if (!is_fragments(weight.type.dtype)) return launch_on(context.device, op, launch_skinny_gemm, p);
  const FragmentGemm call{p, weight.as<const uint8_t>(), fragment_format(weight.type.dtype),
                          workspace};
  return launch_on(context.device, op, launch_fragment_gemm, call);
}

// The sizes of a product with a weight in fragment tiles.
FragmentGemm fragment_sizes(const Call& call) {
  FragmentGemm p;
  p.product.tokens = call.inputs[0].shape[0];
  p.product.in = call.inputs[0].shape[1];
  p.product.weight_rows = call.inputs[1].shape[0];
  p.format = fragment_format(call.inputs[1].dtype);
  return p;
}

bool is_multiplied_in_tiles(const Call& call) {
  return backends::is_multiplied_in_tiles(call.inputs[0].shape[0],
                                          call.inputs[1].shape.elements()) &&
         takes_fragment_gemm(fragment_sizes(call));
}

bool is_bf16_projection(const Call& call) {
  return call.inputs.size() == 2 && parse_einsum(call.attrs.text("einsum")).is_projection() &&
         call.inputs[0].dtype == DType::kBF16 && call.inputs[1].dtype == DType::kBF16;
}

// The product of dense tensors, without their addresses.
StreamedGemm dense_product(const Shape& x, const Shape& weight, GemmActivation activation) {
  StreamedGemm p;
  p.tokens = x[0], p.in = x[1], p.weight_rows = weight[0];
  p.x.stride = p.weight.stride = p.in;
  p.activation = activation;
  p.y_stride = activation == GemmActivation::kNone ? p.weight_rows : p.weight_rows / 2;
  return p;
}

// Two rows take equally long in either kernel. Of few rows, skinny_gemm norms them in each of its
// blocks, which short rows do not hide, and a weight of few rows makes few blocks.
bool is_faster_streamed(const StreamedGemm& p) {
  constexpr int64_t kFewestTokens = 3, kNarrow = 2048;
  if (p.tokens < kFewestTokens || !takes_streamed_gemm(p)) return false;
  return p.tokens > kSkinnyGemmMostTokens || std::min(p.weight_rows, p.in) <= kNarrow;
}

bool is_streamed(const ops::SkinnyGemm& shape, const StreamedGemm& p) {
  const bool is_fused = shape.norm >= 0 || shape.residual >= 0;
  return shape.tokens > kSkinnyGemmMostTokens || (!is_fused && is_faster_streamed(p));
}

Launch bind(const BindCall& call, BindContext& context) {
  const ops::SkinnyGemm shape = ops::skinny_gemm_shape(call.call());
  StreamedGemm streamed = streamed_product_of(call.inputs[0], call.inputs[1], call.outputs[0]);
  streamed.is_ready_early = is_ready_early(call, 1);
  streamed.activation = activation(call.attrs().text("activation"));
  if (is_streamed(shape, streamed) && !has_fragments(call.call()))
    return launch_on(context.device, "skinny_gemm", launch_streamed_gemm, streamed);
  auto input = [&](int i) -> const Operand& { return call.inputs[static_cast<size_t>(i)]; };
  SkinnyGemm p = product_of(call.inputs[0], call.inputs[1], call.outputs[0]);
  if (shape.norm >= 0) p.norm = input(shape.norm).as<const float>();
  if (shape.delta >= 0) {
    p.delta = rows<const uint16_t>(input(shape.delta));
    p.delta_norm = input(shape.delta_norm).as<const float>();
    p.sum = rows<uint16_t>(call.outputs[1]);
  }
  p.is_ready_early = is_ready_early(call, 1);
  for (int norm : {shape.norm, shape.delta_norm})
    if (norm >= 0)
      p.is_ready_early = p.is_ready_early && is_ready_early(call, static_cast<size_t>(norm));
  p.eps = static_cast<float>(call.attrs().real("eps"));
  p.norm_offset = static_cast<float>(call.attrs().real("offset"));
  p.activation = activation(call.attrs().text("activation"));
  if (shape.residual >= 0) p.residual = rows<const uint16_t>(input(shape.residual));
  return launch_of(p, call.inputs[1], call.workspace, "skinny_gemm", context);
}

bool takes_input(const Call& call, int input, const Layout& layout) {
  ops::SkinnyGemm shape = ops::skinny_gemm_shape(call);
  if (input != 0 && input != shape.delta && input != shape.residual) return false;
  const Shape& rows = call.inputs[static_cast<size_t>(input)].shape;
  // The copy engine takes no row twice.
  const bool is_repeated = layout.strides[0] == 0 && rows[0] > kSkinnyGemmMostTokens;
  return lies_in_vectors(rows, layout) && !is_repeated;
}

// Beyond the few rows a gated activation alone is fused: other sums and norms read and write little
// beside the weight.
std::string unsupported_by_streamed(const Call& call, const ops::SkinnyGemm& shape) {
  const StreamedGemm p = dense_product(call.inputs[0].shape, call.inputs[1].shape,
                                       activation(call.attrs.text("activation")));
  const bool is_fused = shape.norm >= 0 || shape.residual >= 0;
  const bool is_taken = has_fragments(call) ? is_multiplied_in_tiles(call) : takes_streamed_gemm(p);
  if (p.activation != GemmActivation::kNone && !is_fused && is_taken) return "";
  return fmt::format(
      "expected at most {} rows, or up to {} on Hopper with an activation, without norms and a "
      "residual, got {}",
      kSkinnyGemmMostTokens, kStreamedGemmMostTokens, p.tokens);
}

std::string unsupported(const Call& call) {
  ops::SkinnyGemm p = ops::skinny_gemm_shape(call);
  if (call.inputs[0].dtype != DType::kBF16)
    return fmt::format("expected x in bf16, got {}", call.inputs[0].str());
  if (p.residual >= 0 && p.y.dtype != DType::kBF16)
    return fmt::format("expected a residual in bf16, got {}", p.y.str());
  if (p.out == 0) return "expected at least one row of the weight, got none";
  if (is_block(call.inputs[1].dtype) && !has_fragments(call))
    return fmt::format("expected a weight in bf16 or fragment tiles, got {}", call.inputs[1].str());
  if (has_fragments(call)) {
    const int64_t rows = call.inputs[1].shape[0], step = 2 * kFragmentRows;
    if (!call.attrs.text("activation").empty() && rows % step != 0)
      return fmt::format("expected a multiple of {} rows of gate and up, got {}", step, rows);
    FragmentGemm sizes = fragment_sizes(call);
    const float any_norm = 0;
    if (p.norm >= 0) sizes.product.norm = &any_norm;
    if (p.tokens <= kSkinnyGemmMostTokens && !takes_fragment_gemm(sizes))
      return fmt::format("expected rows that fit into shared memory, got {} columns", p.in);
  }
  if (p.tokens > kSkinnyGemmMostTokens) return unsupported_by_streamed(call, p);
  if (p.in % kChunk != 0 || p.in == 0)
    return fmt::format("expected a multiple of {} columns, got {}", kChunk, p.in);
  if (p.norm >= 0 && p.tokens * p.in > kSkinnyGemmMostNormed)
    return fmt::format("expected at most {} elements to norm, got {} rows of {}",
                       kSkinnyGemmMostNormed, p.tokens, p.in);
  return "";
}

int launches(const Call& call) { return has_fragments(call) ? fragment_launches(call) : 1; }

int64_t workspace_bytes(const Call& call) {
  return has_fragments(call) ? fragment_workspace_bytes(call) : 0;
}

int doublings(int64_t tokens) { return std::bit_width(static_cast<uint64_t>(tokens - 1)); }

int rounds(const Call& call) {
  const ops::SkinnyGemm shape = ops::skinny_gemm_shape(call);
  if (has_fragments(call)) return fragment_gemm_rounds(shape.tokens);
  const StreamedGemm streamed = dense_product(call.inputs[0].shape, call.inputs[1].shape,
                                              activation(call.attrs.text("activation")));
  if (is_streamed(shape, streamed)) return streamed_gemm_rounds(shape.tokens);
  return skinny_gemm_rounds(shape.tokens, (shape.norm >= 0 ? 1 : 0) + (shape.delta >= 0 ? 1 : 0));
}

}  // namespace

int skinny_gemm_rounds(int64_t tokens, int norms) {
  return (norms == 0 ? 2 : 1) + norms * 2 + norms * doublings(tokens) * 3 / 2;
}

int fragment_gemm_rounds(int64_t tokens) { return 9 + doublings(tokens); }

int streamed_gemm_rounds(int64_t tokens) {
  constexpr int64_t kFew = 16;
  return tokens <= kFew ? 6 : 7;
}

bool prefers_streamed_gemm(const Shape& x, const Shape& weight, bool has_activation) {
  const GemmActivation any = has_activation ? GemmActivation::kSilu : GemmActivation::kNone;
  return is_faster_streamed(dense_product(x, weight, any));
}

bool lies_in_vectors(const Shape& shape, const Layout& layout) {
  std::optional<int64_t> stride = row_stride(shape, layout);
  return stride && *stride % kVectorElements == 0 && layout.offset % kVectorElements == 0;
}

bool is_fragment_gemm(const Call& call) {
  return has_fragments(call) && call.inputs.size() == 2 &&
         parse_einsum(call.attrs.text("einsum")).is_projection() &&
         call.inputs[0].dtype == DType::kBF16 && is_multiplied_in_tiles(call);
}

int fragment_launches(const Call& call) { return fragment_gemm_launches(fragment_sizes(call)); }

int64_t fragment_workspace_bytes(const Call& call) {
  return fragment_gemm_workspace_bytes(fragment_sizes(call));
}

bool is_skinny_gemm(const Call& call) {
  return is_bf16_projection(call) && call.inputs[0].shape[0] <= kSkinnyGemmMostTokens &&
         call.inputs[0].shape[1] % kChunk == 0;
}

bool is_streamed_gemm(const Call& call) {
  return is_bf16_projection(call) &&
         prefers_streamed_gemm(call.inputs[0].shape, call.inputs[1].shape, false);
}

std::optional<Launch> bind_skinny_gemm(const BindCall& call, BindContext& context) {
  if (!is_skinny_gemm(call.call()) && !is_fragment_gemm(call.call())) return std::nullopt;
  const Operand &x = call.inputs[0], &weight = call.inputs[1], &y = call.outputs[0];
  for (const Operand* operand : {&x, &weight}) {
    if (is_fragments(operand->type.dtype)) continue;
    if (!lies_in_vectors(operand->type.shape, {0, operand->strides}) ||
        reinterpret_cast<uintptr_t>(operand->data) % kVectorBytes != 0)
      return std::nullopt;
  }
  if (!row_stride(y.type.shape, {0, y.strides})) return std::nullopt;
  SkinnyGemm p = product_of(x, weight, y);
  p.is_ready_early = is_ready_early(call, 1);
  return launch_of(p, weight, call.workspace, "matmul", context);
}

std::optional<Launch> bind_streamed_gemm(const BindCall& call, BindContext& context) {
  if (!is_bf16_projection(call.call()) || !is_ready_early(call, 1)) return std::nullopt;
  const Operand &x = call.inputs[0], &weight = call.inputs[1], &y = call.outputs[0];
  for (const Operand* operand : {&x, &weight, &y})
    if (!row_stride(operand->type.shape, {0, operand->strides})) return std::nullopt;
  StreamedGemm p = streamed_product_of(x, weight, y);
  p.is_ready_early = true;
  if (!is_faster_streamed(p)) return std::nullopt;
  return launch_on(context.device, "matmul", launch_streamed_gemm, p);
}

Kernel skinny_gemm_kernel(BindContext& context) {
  return {.op = "skinny_gemm",
          .bind = in_context(bind, context),
          .takes_input = takes_input,
          .vector_bytes = kVectorBytes,
          .workspace_bytes = workspace_bytes,
          .unsupported = unsupported,
          .takes_quantized = true,
          .launches = launches,
          .rounds_of = rounds};
}

}  // namespace ridge::backends::cuda
