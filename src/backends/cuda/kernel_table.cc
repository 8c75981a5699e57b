// SPDX-License-Identifier: Apache-2.0
// Lists one kernel per op. Rounds are dependent memory round trips (see kernel.h).
#include "backends/cuda/kernel_table.h"

#include <fmt/format.h>

#include "backends/bind/bindings.h"
#include "backends/cuda/kernels/adamw.h"
#include "backends/cuda/kernels/cache/cached_attention.h"
#include "backends/cuda/kernels/copy/fill.h"
#include "backends/cuda/kernels/embedding/embedding.h"
#include "backends/cuda/kernels/losses/nll_loss.h"
#include "backends/cuda/kernels/losses/softmax_cross_entropy.h"
#include "backends/cuda/kernels/pointwise/glu.h"
#include "backends/cuda/kernels/reduce/reduce.h"
#include "backends/cuda/kernels/rms_norm/rms_norm.h"
#include "backends/cuda/kernels/rope/rope.h"
#include "backends/cuda/kernels/sample.h"
#include "backends/cuda/kernels/softmax/causal_mask.h"
#include "backends/cuda/kernels/softmax/log_softmax.h"
#include "backends/cuda/kernels/softmax/softmax.h"
#include "backends/cuda/on_stream.h"
#include "backends/cuda/strided_copy.h"

