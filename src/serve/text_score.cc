// SPDX-License-Identifier: Apache-2.0
// Sums the likelihoods of pieces.
#include "serve/text_score.h"

#include <algorithm>

#include "base/clock.h"

namespace ridge::serve {

record::TextScore score_text(Session& session,
                             const InferenceOptions& o,
                             std::span<const int32_t> ids,
                             const std::function<void(int64_t)>& progress) {
  record::TextScore score{.tokens = std::ssize(ids)};
  const Arithmetic arithmetic = o.arithmetic();
  if (!arithmetic.exact && !arithmetic.on_gpu) score.activation_bits = o.fast_8bit ? 8 : 16;
  score.cache_dtype = cache_dtype_name(*session.options().cache_dtype);
  const double begin = now_ns();
  const auto piece = static_cast<size_t>(session.options().capacity);
  for (size_t at = 0; at + 1 < ids.size(); at += piece, ++score.pieces) {
    const std::span<const int32_t> part = ids.subspan(at, std::min(piece, ids.size() - at));
    if (part.size() < 2) break;
    const Likelihood likelihood = session.score(part);
    score.nll += likelihood.nll;
    score.counted += likelihood.tokens;
    progress(std::ssize(part));
  }
  score.seconds = (now_ns() - begin) / 1e9;
  return score;
}

}  // namespace ridge::serve
