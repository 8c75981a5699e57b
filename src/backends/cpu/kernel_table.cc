// SPDX-License-Identifier: Apache-2.0
// Lists one kernel per op.
#include "backends/cpu/kernel_table.h"

#include <algorithm>

#include "backends/bind/bindings.h"
#include "backends/cpu/kernels/adamw.h"
#include "backends/cpu/kernels/cache/cached_attention.h"
#include "backends/cpu/kernels/copy/fill.h"
#include "backends/cpu/kernels/embedding.h"
#include "backends/cpu/kernels/losses/losses.h"
#include "backends/cpu/kernels/pointwise/glu.h"
#include "backends/cpu/kernels/reduce.h"
#include "backends/cpu/kernels/rms_norm.h"
#include "backends/cpu/kernels/rope.h"
#include "backends/cpu/kernels/sample.h"
#include "backends/cpu/kernels/softmax/causal_mask.h"
#include "backends/cpu/kernels/softmax/softmax.h"
#include "backends/cpu/on_cpu.h"
#include "backends/cpu/strided_copy.h"

namespace ridge::backends::cpu {
namespace {

void update(const bind::AdamwUpdate& call) { adamw_multi(call.tensors, call.step); }

void sum_all_squares(const bind::SquaresSum& sum) {
  double total = 0;
  for (const SquaresTensor& x : sum.tensors)
    total += x.f32 != nullptr   ? sum_squares(x.f32, x.elements, sum.workspace)
             : x.f16 != nullptr ? sum_squares(x.f16, x.elements, sum.workspace)
                                : sum_squares(x.bf16, x.elements, sum.workspace);
  *sum.y = static_cast<float>(total);
}

int64_t squares_workspace(std::span<const SquaresTensor> tensors) {
  int64_t bytes = 0;
  for (const SquaresTensor& x : tensors)
    bytes = std::max(bytes, sum_squares_workspace_bytes(x.elements));
  return bytes;
}

int64_t sample_workspace(int64_t /*rows*/, int64_t vocabulary) {
  return sample_workspace_bytes(vocabulary);
}

bind::SumKernels sum_kernels() {
  return {.backend = "cpu",
          .rows = on_cpu(reduce_rows<float, float>, reduce_rows<uint16_t, uint16_t>,
                         reduce_rows<Float16, Float16>),
          .rows_to_f32 = on_cpu(reduce_rows<float, float>, reduce_rows<uint16_t, float>,
                                reduce_rows<Float16, float>),
          .columns = on_cpu(sum_columns<float, float>, sum_columns<uint16_t, uint16_t>,
                            sum_columns<Float16, Float16>),
          .columns_of_f32 = on_cpu(sum_columns<float, float>, sum_columns<float, uint16_t>,
                                   sum_columns<float, Float16>),
          .columns_workspace_bytes = sum_columns_workspace_bytes,
          .workspace_alignment = sizeof(float)};
}

PairLaunchers<Embedding> embeddings() {
  const IndexNames ids = ids_of("embedding");
  return {
      on_cpu(ids, embedding<float, float>, embedding<float, uint16_t>, embedding<float, Float16>),
      on_cpu(ids, embedding<uint16_t, float>, embedding<uint16_t, uint16_t>,
             embedding<uint16_t, Float16>),
      on_cpu(ids, embedding<Float16, float>, embedding<Float16, uint16_t>,
             embedding<Float16, Float16>)};
}

// The bytes of the keys or values that cached_scores and cached_mix read for all heads.
int64_t cell_product_bytes(const Call& call, int64_t columns) {
  const Shape &x = call.inputs[0].shape, &cache = call.inputs[1].shape;
  return storage_bytes(call.inputs[1].dtype, x[0] * x[1] * columns * cache[3]);
}

// Only training keeps activations in f16.
bool is_for_inference(std::string_view op) {
  constexpr std::string_view kOps[] = {
      "quantized_matmul", "kv_append", "cached_attention", "cached_scores", "cached_mask",
      "cached_mix",       "sample"};
  return std::find(std::begin(kOps), std::end(kOps), op) != std::end(kOps);
}

}  // namespace

std::vector<Kernel> cpu_kernels(GemmTuner* tuner) {
  const TypedLaunchers<Fill> fill_floats = on_cpu(fill<float>, fill<uint16_t>, fill<Float16>);
  const TypedLaunchers<Rope> rope_heads = on_cpu(rope<float>, rope<uint16_t>, rope<Float16>);
  const IndexNames ids = ids_of("embedding"), labels = labels_of("nll_loss"),
                   logits_labels = labels_of("softmax_cross_entropy");
  std::vector<Kernel> kernels = {
      bind::copy(strided_copy),
      bind::concat(strided_copy),
      bind::fill(fill_floats, on_cpu(fill<int32_t>)),
      bind::zero(fill_floats),
      pointwise_kernel(),
      generated_pointwise_kernel(),
      matmul_kernel(tuner),
      quantized_matmul_kernel(),
      bind::reduce_sum(sum_kernels()),
      bind::softmax(on_cpu(softmax<float>, softmax<uint16_t>, softmax<Float16>)),
      bind::softmax_backward(
          on_cpu(softmax_backward<float>, softmax_backward<uint16_t>, softmax_backward<Float16>)),
      bind::causal_mask(on_cpu(causal_mask<float>, causal_mask<uint16_t>, causal_mask<Float16>)),
      bind::log_softmax(on_cpu(log_softmax<float>, log_softmax<uint16_t>, log_softmax<Float16>)),
      bind::log_softmax_backward(on_cpu(log_softmax_backward<float>, log_softmax_backward<uint16_t>,
                                        log_softmax_backward<Float16>)),
      bind::nll_loss(on_cpu(labels, nll_loss<float>, nll_loss<uint16_t>, nll_loss<Float16>)),
      bind::nll_loss_backward(on_cpu(labels, nll_loss_backward<float>, nll_loss_backward<uint16_t>,
                                     nll_loss_backward<Float16>)),
      bind::softmax_cross_entropy(
          on_cpu(logits_labels, softmax_cross_entropy<float>, softmax_cross_entropy<uint16_t>,
                 softmax_cross_entropy<Float16>),
          softmax_cross_entropy_workspace_bytes),
      bind::softmax_cross_entropy_backward(on_cpu(
          logits_labels, softmax_cross_entropy_backward<float>,
          softmax_cross_entropy_backward<uint16_t>, softmax_cross_entropy_backward<Float16>)),
      with_quantized_tables(bind::embedding(embeddings())),
      bind::embedding_backward(on_cpu(ids, embedding_backward<float>, embedding_backward<uint16_t>,
                                      embedding_backward<Float16>)),
      bind::rope_table([](const RopeTable& call, const char*) -> Launch {
        return [angles = RopeAngles(call)] { angles.fill(); };
      }),
      bind::rope(rope_heads),
      bind::rope_qkv(rope_heads),
      bind::rope_qkv_backward(rope_heads),
      bind::rms_norm(on_cpu(rms_norm<float>, rms_norm<uint16_t>, rms_norm<Float16>)),
      bind::add_rms_norm(
          on_cpu(add_rms_norm<float>, add_rms_norm<uint16_t>, add_rms_norm<Float16>)),
      bind::rms_norm_backward(
          on_cpu(rms_norm_backward<float>, rms_norm_backward<uint16_t>, rms_norm_backward<Float16>),
          rms_norm_backward_workspace_bytes),
      bind::glu(on_cpu(glu<float>, glu<uint16_t>, glu<Float16>)),
      bind::glu_backward(
          on_cpu(glu_backward<float>, glu_backward<uint16_t>, glu_backward<Float16>)),
      flash_attention_kernel(),
      flash_attention_backward_kernel(),
      bind::kv_append(on_cells<KvAppend>(kv_append, kv_append, kv_append, kv_append)),
      cached_attention_kernel(),
      bind::cached_scores(
          on_cells<CachedScores>(cached_scores, cached_scores, cached_scores, cached_scores),
          cached_scores_workspace_bytes)
          .sharing([](const Call& call) {
            return cell_product_bytes(call, call.attrs.integer("columns"));
          }),
      bind::cached_mask(on_cpu(cached_mask<float>, cached_mask<uint16_t>, cached_mask<Float16>)),
      bind::cached_mix(on_cells<CachedMix>(cached_mix, cached_mix, cached_mix, cached_mix),
                       cached_scores_workspace_bytes)
          .sharing(
              [](const Call& call) { return cell_product_bytes(call, call.inputs[0].shape[2]); }),
      bind::sample(on_cpu(sample), sample_workspace),
      bind::accumulate(add_in_place),
      bind::sum_squares(on_cpu(sum_all_squares), squares_workspace),
      bind::clip_coefficient(on_cpu(clip_coefficient)),
      bind::loss_scale(on_cpu(loss_scale)),
      bind::adamw(on_cpu(update)),
      bind::adamw_multi(on_cpu(update)),
  };
  for (Kernel& each : kernels) each.computes_f16 = !is_for_inference(each.op);
  return kernels;
}

}  // namespace ridge::backends::cpu
