// SPDX-License-Identifier: Apache-2.0
// Converts records to JSON.
#include "report/json_text.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "base/samples.h"
#include "base/split.h"
#include "base/terminal_json.h"
#include "base/units.h"

namespace ridge::report {

std::string json_text(const Json& json) {
  return terminal_safe_json(json.dump(2, ' ', false, Json::error_handler_t::replace)) + "\n";
}

std::string json_line(const Json& json) {
  return terminal_safe_json(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

void put(Json& json, std::string_view key, Json value, record::Unknown unknown) {
  const bool is_known =
      unknown == record::Unknown::kWritten || (value.is_string() ? value != "" : value > 0);
  if (is_known || unknown == record::Unknown::kNull)
    json[std::string(key)] = is_known ? std::move(value) : Json();
}

std::vector<Choice> choices(std::string_view keys) {
  std::vector<Choice> all;
  for (const std::string& each : split(keys, ' ')) {
    const std::string named = each.substr(0, each.find(':'));
    const size_t equals = named.find('=');  // the key is all of it if there is none
    all.push_back({named.substr(0, equals), named.substr(equals + 1), each.substr(named.size())});
  }
  return all;
}

void add(Json& json, const Json& figures, std::string_view keys) {
  for (const Choice& each : choices(keys)) {
    RIDGE_CHECK(figures.contains(each.key), "there is no figure {}", each.key);
    json[each.name] = figures[each.key];
  }
}

Json value_json(const int64_t (&bytes)[plan::kMemoryClasses]) {
  Json json = Json::object();
  for (int i = 0; i < plan::kMemoryClasses; ++i)
    json[std::string(name(static_cast<plan::MemoryClass>(i)))] = bytes[i];
  return json;
}

std::string hardware_note(const record::RunRecord& run) {
  const record::HardwareCounts& c = run.counts;
  if (!c.reason.empty()) return "Hardware counters: none; " + c.reason + ".";
  if (c.cycles.empty() || c.instructions.empty() || c.cache_misses.empty()) return "";
  const double cycles = median(c.cycles), misses = median(c.cache_misses);
  return fmt::format(
      "Hardware counters, medians of {} instrumented steps: {} cycles of all threads, {:.2f} "
      "instructions per cycle, {} last-level cache misses, which moved {} (planned bytes: {}).",
      c.cycles.size(), format_count(cycles), cycles > 0 ? median(c.instructions) / cycles : 0,
      format_count(misses), format_bytes(static_cast<int64_t>(misses * record::kCacheLineBytes)),
      format_bytes(run.planned_bytes));
}

}  // namespace ridge::report
