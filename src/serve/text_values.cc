// SPDX-License-Identifier: Apache-2.0
// Runs a text in chunks whose outputs are of bounded size.
#include "serve/text_values.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/printable.h"
#include "serve/kept_sequence.h"
#include "serve/log_probability.h"

namespace ridge::serve {
namespace {

using Task = models::InferenceTask;

// Calls `use` with the rows of each chunk and the index of its first id. The outputs of a chunk are
// temporary; this limits them to 128 MiB.
void for_each_chunk(Session& session,
                    std::span<const int32_t> ids,
                    Task task,
                    const TextProgress& progress,
                    const std::function<void(std::vector<float> rows, size_t first)>& use) {
  constexpr int64_t kValues = int64_t{1} << 25;
  const int64_t capacity = session.options().capacity;
  if (ids.empty()) throw usage_error("[text] expected at least one token, got none");
  if (std::ssize(ids) > capacity)
    throw usage_error("[text] expected at most {} tokens, the context, got {}", capacity,
                      ids.size());
  check_ids(ids, session.config().vocabulary);
  const int64_t columns =
      task == Task::kHidden ? session.config().hidden : session.config().vocabulary;
  const auto chunk =
      static_cast<size_t>(std::clamp<int64_t>(kValues / columns, 1, session.options().chunk));
  const OwnSlot slot(session);
  for (size_t begin = 0; begin < ids.size(); begin += chunk) {
    progress();
    use(session.values(slot, ids.subspan(begin, std::min(chunk, ids.size() - begin)), task), begin);
  }
}

}  // namespace

std::vector<float> logits_of_all(Session& session,
                                 std::span<const int32_t> ids,
                                 const TextProgress& progress) {
  std::vector<float> all;
  for_each_chunk(session, ids, Task::kLogits, progress, [&](std::vector<float> rows, size_t first) {
    if (first == 0 && ids.size() * static_cast<size_t>(session.config().vocabulary) == rows.size())
      all = std::move(rows);
    else
      all.insert(all.end(), rows.begin(), rows.end());
  });
  return all;
}

std::vector<float> log_probabilities(Session& session,
                                     std::span<const int32_t> ids,
                                     const TextProgress& progress) {
  if (ids.size() < 2) throw usage_error("[text] expected at least 2 tokens, got {}", ids.size());
  const auto columns = static_cast<size_t>(session.config().vocabulary);
  const auto sampled = static_cast<size_t>(session.config().sampled_vocabulary());
  std::vector<float> made;
  for_each_chunk(session, ids, Task::kLogits, progress, [&](std::vector<float> rows, size_t first) {
    for (size_t row = 0; row * columns < rows.size() && first + row + 1 < ids.size(); ++row) {
      const int32_t next = ids[first + row + 1];
      const size_t count = static_cast<size_t>(next) < sampled ? sampled : columns;
      const auto logits = std::span<const float>(rows).subspan(row * columns, count);
      made.push_back(static_cast<float>(score_token(logits, next, 0).chosen.logprob));
    }
  });
  return made;
}

Pooling parse_pooling(std::string_view name) {
  if (name == "mean") return Pooling::kMean;
  if (name == "last") return Pooling::kLast;
  throw usage_error("[pooling] expected mean or last, got {}", printable(name));
}

std::vector<float> embedding(Session& session,
                             std::span<const int32_t> ids,
                             Pooling pooling,
                             bool is_normalized,
                             const TextProgress& progress) {
  const auto columns = static_cast<size_t>(session.config().hidden);
  std::vector<double> sums(columns, 0);
  for_each_chunk(session, ids, Task::kHidden, progress, [&](std::vector<float> rows, size_t) {
    if (pooling == Pooling::kLast) {
      std::copy(rows.end() - static_cast<std::ptrdiff_t>(columns), rows.end(), sums.begin());
      return;
    }
    for (size_t i = 0; i < rows.size(); ++i) sums[i % columns] += static_cast<double>(rows[i]);
  });
  double divisor = pooling == Pooling::kMean ? static_cast<double>(ids.size()) : 1;
  if (is_normalized) {
    double squares = 0;
    for (const double each : sums) squares += each * each;
    divisor = squares > 0 ? std::sqrt(squares) : 1;
  }
  std::vector<float> made;
  for (const double each : sums) made.push_back(static_cast<float>(each / divisor));
  return made;
}

}  // namespace ridge::serve
