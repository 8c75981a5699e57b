// SPDX-License-Identifier: Apache-2.0
// Searches for stop strings in the held-back text plus the new text.
#include "serve/stop_text.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace ridge::serve {
namespace {

// Longer strings could hold text back for minutes.
constexpr size_t kMostStopBytes = 4096;

}  // namespace

StopText::StopText(std::vector<std::string> stops) : stops_(std::move(stops)) {
  for (const std::string& stop : stops_)
    if (stop.empty() || stop.size() > kMostStopBytes)
      throw usage_error("[stop] expected a text of 1 to {} bytes, got {}", kMostStopBytes,
                        stop.size());
}

std::string StopText::push(std::string_view text) {
  if (is_stopped_) return "";
  held_ += text;
  size_t first = std::string::npos;
  for (const std::string& stop : stops_) first = std::min(first, held_.find(stop));
  if (first != std::string::npos) {
    is_stopped_ = true;
    return held_.substr(0, first);
  }
  // The longest suffix of the text that is a prefix of a stop string.
  size_t waiting = 0;
  for (const std::string& stop : stops_)
    for (size_t size = std::min(stop.size() - 1, held_.size()); size > waiting; --size)
      if (std::string_view(held_).ends_with(std::string_view(stop).substr(0, size))) waiting = size;
  std::string shown = held_.substr(0, held_.size() - waiting);
  held_.erase(0, shown.size());
  return shown;
}

std::string StopText::finish() { return is_stopped_ ? "" : std::exchange(held_, {}); }

}  // namespace ridge::serve
