// SPDX-License-Identifier: Apache-2.0
// Converts records to JSON.
#include "report/json_text.h"

namespace ridge::report {

std::string json_text(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json to_json(const record::Setting& s) {
  Json json{{"task", s.task},
            {"model", s.model},
            {"level", s.level},
            {"pass", s.switches},
            {"dtype", s.dtype},
            {"device", s.device},
            {"isa", s.isa},
            {"threads", s.threads},
            {"batch_size", s.batch_size},
            {"seq_len", s.sequence},
            {"micro_batches", s.micro_batches}};
  if (!s.cache_dtype.empty()) json["cache_dtype"] = s.cache_dtype;
  return json;
}

Json to_json(const Summary& s) {
  return {{"median_ns", s.median},
          {"low_ns", s.low},
          {"high_ns", s.high},
          {"samples", s.count},
          {"coverage", s.coverage}};
}

Json to_json(const Work& work) {
  return {{"flops", work.flops}, {"macs", work.macs}, {"transcendentals", work.transcendentals}};
}

Json to_json(const cost::ReferenceRate& rate) {
  return {{"per_s", rate.per_ns * 1e9},
          {"source", rate.source},
          {"data_sheet_per_s",
           rate.data_sheet_per_ns > 0 ? Json(rate.data_sheet_per_ns * 1e9) : Json()}};
}

Json to_json(const record::OperationRow& row) {
  return {{"key", row.key},
          {"nodes", row.nodes},
          {"calls", row.calls},
          {"time_ns", row.time_ns},
          {"exclusive_ns", row.exclusive_ns},
          {"samples", to_json(row.samples)},
          {"share", row.share},
          {"flops", row.work.flops},
          {"macs", row.work.macs},
          {"transcendentals", row.work.transcendentals},
          {"read_bytes", row.read_bytes},
          {"written_bytes", row.written_bytes},
          {"flops_per_byte", row.intensity()},
          {"flops_per_s", row.flops_per_ns() * 1e9},
          {"bytes_per_s", row.bytes_per_ns() * 1e9},
          {"bound", name(row.bound)},
          {"predicted_ns", row.predicted_ns},
          {"prediction_error", row.error()}};
}

Json memory_classes_json(const int64_t (&bytes)[plan::kMemoryClasses]) {
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
  auto rate = [](double per_ns) { return per_ns > 0 ? Json(per_ns * 1e9) : Json(); };
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

}  // namespace ridge::report
