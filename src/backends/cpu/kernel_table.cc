// SPDX-License-Identifier: Apache-2.0
// Lists one kernel per op.
#include "backends/cpu/kernel_table.h"

#include <algorithm>

#include "backends/bind/bindings.h"
#include "backends/cpu/kernels/cache/cached_attention.h"
#include "backends/cpu/kernels/kernels.h"
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
          .rows = on_cpu<bind::SumKernels::SameRows>(RIDGE_KERNELS(reduce_rows)),
          .rows_to_f32 = on_cpu<bind::SumKernels::RowsToF32>(RIDGE_KERNELS(reduce_rows)),
          .columns = on_cpu<bind::SumKernels::SameColumns>(RIDGE_KERNELS(sum_columns)),
          .columns_of_f32 = on_cpu<bind::SumKernels::ColumnsOfF32>(RIDGE_KERNELS(sum_columns)),
          .columns_workspace_bytes = sum_columns_workspace_bytes,
          .workspace_alignment = sizeof(float)};
}

// The bytes of the keys or values that cached_scores and cached_mix read for all heads.
int64_t cell_product_bytes(const Call& call, int64_t columns) {
  const Shape &x = call.inputs[0].shape, &cache = call.inputs[1].shape;
  return storage_bytes(call.inputs[1].dtype, x[0] * x[1] * columns * cache[3]);
}

// Only training keeps activations in f16.
bool is_for_inference(std::string_view op) {
  constexpr std::string_view kOps[] = {"quantized_matmul", "kv_append",   "cached_attention",
                                       "cached_scores",    "cached_mask", "cached_softmax",
                                       "cached_mix",       "sample"};
  return std::find(std::begin(kOps), std::end(kOps), op) != std::end(kOps);
}

}  // namespace

std::vector<Kernel> cpu_kernels(GemmTuner* tuner, const Groups* groups) {
  const TypedLaunchers<Fill> fill_floats = on_cpu<Fill>(RIDGE_KERNELS(fill));
  const TypedLaunchers<Rope> rope_heads = on_cpu<Rope>(RIDGE_KERNELS(rope));
  const IndexNames ids = ids_of("embedding"), labels = labels_of("nll_loss"),
                   logits_labels = labels_of("softmax_cross_entropy"),
                   part_labels = labels_of("cross_entropy_part");
  std::vector<Kernel> kernels = {
      bind::copy(strided_copy),
      bind::concat(strided_copy),
      bind::fill(fill_floats, one_on_cpu<Fill<int32_t>>(fill<int32_t>)),
      bind::zero(fill_floats),
      pointwise_kernel(),
      generated_pointwise_kernel(),
      matmul_kernel(tuner),
      quantized_matmul_kernel(),
      bind::reduce_sum(sum_kernels()),
      bind::softmax(on_cpu<Softmax>(RIDGE_KERNELS(softmax))),
      bind::softmax_backward(on_cpu<SoftmaxBackward>(RIDGE_KERNELS(softmax_backward))),
      bind::causal_mask(on_cpu<CausalMask>(RIDGE_KERNELS(causal_mask))),
      bind::log_softmax(on_cpu<Softmax>(RIDGE_KERNELS(log_softmax))),
      bind::log_softmax_backward(on_cpu<SoftmaxBackward>(RIDGE_KERNELS(log_softmax_backward))),
      bind::nll_loss(on_cpu<NllLoss>(RIDGE_KERNELS(nll_loss), labels)),
      bind::nll_loss_backward(on_cpu<NllLossBackward>(RIDGE_KERNELS(nll_loss_backward), labels)),
      bind::softmax_cross_entropy(
          on_cpu<SoftmaxCrossEntropy>(RIDGE_KERNELS(softmax_cross_entropy), logits_labels),
          softmax_cross_entropy_workspace_bytes),
      bind::softmax_cross_entropy_backward(on_cpu<SoftmaxCrossEntropyBackward>(
          RIDGE_KERNELS(softmax_cross_entropy_backward), logits_labels)),
      bind::cross_entropy_part(
          on_cpu<SoftmaxCrossEntropy>(RIDGE_KERNELS(softmax_cross_entropy), part_labels),
          softmax_cross_entropy_workspace_bytes),
      bind::cross_entropy_of_parts(one_on_cpu<CrossEntropyOfParts>(
          [](const CrossEntropyOfParts& call) { cross_entropy_of_parts(call); })),
      with_quantized_tables(
          bind::embedding(pairs_on_cpu<Embedding>(RIDGE_KERNELS(embedding), ids))),
      bind::embedding_backward(on_cpu<EmbeddingBackward>(RIDGE_KERNELS(embedding_backward), ids)),
      bind::rope_table([](const RopeTable& call, const char*) -> Launch {
        return [angles = RopeAngles(call)] { angles.fill(); };
      }),
      bind::rope(rope_heads),
      bind::rope_qkv(rope_heads),
      bind::rope_qkv_backward(rope_heads),
      bind::rms_norm(on_cpu<RmsNorm>(RIDGE_KERNELS(rms_norm))),
      bind::add_rms_norm(on_cpu<AddRmsNorm>(RIDGE_KERNELS(add_rms_norm))),
      bind::rms_norm_backward(on_cpu<RmsNormBackward>(RIDGE_KERNELS(rms_norm_backward)),
                              rms_norm_backward_workspace_bytes),
      bind::glu(on_cpu<Glu>(RIDGE_KERNELS(glu))),
      bind::glu_backward(on_cpu<GluBackward>(RIDGE_KERNELS(glu_backward))),
      flash_attention_kernel(),
      flash_attention_backward_kernel(),
      bind::kv_append(on_cells<KvAppend>(RIDGE_KERNELS(kv_append))),
      cached_attention_kernel(),
      bind::cached_scores(on_cells<CachedScores>(RIDGE_KERNELS(cached_scores)),
                          cached_scores_workspace_bytes)
          .sharing([](const Call& call) {
            return cell_product_bytes(call, call.attrs.integer("columns"));
          }),
      bind::cached_mask(on_cpu<CachedMask>(RIDGE_KERNELS(cached_mask))),
      bind::cached_softmax(on_cpu<CachedSoftmax>(RIDGE_KERNELS(cached_softmax))),
      bind::cached_mix(on_cells<CachedMix>(RIDGE_KERNELS(cached_mix)),
                       cached_scores_workspace_bytes)
          .sharing(
              [](const Call& call) { return cell_product_bytes(call, call.inputs[0].shape[2]); }),
      bind::sample(one_on_cpu<Sample>(sample), sample_workspace),
      bind::accumulate(add_in_place),
      bind::sum_squares(one_on_cpu<bind::SquaresSum>(sum_all_squares), squares_workspace),
      bind::clip_coefficient(one_on_cpu<ClipCoefficient>(clip_coefficient)),
      bind::loss_scale(one_on_cpu<LossScale>(loss_scale)),
      bind::adamw(one_on_cpu<bind::AdamwUpdate>(update)),
      bind::adamw_multi(one_on_cpu<bind::AdamwUpdate>(update)),
  };
  for (Kernel& each : collective_kernels(groups)) kernels.push_back(std::move(each));
  for (Kernel& each : kernels) each.computes_f16 = !is_for_inference(each.op);
  return kernels;
}

}  // namespace ridge::backends::cpu
