// SPDX-License-Identifier: Apache-2.0
// Merges the parts of an answer that its reader has not taken yet.
#include "serve/request.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace ridge::serve {

std::string_view finish_name(Finish finish) {
  switch (finish) {
    case Finish::kNone:
      return "none";
    case Finish::kStop:
      return "stop";
    case Finish::kLength:
      return "length";
    case Finish::kCancelled:
      return "cancelled";
    case Finish::kFailed:
      return "failed";
  }
  return "";
}

void Delta::append(Delta next) {
  text += next.text;
  std::ranges::move(next.scores, std::back_inserter(scores));
  tokens += next.tokens;
  ids.insert(ids.end(), next.ids.begin(), next.ids.end());
  cached_tokens += next.cached_tokens;
  finish = next.finish;
  error = std::move(next.error);
  metrics = std::move(next.metrics);
}

void OutputQueue::put(Delta delta) {
  const std::lock_guard lock(mutex_);
  waiting_.append(std::move(delta));
}

Delta OutputQueue::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(waiting_, {});
}

}  // namespace ridge::serve
