// SPDX-License-Identifier: Apache-2.0
// Bounds the difference of two clocks by exchanges.
#include "runtime/rank_clock.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "base/clock.h"
#include "base/split.h"

namespace ridge::runtime {
namespace {

constexpr int kExchanges = 16;

// Changes each time that a host starts, and with it its clock; empty if there is none.
std::string start_of_host() {
  std::ifstream in("/proc/sys/kernel/random/boot_id");
  std::string id;
  in >> id;
  return id;
}

bool are_on_one_host(backends::Communicator& all) {
  const std::string own = start_of_host();
  const std::vector<std::string> ids = all.gather(own);
  return !own.empty() && std::ranges::all_of(ids, [&](const auto& each) { return each == own; });
}

std::vector<ClockReading> from_text(const std::string& text) {
  std::vector<ClockReading> readings;
  const std::vector<std::string> words = split(text, ' ');
  for (size_t i = 0; i + 1 < words.size(); i += 2)
    readings.push_back({std::stod(words[i]), std::stod(words[i + 1])});
  return readings;
}

}  // namespace

ClockOffset clock_offset(std::span<const ClockReading> first, std::span<const ClockReading> own) {
  double least = own[0].entered_ns - first[0].left_ns, most = own[0].left_ns - first[0].entered_ns;
  for (size_t i = 0; i < std::min(first.size(), own.size()); ++i) {
    least = std::max(least, own[i].entered_ns - first[i].left_ns);
    most = std::min(most, own[i].left_ns - first[i].entered_ns);
  }
  return {own.back().left_ns, (least + most) / 2, std::max(0.0, (most - least) / 2)};
}

void RankClock::compare(backends::Communicator& all) {
  if (offsets_.empty()) is_shared_ = are_on_one_host(all);
  if (is_shared_) {
    offsets_.push_back({now_ns()});
    return;
  }
  std::vector<ClockReading> own;
  std::string text;
  for (int i = 0; i < kExchanges; ++i) {
    const double entered_ns = now_ns();
    all.any(false);
    own.push_back({entered_ns, now_ns()});
    text += fmt::format("{:.0f} {:.0f} ", own.back().entered_ns, own.back().left_ns);
  }
  offsets_.push_back(clock_offset(from_text(all.gather(text)[0]), own));
}

double RankClock::to_first(double ns) const {
  const ClockOffset &begin = offsets_.front(), &end = offsets_.back();
  const double between_ns = end.at_ns - begin.at_ns;
  const double drift = between_ns > 0 ? (end.ahead_ns - begin.ahead_ns) / between_ns : 0;
  return ns - begin.ahead_ns - drift * (ns - begin.at_ns);
}

double RankClock::error_ns() const {
  return std::ranges::max_element(offsets_, {}, &ClockOffset::error_ns)->error_ns;
}

std::string RankClock::method() const {
  if (is_shared_) return "the ranks of one host read the same clock";
  return fmt::format(
      "{} exchanges before and after the run bound each rank's clock against the first rank's",
      kExchanges);
}

}  // namespace ridge::runtime
