// SPDX-License-Identifier: Apache-2.0
// Log-softmax in double precision, and a partial sort.
#include "serve/log_probability.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace ridge::serve {

TokenScores score_token(std::span<const float> logits, int32_t token, int64_t top) {
  const double most = static_cast<double>(*std::ranges::max_element(logits));
  double sum = 0;
  for (float each : logits) sum += std::exp(static_cast<double>(each) - most);
  const double normaliser = most + std::log(sum);
  const auto scored = [&](int32_t id) {
    return ScoredToken{id, static_cast<double>(logits[static_cast<size_t>(id)]) - normaliser};
  };
  TokenScores scores{scored(token), {}};
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto end = order.begin() + std::min<std::ptrdiff_t>(std::ssize(order), top);
  std::ranges::partial_sort(order, end, [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x > y || (x == y && a < b);
  });
  for (auto id = order.begin(); id != end; ++id) scores.top.push_back(scored(*id));
  return scores;
}

}  // namespace ridge::serve
