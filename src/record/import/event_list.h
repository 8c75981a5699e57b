// SPDX-License-Identifier: Apache-2.0
// Adds the events of a trace of kernels, whose times are whole nanoseconds.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "record/import/foreign_trace.h"

namespace ridge::record {

struct EventTimes {
  int64_t begin_ns = 0, end_ns = 0;
};

class EventList {
 public:
  EventList(std::string source, std::string framework) {
    trace_.source = std::move(source);
    trace_.framework = std::move(framework);
    trace_.is_of_kernels = true;
  }

  uint32_t name(std::string_view text) {
    constexpr size_t kLongestName = 1000;
    return trace_.names.number(text.substr(0, kLongestName));
  }
  // `track` names a stream of a device, or a thread.
  void add(EventKind kind,
           uint32_t name,
           const std::string& track,
           EventTimes at,
           int64_t correlation = -1) {
    const auto [begin_ns, end_ns] = at;
    constexpr int64_t kMostNs = int64_t{1} << 61, kLongestNs = int64_t{1'000'000'000'000'000};
    if (begin_ns < -kMostNs || end_ns > kMostNs || end_ns < begin_ns ||
        end_ns - begin_ns > kLongestNs)
      throw file_error(
          "[{}] expected times within 2^61 ns and an end of at most eleven days after the begin, found "
          "{} to {}",
          trace_.source, begin_ns, end_ns);
    ForeignEvent event;
    event.kind = kind;
    event.name = name;
    event.begin_ns = begin_ns;
    event.length_ns = end_ns - begin_ns;
    if (__builtin_add_overflow(length_ns_, event.length_ns, &length_ns_))
      throw file_error("[{}] expected times that add up to less than 2^63 ns", trace_.source);
    event.track = tracks_.number(track);
    event.correlation = correlation;
    trace_.events.push_back(event);
    has_kernel_ = has_kernel_ || kind == EventKind::kKernel;
  }
  ForeignTrace& trace() { return trace_; }

  // Throws a bad-file Error if there is no kernel.
  ForeignTrace take() {
    if (!has_kernel_) throw file_error("[{}] expected kernels, found none", trace_.source);
    return std::move(trace_);
  }

 private:
  ForeignTrace trace_;
  NameTable tracks_;
  int64_t length_ns_ = 0;  // the sum over all events
  bool has_kernel_ = false;
};

}  // namespace ridge::record
