// SPDX-License-Identifier: Apache-2.0
// Medians of the counts.
#include "report/hardware_counts.h"

#include <fmt/format.h>

#include "base/samples.h"
#include "base/units.h"

namespace ridge::report {
namespace {

// A miss of the last level of cache moves one line. All processors that Ridge runs on have lines of
// 64 bytes.
constexpr double kLineBytes = 64;

Json median_or_null(const std::vector<double>& counts) {
  return counts.empty() ? Json() : Json(median(counts));
}

}  // namespace

std::string hardware_note(const record::RunRecord& run) {
  const record::HardwareCounts& c = run.counts;
  if (!c.reason.empty()) return "Hardware counters: none; " + c.reason + ".";
  if (c.cycles.empty() || c.instructions.empty() || c.cache_misses.empty()) return "";
  const double cycles = median(c.cycles), misses = median(c.cache_misses);
  return fmt::format(
      "Hardware counters, medians of {} instrumented steps: {} cycles of all threads, {:.2f} "
      "instructions per cycle, {} last-level cache misses, which moved {} (planned bytes: {}).",
      c.cycles.size(), format_count(cycles), cycles > 0 ? median(c.instructions) / cycles : 0,
      format_count(misses), format_bytes(static_cast<int64_t>(misses * kLineBytes)),
      format_bytes(run.planned_bytes));
}

Json to_json(const record::HardwareCounts& counts) {
  Json json = {{"steps", counts.cycles.size()},
               {"cycles", median_or_null(counts.cycles)},
               {"instructions", median_or_null(counts.instructions)},
               {"cache_misses", median_or_null(counts.cache_misses)},
               {"memory_bytes", nullptr},
               {"reason", counts.reason}};
  if (!counts.cache_misses.empty()) json["memory_bytes"] = kLineBytes * median(counts.cache_misses);
  return json;
}

}  // namespace ridge::report
