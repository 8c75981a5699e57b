// SPDX-License-Identifier: Apache-2.0
// Merges the parts of an answer that its reader has not taken yet.
#include "serve/request.h"

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

void OutputQueue::put(Delta delta) {
  const std::lock_guard lock(mutex_);
  waiting_.text += delta.text;
  waiting_.scores.insert(waiting_.scores.end(), std::move_iterator(delta.scores.begin()),
                         std::move_iterator(delta.scores.end()));
  waiting_.tokens += delta.tokens;
  waiting_.cached_tokens += delta.cached_tokens;
  waiting_.finish = delta.finish;
  waiting_.error = std::move(delta.error);
  waiting_.metrics = std::move(delta.metrics);
}

Delta OutputQueue::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(waiting_, {});
}

}  // namespace ridge::serve
