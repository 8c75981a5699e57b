// SPDX-License-Identifier: Apache-2.0
// Softmax cross-entropy: forward and backward each read the logits once.
#include "backends/cpu/kernels/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/losses/softmax_cross_entropy.cc"
#include "backends/cpu/kernels/simd_targets.h"

#include "backends/cpu/kernels/partition.h"
#include "backends/cpu/kernels/softmax/log_sum_exp-inl.h"
#include "backends/cpu/kernels/typed_dispatch.h"
#include "backends/cpu/kernels/vector_io-inl.h"
#include "backends/cpu/kernels/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ridge::backends::cpu::HWY_NAMESPACE {

// Mapping: rows in static ranges over threads. Bound: memory, N V sizeof(T) read, once for rows of
// any length.
template <typename T>
HWY_INLINE void loss_rows(const SoftmaxCrossEntropy<T>& call, Range range) {
  for (int64_t n = range.begin; n < range.end; ++n) {
    const T* x = call.logits[n];
    const double lse = exp_sum(x, call.vocabulary).log_sum_exp();
    call.lse[n] = static_cast<float>(lse);
    const int32_t label = call.labels[n];
    const bool is_here = label >= 0 && label < call.vocabulary;
    const float at_label = is_here ? hn::GetLane(load(Partial{1}, x + label)) : 0.0f;
    if (call.is_part)
      call.at_label[n] = at_label;
    else
      call.workspace[n] = is_here ? lse - at_label : 0.0;
  }
}
RIDGE_TARGETS(RIDGE_FLOATS, loss_rows, SoftmaxCrossEntropy, Range)

// Mapping: rows in static ranges over threads, one pass. Bound: memory, 2 N V sizeof(T).
template <typename T>
HWY_INLINE void gradient_rows(const SoftmaxCrossEntropyBackward<T>& call, Range range) {
  const F32 d;
  const bool large = bytes_of<T>(call.tokens * call.vocabulary) >= kStreamBytes;
  const float each = *call.count == 0 ? 0.0f : *call.d_loss / static_cast<float>(*call.count);
  const V32 factor = hn::Set(d, each);
  const V32 log2_e = hn::Set(d, kLog2E);
  for (int64_t n = range.begin; n < range.end; ++n) {
    const T* x = call.logits[n];
    T* dx = call.d_logits[n];
    const int32_t label = call.labels[n];
    const bool streamed = large && dx != x && is_aligned(dx);
    if (label < 0) {
      for_lanes(call.vocabulary,
                [&](auto part, int64_t i) HWY_ATTR { store(part, hn::Zero(d), dx + i, streamed); });
      continue;
    }
    const V32 lse = hn::Set(d, call.lse[n]);
    const bool is_here = label < call.vocabulary;
    // Computed before the pass, which may overwrite the logit.
    const V32 logit = is_here ? load(Partial{1}, x + label) : lse;
    const V32 chosen = exp2_of_negative(hn::Mul(hn::Sub(logit, lse), log2_e));
    for_lanes(call.vocabulary, [&](auto part, int64_t i) HWY_ATTR {
      V32 p = exp2_of_negative(hn::Mul(hn::Sub(load(part, x + i), lse), log2_e));
      store(part, hn::Mul(p, factor), dx + i, streamed);
    });
    if (!is_here) continue;
    if (streamed) hwy::FlushStream();  // the label's element is stored again below
    store(Partial{1}, hn::Mul(hn::Sub(chosen, hn::Set(d, 1.0f)), factor), dx + label);
  }
  if (large) hwy::FlushStream();
}
RIDGE_TARGETS(RIDGE_FLOATS, gradient_rows, SoftmaxCrossEntropyBackward, Range)

}  // namespace ridge::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ridge::backends::cpu {

int64_t softmax_cross_entropy_workspace_bytes(int64_t tokens) { return bytes_of<double>(tokens); }

RIDGE_DISPATCH(RIDGE_FLOATS, run_range, loss_rows, SoftmaxCrossEntropy, Range)
template <typename T>
int64_t softmax_cross_entropy(const SoftmaxCrossEntropy<T>& call) {
  const int64_t bad =
      first_bad_row(call.labels, call.tokens, call.vocabulary + (call.is_part ? 1 : 0));
  if (bad != kNoBadRow) return bad;
  const int64_t bytes = bytes_of<T>(call.tokens * call.vocabulary);
  for_each_range(call.tokens, parts_for(bytes), [&](Range range) { run_range(call, range); });
  if (call.is_part) return kNoBadRow;
  double sum = 0.0;
  int32_t count = 0;
  for (int64_t n = 0; n < call.tokens; ++n) {
    sum += call.workspace[n];
    count += call.labels[n] < 0 ? 0 : 1;
  }
  *call.count = count;
  *call.loss = count == 0 ? 0.0f : static_cast<float>(sum / count);
  return kNoBadRow;
}
RIDGE_INSTANCES(RIDGE_FLOATS, int64_t, softmax_cross_entropy, SoftmaxCrossEntropy)

RIDGE_DISPATCH(RIDGE_FLOATS, run_range, gradient_rows, SoftmaxCrossEntropyBackward, Range)
template <typename T>
int64_t softmax_cross_entropy_backward(const SoftmaxCrossEntropyBackward<T>& call) {
  const int64_t bad =
      first_bad_row(call.labels, call.tokens, call.vocabulary + (call.is_part ? 1 : 0));
  if (bad != kNoBadRow) return bad;
  const int64_t bytes = bytes_of<T>(2 * call.tokens * call.vocabulary);
  for_each_range(call.tokens, parts_for(bytes), [&](Range range) { run_range(call, range); });
  return kNoBadRow;
}
RIDGE_INSTANCES(RIDGE_FLOATS, int64_t, softmax_cross_entropy_backward, SoftmaxCrossEntropyBackward)

}  // namespace ridge::backends::cpu
#endif  // HWY_ONCE
