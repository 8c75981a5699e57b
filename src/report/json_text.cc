// SPDX-License-Identifier: Apache-2.0
// Converts records to JSON.
#include "report/json_text.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "base/samples.h"
#include "base/split.h"
#include "base/units.h"

namespace ridge::report {

std::string json_text(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string json_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
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

Json to_json(const cost::ReferenceRate& rate) {
  return {{"per_s", rate.per_ns * 1e9},
          {"source", rate.source},
          {"data_sheet_per_s", known(rate.data_sheet_per_ns * 1e9)}};
}

Json value_json(const int64_t (&bytes)[plan::kMemoryClasses]) {
  Json json = Json::object();
  for (int i = 0; i < plan::kMemoryClasses; ++i)
    json[std::string(name(static_cast<plan::MemoryClass>(i)))] = bytes[i];
  return json;
}

Json heading(const record::LabRecord& lab) {
  Json json = {
      {"program", lab.program}, {"command", lab.command}, {"finished_at", lab.finished_at}};
  if (!lab.ceilings) return json;
  const cost::Ceilings& c = *lab.ceilings;
  json["machine"] = {{"device", c.machine.device},
                     {"isa", c.machine.isa},
                     {"cores", c.machine.cores},
                     {"threads", c.machine.threads},
                     {"libraries", c.machine.libraries},
                     {"memory_bytes", c.machine.memory_bytes},
                     {"ceilings", c.source},
                     {"measured_at", c.measured_at}};
  Json& peaks = json["machine"]["peak_flops_per_s"] = Json::object();
  for (const cost::ProductRates& rates : c.products)
    peaks[rates.name()] = rates.peak_flops_per_ns * 1e9;
  if (!c.bandwidth.empty()) json["machine"]["memory_bytes_per_s"] = c.memory_bytes_per_ns() * 1e9;
  return json;
}

Json roofs_json(const cost::Ceilings& c) {
  auto rate = [](double per_ns) { return known(per_ns * 1e9); };
  Json json = {{"memory", Json::array()}, {"arithmetic", Json::array()}};
  for (const cost::MemoryLevel& level : c.levels)
    json["memory"].push_back({{"name", level.name},
                              {"capacity_bytes", level.capacity_bytes},
                              {"bytes_per_s", rate(level.copy_bytes_per_ns)},
                              {"read_bytes_per_s", rate(level.read_bytes_per_ns)},
                              {"theoretical_bytes_per_s", rate(level.theoretical_bytes_per_ns)}});
  for (const cost::ProductRates& rates : c.products)
    json["arithmetic"].push_back(
        {{"name", rates.name()},
         {"dtype", name(rates.dtype)},
         {"flops_per_s", rate(rates.peak_flops_per_ns)},
         {"theoretical_flops_per_s", rate(rates.theoretical_flops_per_ns)}});
  json["vector_flops_per_s"] = rate(cost::vector_roof(c).flops_per_ns);
  json["launch_ns"] = c.launch_ns;
  return json;
}

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