namespace ridge::backends::cuda {
namespace {

bind::Copier copier(const char* op, BindContext& context, bool accumulate = false) {
  return [op, accumulate, &device = context.device](const Operand& from, const Operand& to) {
    return bind_copy(from, to, accumulate, op, device);
  };
}

int concat_launches(const Call& call) { return static_cast<int>(call.inputs.size()); }

template <typename T>
cudaError_t launch_sum_of_rows(const AddRmsNorm<T>& call, cudaStream_t stream) {
  return launch_add_rms_norm(call.norm, call.residual, call.sum, stream);
}

cudaError_t launch_update(const bind::AdamwUpdate& call, cudaStream_t stream) {
  return launch_adamw(call.tensors, call.step, call.is_background, stream);
}

int adamw_node_launches(const Call& call) { return adamw_launches(bind::adamw_tensor_count(call)); }

cudaError_t launch_all_squares(const bind::SquaresSum& sum, cudaStream_t stream) {
  return launch_sum_squares({sum.tensors, sum.y, sum.workspace}, stream);
}

int squares_launches(const Call& call) { return sum_squares_launches(bind::squares_of(call)); }

cudaError_t launch_clip(const ClipCoefficient& call, cudaStream_t stream) {
  return launch_clip_coefficient(call.sum_squares, call.max_norm, call.norm_epsilon,
                                 call.coefficient, stream);
}

// With an empty vocabulary no thread would run that could reject the labels.
std::string no_vocabulary(const Call& call) {
  if (call.inputs[0].shape.back() > 0) return "";
  return fmt::format("expected a vocabulary of at least one, got {}", call.inputs[0].str());
}

std::string large_vocabulary(const Call& call) {
  if (call.inputs[0].shape[1] <= kSampleMostVocabulary) return "";
  return fmt::format("expected a vocabulary of at most {}, got {}", kSampleMostVocabulary,
                     call.inputs[0].shape[1]);
}

// Scores and mixes of few tokens, fitted to kernel times of an H200
// (docs/runs/2026-11-30-study-inference-h200.md). Tiles of many tokens overlap their trips.
bool has_few_tokens(const Call& call) {
  constexpr int64_t kFewTokens = 64;
  return call.inputs[0].shape[0] <= kFewTokens;
}

// Blocks of 64 keys; those of a second wave begin as those of the first end.
int scores_rounds(const Call& call) {
  constexpr int64_t kKeys = 64, kBlocksAtOnce = 1024;
  if (!has_few_tokens(call)) return 3;
  const Shape& scores = call.outputs[0].shape;
  return scores[0] * scores[1] * ceil_div(scores[2], kKeys) <= kBlocksAtOnce ? 8 : 16;
}

// A block reads 256 values after the other.
int mix_rounds(const Call& call) {
  constexpr int64_t kValues = 256;
  return has_few_tokens(call) ? 3 + 8 * static_cast<int>(ceil_div(call.inputs[0].shape[2], kValues))
                              : 3;
}

// Sine and cosine in double: a trip for so many.
int table_rounds(const Call& call) {
  constexpr int64_t kEntries = 32 << 10;
  return 2 + static_cast<int>(call.outputs[0].shape.elements() / kEntries);
}

// One ticket per row.
Launcher<Sample> sample_launcher(BindContext& context) {
  return [&context](const Sample& call, const char* op) {
    return launch_on(context.device, op, launch_sample,
                     Ticketed<Sample>{call, context.tickets.take(call.rows)});
  };
}

bind::SumKernels sum_kernels(const OnStream& on_stream) {
  constexpr int64_t kAlignment = 16;
  return {
      .backend = "cuda",
      .rows = on_stream(launch_reduce_rows<float, float>, launch_reduce_rows<uint16_t, uint16_t>),
      .rows_to_f32 =
          on_stream(launch_reduce_rows<float, float>, launch_reduce_rows<uint16_t, float>),
      .columns =
          on_stream(launch_sum_columns<float, float>, launch_sum_columns<uint16_t, uint16_t>),
      .columns_of_f32 =
          on_stream(launch_sum_columns<float, float>, launch_sum_columns<float, uint16_t>),
      .columns_workspace_bytes = sum_columns_workspace_bytes,
      .workspace_alignment = kAlignment,
      .columns_launches = sum_columns_launches};
}

PairLaunchers<Embedding> embeddings(const OnStream& on_stream) {
  const IndexNames ids = ids_of("embedding");
  return {on_stream(launch_embedding<float, float>, launch_embedding<float, uint16_t>, ids),
          on_stream(launch_embedding<uint16_t, float>, launch_embedding<uint16_t, uint16_t>, ids)};
}

}  // namespace

std::vector<Kernel (*)(BindContext&)>& added_kernels() {
  static std::vector<Kernel (*)(BindContext&)> makers;
  return makers;
}

std::vector<Kernel> cuda_kernels(BindContext& context) {
  const OnStream on_stream(context);
  const IndexNames labels = labels_of("nll_loss"),
                   logits_labels = labels_of("softmax_cross_entropy"),
                   part_labels = labels_of("cross_entropy_part");
  const TypedLaunchers<Fill> fill_floats = on_stream(RIDGE_LAUNCHES(fill));
  const TypedLaunchers<Rope> rope_heads = on_stream(RIDGE_LAUNCHES(rope));
  std::vector<Kernel> kernels = {
      bind::copy(copier("copy", context)),
      bind::concat(copier("concat", context)).in_launches(concat_launches),
      bind::fill(fill_floats, on_stream(launch_fill<int32_t>)),
      bind::zero(fill_floats),
      pointwise_kernel(context),
      generated_pointwise_kernel(context),
      matmul_kernel(context),
      quantized_matmul_kernel(context),
      skinny_gemm_kernel(context),
      transpose_multi_kernel(context),
      bind::reduce_sum(sum_kernels(on_stream)).in_rounds(2),
      bind::softmax(on_stream(RIDGE_LAUNCHES(softmax))),
      bind::softmax_backward(on_stream(RIDGE_LAUNCHES(softmax_backward))),
      bind::causal_mask(on_stream(RIDGE_LAUNCHES(causal_mask))),
      bind::log_softmax(on_stream(RIDGE_LAUNCHES(log_softmax))).in_rounds(2),
      bind::log_softmax_backward(on_stream(RIDGE_LAUNCHES(log_softmax_backward))).in_rounds(2),
      bind::nll_loss(on_stream(RIDGE_LAUNCHES(nll_loss), labels)).in_rounds(4),
      bind::nll_loss_backward(on_stream(RIDGE_LAUNCHES(nll_loss_backward), labels))
          .refusing(no_vocabulary)
          .in_rounds(2),
      bind::softmax_cross_entropy(on_stream(RIDGE_LAUNCHES(softmax_cross_entropy), logits_labels),
                                  softmax_cross_entropy_workspace_bytes)
          .refusing(no_vocabulary)
          .in_rounds(6),
      bind::softmax_cross_entropy_backward(
          on_stream(RIDGE_LAUNCHES(softmax_cross_entropy_backward), logits_labels))
          .refusing(no_vocabulary),
      bind::cross_entropy_part(on_stream(RIDGE_LAUNCHES(softmax_cross_entropy), part_labels),
                               softmax_cross_entropy_workspace_bytes)
          .refusing(no_vocabulary)
          .in_rounds(6),
      bind::cross_entropy_of_parts(on_stream(launch_cross_entropy_of_parts)).in_rounds(4),
      with_fragment_tables(bind::embedding(embeddings(on_stream)).in_rounds(2), context),
      bind::embedding_backward(on_stream(RIDGE_LAUNCHES(embedding_backward))).in_rounds(5),
      bind::rope_table(on_stream(launch_rope_table)).in_rounds(table_rounds),
      bind::rope(rope_heads),
      bind::rope_qkv(rope_heads),
      bind::rope_qkv_backward(rope_heads),
      bind::rms_norm(on_stream(RIDGE_LAUNCHES(rms_norm))).in_rounds(3),
      bind::add_rms_norm(on_stream(RIDGE_LAUNCHES(sum_of_rows))).in_rounds(3),
      bind::rms_norm_backward(on_stream(RIDGE_LAUNCHES(rms_norm_backward)),
                              rms_norm_backward_workspace_bytes)
          .in_rounds(6),
      bind::glu(on_stream(RIDGE_LAUNCHES(glu))),
      bind::glu_backward(on_stream(RIDGE_LAUNCHES(glu_backward))),
      flash_attention_kernel(context),
      flash_attention_backward_kernel(context),
      bind::kv_append({on_stream.on_cells(RIDGE_LAUNCHES(kv_append)),
                       on_stream.on_cells(launch_kv_append<uint16_t, int8_t>),
                       on_stream.on_cells(launch_kv_append<uint16_t, F8E4M3>)})
          .in_rounds(7),
      rope_append_kernel(context),
      append_attention_kernel(context),
      all_reduce_add_rms_norm_kernel(context),
      cached_attention_kernel(context),
      bind::cached_scores({on_stream.on_cells(RIDGE_LAUNCHES(cached_scores))}, nullptr)
          .in_rounds(scores_rounds),
      bind::cached_mask(on_stream(RIDGE_LAUNCHES(cached_mask))),
      bind::cached_softmax(on_stream(RIDGE_LAUNCHES(cached_softmax))).in_rounds(4),
      bind::cached_mix({on_stream.on_cells(RIDGE_LAUNCHES(cached_mix))}, nullptr)
          .in_rounds(mix_rounds),
      bind::sample(sample_launcher(context), sample_workspace_bytes)
          .refusing(large_vocabulary)
          .in_rounds(12),
      bind::accumulate(copier("accumulate", context, true)),
      bind::sum_squares(on_stream(launch_all_squares), sum_squares_workspace_bytes)
          .in_launches(squares_launches)
          .in_rounds(4),
      bind::clip_coefficient(on_stream(launch_clip)),
      bind::adamw(on_stream(launch_update)).in_launches(adamw_node_launches).in_rounds(4),
      bind::adamw_multi(on_stream(launch_update)).in_launches(adamw_node_launches).in_rounds(4),
  };
  for (Kernel& each : collective_kernels(context)) kernels.push_back(std::move(each));
  for (const auto make : added_kernels()) kernels.push_back(make(context));
  return kernels;
}

}  // namespace ridge::backends::cuda
