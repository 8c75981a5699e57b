// SPDX-License-Identifier: Apache-2.0
// Sums the likelihoods of pieces and chunks.
#include "serve/text_score.h"

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "serve/kept_sequence.h"

namespace ridge::serve {

Likelihood score(Session& session, std::span<const int32_t> ids) {
  const int64_t vocabulary = session.config().vocabulary, capacity = session.options().capacity;
  if (ids.size() < 2) throw usage_error("[text] expected at least 2 tokens, got {}", ids.size());
  if (std::ssize(ids) > capacity)
    throw usage_error("[text] expected at most {} tokens, the context, got {}", capacity,
                      ids.size());
  check_ids(ids, vocabulary);
  // The logits of a chunk are temporary; this limits them to 128 MiB.
  constexpr int64_t kLogits = int64_t{1} << 25;
  const auto chunk =
      static_cast<size_t>(std::clamp<int64_t>(kLogits / vocabulary, 1, session.options().chunk));
  Likelihood sum;
  const OwnSlot slot(session);
  for (size_t begin = 0; begin + 1 < ids.size(); begin += chunk) {
    const size_t count = std::min(chunk, ids.size() - 1 - begin);
    sum.nll += session.values(slot, ids.subspan(begin, count), models::InferenceTask::kScore,
                              ids.subspan(begin + 1, count))[0] *
               static_cast<double>(count);
    sum.tokens += static_cast<int64_t>(count);
  }
  return sum;
}

record::TextScore score_text(Session& session,
                             const InferenceOptions& o,
                             std::span<const int32_t> ids,
                             const std::function<void(int64_t)>& progress) {
  record::TextScore made{.tokens = std::ssize(ids)};
  const Arithmetic arithmetic = o.arithmetic();
  if (!arithmetic.exact && !arithmetic.on_gpu) made.activation_bits = o.fast_8bit ? 8 : 16;
  made.cache_dtype = cache_dtype_name(*session.options().cache_dtype);
  const double begin = now_ns();
  const auto piece = static_cast<size_t>(session.options().capacity);
  for (size_t at = 0; at + 1 < ids.size(); at += piece, ++made.pieces) {
    const std::span<const int32_t> part = ids.subspan(at, std::min(piece, ids.size() - at));
    if (part.size() < 2) break;
    const Likelihood likelihood = score(session, part);
    made.nll += likelihood.nll;
    made.counted += likelihood.tokens;
    progress(std::ssize(part));
  }
  made.seconds = (now_ns() - begin) / 1e9;
  return made;
}

}  // namespace ridge::serve
