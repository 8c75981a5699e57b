// SPDX-License-Identifier: Apache-2.0
// Negative log-likelihood: the forward gathers N elements, the backward fills N V elements.
#include "backends/cpu/kernels/kernels.h"

#include "backends/cpu/kernels/element.h"
#include "backends/cpu/kernels/partition.h"
#include "backends/cpu/kernels/typed_dispatch.h"

namespace ridge::backends::cpu {

// Mapping: one thread, in row order. Bound: latency, one cache line per row.
template <typename T>
int64_t nll_loss(const NllLoss<T>& call) {
  const int64_t bad = first_bad_row(call.labels, call.tokens, call.vocabulary);
  if (bad != kNoBadRow) return bad;
  double sum = 0.0;
  int32_t count = 0;
  for (int64_t n = 0; n < call.tokens; ++n) {
    if (call.labels[n] < 0) continue;
    sum -= widened(call.log_p[n][call.labels[n]]);
    ++count;
  }
  *call.count = count;
  *call.loss = count == 0 ? 0.0f : static_cast<float>(sum / count);
  return kNoBadRow;
}
RIDGE_INSTANCES(RIDGE_FLOATS, int64_t, nll_loss, NllLoss)

// Mapping: as fill, then one thread for the labels. Bound: memory, N V sizeof(T) written.
template <typename T>
int64_t nll_loss_backward(const NllLossBackward<T>& call) {
  const int64_t bad = first_bad_row(call.labels, call.tokens, call.vocabulary);
  if (bad != kNoBadRow) return bad;
  fill<T>({call.tokens, call.vocabulary, call.d_log_p, 0.0f});
  if (*call.count == 0) return kNoBadRow;
  T each{};
  narrow_to(-*call.d_loss / static_cast<float>(*call.count), each);
  for (int64_t n = 0; n < call.tokens; ++n) {
    if (call.labels[n] >= 0) call.d_log_p[n][call.labels[n]] = each;
  }
  return kNoBadRow;
}
RIDGE_INSTANCES(RIDGE_FLOATS, int64_t, nll_loss_backward, NllLossBackward)

}  // namespace ridge::backends::cpu
