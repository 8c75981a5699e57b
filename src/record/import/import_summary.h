// SPDX-License-Identifier: Apache-2.0
// The origin of an imported trace, and how much of its operations' time Ridge knows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "record/figures.h"
#include "record/import/imported_steps.h"

namespace ridge::record {

struct UnknownOperation {
  std::string name;
  int64_t ns = 0;
};

template <class See>
void figures(const See& see, const UnknownOperation& r) {
  see("name", r.name), see({"time_ns", "ns", "over all steps"}, r.ns);
}

struct ImportSummary {
  std::string trace, framework;
  int64_t events = 0;
  bool is_of_operations = false;  // not of kernels alone
  Attribution times;
  std::vector<UnknownOperation> unknown;  // the largest first
};
inline ImportSummary import_summary(const ForeignTrace& trace, const Attribution& attribution) {
  ImportSummary summary{trace.source,         trace.framework, std::ssize(trace.events),
                        !trace.is_of_kernels, attribution,     {}};
  for (const auto& [name, ns] : attribution.unknown) summary.unknown.push_back({name, ns});
  std::ranges::stable_sort(summary.unknown, std::ranges::greater(), &UnknownOperation::ns);
  return summary;
}

template <class See>
void figures(const See& see, const ImportSummary& r) {
  see("version", 1), see("trace", r.trace), see("framework", r.framework);
  see("events", r.events);
  see({"attributed_share", "", "of the operations' time that Ridge knows, or that composites took"},
      r.times.attributed_share());
  see({"known_ns", "ns", "operations that Ridge knows"}, r.times.known_ns);
  see({"without_counts_ns", "ns", "the part of known_ns without FLOPs and bytes"},
      r.times.uncounted_ns);
  see({"composite_ns", "ns", "between operations in their composites"}, r.times.composite_ns);
  see({"frame_ns", "ns", "in the framework's frames"}, r.times.frame_ns);
  see({"compiled_ns", "ns", "in compiled code on a host, whose kernels have no events"},
      r.times.compiled_ns);
  see({"outside_ns", "ns", "kernels launched outside of the steps; in no other of these times"},
      r.times.outside_ns);
  see({"outside_kernels", "", "how many"}, r.times.outside_kernels);
  see({"replayed_ns", "ns", "the part of without_counts_ns in replayed graphs without a capture"},
      r.times.replayed_ns);
  see({"has_shapes", "", "whether operands of operations are recorded"}, r.times.has_shapes);
  see({"unknown_ns", "ns", "operations that Ridge does not know"}, r.times.unknown_ns);
  see("unknown", r.unknown);
}

}  // namespace ridge::record
