// SPDX-License-Identifier: Apache-2.0
// The table of kinds.
#include "record/operation_kind.h"

#include <unordered_map>

namespace ridge::record {
namespace {

struct Kind {
  std::string_view name;
  std::initializer_list<std::string_view> ops;
};

constexpr std::string_view kElementwise = "elementwise and norms";

const Kind kKinds[] = {
    {"matmul", {"matmul", "einsum", "matmul_group", "row_product", "ladder_gemm"}},
    {"attention",
     {"attention", "flash_attention", "flash_attention_backward", "cached_attention",
      "append_attention", "cached_scores", "cached_mask", "cached_mix"}},
    {"softmax and loss",
     {"softmax", "softmax_backward", "log_softmax", "log_softmax_backward", "nll_loss",
      "nll_loss_backward", "softmax_cross_entropy", "softmax_cross_entropy_backward", "causal_mask",
      "mse_loss", "mse_loss_backward"}},
    {"embedding", {"embedding", "embedding_backward"}},
    {kElementwise,
     {"add", "sub", "mul", "div", "neg", "scale", "add_scalar", "square", "exp", "log", "tanh",
      "sqrt", "rsqrt", "reciprocal", "sigmoid", "silu", "gelu_tanh", "silu_backward",
      "gelu_tanh_backward", "generated_pointwise", "glu", "glu_backward", "rope", "rope_qkv",
      "rope_qkv_backward", "rope_table", "rope_append", "rms_norm", "rms_norm_backward",
      "add_rms_norm", "reduce_sum", "accumulate",
      // Only in traces of other programs.
      "pointwise", "remainder", "abs", "sign", "round", "pow", "sin", "cos", "erf", "tanh_backward",
      "sigmoid_backward", "gelu", "gelu_backward", "relu", "relu_backward", "clamp", "maximum",
      "minimum", "lerp", "addcmul", "addcdiv", "where", "dropout", "dropout_backward", "cumsum",
      "softcap", "compare", "layer_norm", "layer_norm_backward", "reduce_mean", "reduce_variance",
      "reduce_product", "reduce_max", "reduce_any", "reduce_norm", "reduce_log_sum_exp"}},
    {"data movement",
     {"copy", "concat", "rearrange", "cast", "fill", "zero", "transpose_multi", "kv_append",
      "gather", "scatter"}},
    {"views", {"view", "allocate", "read_back"}},
    {kOptimizerKind,
     {"adamw", "adamw_multi", "sum_squares", "clip_coefficient", "loss_scale", "adam", "sgd",
      "adagrad"}},
    {"sampling", {"sample", "sort"}},
    {"collectives", {"collective"}},
};

std::unordered_map<std::string_view, std::string_view> kinds_by_op() {
  std::unordered_map<std::string_view, std::string_view> kinds;
  for (const Kind& kind : kKinds)
    for (const std::string_view op : kind.ops) kinds.emplace(op, kind.name);
  return kinds;
}

}  // namespace

std::string_view operation_kind(std::string_view op) {
  static const auto kByOp = kinds_by_op();
  const auto found = kByOp.find(op);
  return found == kByOp.end() ? kOtherKind : found->second;
}

}  // namespace ridge::record
