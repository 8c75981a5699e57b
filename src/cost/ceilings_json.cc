// SPDX-License-Identifier: Apache-2.0
// The ceilings as JSON and back. Reading checks every field; units stand in the names.
#include <limits>
#include <optional>

#include "base/error.h"
#include "cost/ceilings.h"
#include "files/json.h"
#include "files/json_field.h"

namespace ridge::cost {
namespace {

using files::JsonField;
using Json = nlohmann::ordered_json;

constexpr int kFormat = 14;

Json machine_json(const Machine& machine) {
  return {{"device", machine.device},
          {"isa", machine.isa},
          {"cores", machine.cores},
          {"threads", machine.threads},
          {"libraries", machine.libraries},
          {"clock_ghz", machine.clock_ghz},
          {"clock_source", machine.clock_source},
          {"memory_bytes", machine.memory_bytes}};
}

Json product_json(const ProductRates& rates) {
  Json samples = Json::array();
  for (const ProductSample& s : rates.samples)
    samples.push_back({{"form", name(s.form)},
                       {"batch", s.extents.batch},
                       {"m", s.extents.m},
                       {"n", s.extents.n},
                       {"k", s.extents.k},
                       {"ns", s.ns}});
  return {{"dtype", name(rates.dtype)},
          {"is_native", rates.is_native},
          {"peak_flops_per_ns", rates.peak_flops_per_ns},
          {"theoretical_flops_per_ns", rates.theoretical_flops_per_ns},
          {"exposed_memory_share", rates.exposed_memory_share},
          {"power_of_two_slowdown", rates.power_of_two_slowdown},
          {"stream_call_ns", rates.stream_call_ns},
          {"samples", samples}};
}

Json memory_json(const Ceilings& ceilings) {
  Json points = Json::array(), levels = Json::array();
  for (const BandwidthPoint& p : ceilings.bandwidth)
    points.push_back({{"footprint_bytes", p.footprint_bytes},
                      {"read_bytes_per_ns", p.read_bytes_per_ns},
                      {"copy_bytes_per_ns", p.copy_bytes_per_ns},
                      {"update_bytes_per_ns", p.update_bytes_per_ns}});
  for (const MemoryLevel& l : ceilings.levels)
    levels.push_back({{"name", l.name},
                      {"capacity_bytes", l.capacity_bytes},
                      {"read_bytes_per_ns", l.read_bytes_per_ns},
                      {"copy_bytes_per_ns", l.copy_bytes_per_ns},
                      {"theoretical_bytes_per_ns", l.theoretical_bytes_per_ns},
                      {"residency_ns", l.lifetime_ns}});
  return {{"points", points}, {"levels", levels}};
}

int read_count(const JsonField& field) {
  return static_cast<int>(field.integer(0, std::numeric_limits<int>::max()));
}

std::vector<std::string> read_texts(const JsonField& field) {
  std::vector<std::string> all;
  for (const JsonField& each : field.items()) all.push_back(each.text());
  return all;
}

DType read_dtype(const JsonField& field) {
  if (std::optional<DType> found = parse_dtype(field.text())) return *found;
  throw field.fault("an element type");
}

Machine read_machine(const JsonField& r) {
  Machine machine;
  machine.device = r.at("device").text();
  machine.isa = r.at("isa").text();
  machine.cores = read_count(r.at("cores"));
  machine.threads = read_count(r.at("threads"));
  machine.libraries = read_texts(r.at("libraries"));
  machine.clock_ghz = r.at("clock_ghz").real();
  machine.clock_source = r.at("clock_source").text();
  machine.memory_bytes = r.at("memory_bytes").integer();
  return machine;
}

ProductForm read_form(const JsonField& field) {
  for (ProductForm form : {ProductForm::kNN, ProductForm::kNT, ProductForm::kTN, ProductForm::kTT})
    if (name(form) == field.text()) return form;
  throw field.fault("one of nn, nt, tn, tt");
}

ProductRates read_product(const JsonField& r) {
  ProductRates rates;
  rates.dtype = read_dtype(r.at("dtype"));
  rates.is_native = r.at("is_native").flag();
  rates.peak_flops_per_ns = r.at("peak_flops_per_ns").real();
  rates.theoretical_flops_per_ns = r.at("theoretical_flops_per_ns").real();
  rates.exposed_memory_share = r.at("exposed_memory_share").real();
  rates.power_of_two_slowdown = r.at("power_of_two_slowdown").real();
  rates.stream_call_ns = r.at("stream_call_ns").real();
  for (const JsonField& s : r.at("samples").items())
    rates.samples.push_back(
        {{s.at("batch").integer(), s.at("m").integer(), s.at("n").integer(), s.at("k").integer()},
         read_form(s.at("form")),
         s.at("ns").real()});
  return rates;
}

void read_memory(const JsonField& r, Ceilings& ceilings) {
  for (const JsonField& p : r.at("points").items())
    ceilings.bandwidth.push_back(
        {p.at("footprint_bytes").integer(), p.at("read_bytes_per_ns").real(),
         p.at("copy_bytes_per_ns").real(), p.at("update_bytes_per_ns").real()});
  for (const JsonField& l : r.at("levels").items())
    ceilings.levels.push_back({l.at("name").text(), l.at("capacity_bytes").integer(),
                               l.at("read_bytes_per_ns").real(), l.at("copy_bytes_per_ns").real(),
                               l.at("theoretical_bytes_per_ns").real(),
                               l.at("residency_ns").real()});
}

void read_rates(const JsonField& r, Ceilings& c) {
  c.arithmetic_flops_per_ns = r.at("arithmetic_flops_per_ns").real();
  c.fused_flops_per_ns = r.at("fused_flops_per_ns").real();
  c.transcendentals_per_ns = r.at("transcendentals_per_ns").real();
  c.staged_elements_per_ns = r.at("staged_elements_per_ns").real();
  c.strided_reads_per_ns = r.at("strided_reads_per_ns").real();
  c.strided_writes_per_ns = r.at("strided_writes_per_ns").real();
  c.runs_per_ns = r.at("runs_per_ns").real();
  c.launch_ns = r.at("launch_ns").real();
  c.round_ns = r.at("round_ns").real();
  c.stream_launch_ns = r.at("stream_launch_ns").real();
  c.stream_gap_ns = r.at("stream_gap_ns").real();
  c.empty_step_ns = r.at("empty_step_ns").real();
  c.parallel_ns = r.at("parallel_ns").real();
  c.parallel_threshold_bytes = r.at("parallel_threshold_bytes").integer();
}

Ceilings read(const JsonField& r) {
  if (r.at("format").integer() != kFormat)
    throw r.at("format").fault(fmt::format("format {}", kFormat));
  Ceilings c;
  c.machine = read_machine(r.at("machine"));
  c.source = r.at("source").text();
  c.measured_at = r.at("measured_at").text();
  c.others_share = r.at("others_share").real();
  read_memory(r.at("memory"), c);
  for (const JsonField& p : r.at("gemms").items()) c.products.push_back(read_product(p));
  for (const JsonField& a : r.at("attention").items())
    c.attention.push_back({read_dtype(a.at("dtype")), a.at("forward_flops_per_ns").real(),
                           a.at("forward_scores_per_ns").real(),
                           a.at("backward_flops_per_ns").real(),
                           a.at("backward_scores_per_ns").real(), a.at("forward_call_ns").real(),
                           a.at("backward_call_ns").real()});
  read_rates(r, c);
  c.notes = read_texts(r.at("notes"));
  return c;
}

}  // namespace

std::string to_json(const Ceilings& c) {
  Json json{{"format", kFormat},
            {"machine", machine_json(c.machine)},
            {"source", c.source},
            {"measured_at", c.measured_at},
            {"others_share", c.others_share},
            {"memory", memory_json(c)},
            {"gemms", Json::array()},
            {"attention", Json::array()},
            {"arithmetic_flops_per_ns", c.arithmetic_flops_per_ns},
            {"fused_flops_per_ns", c.fused_flops_per_ns},
            {"transcendentals_per_ns", c.transcendentals_per_ns},
            {"staged_elements_per_ns", c.staged_elements_per_ns},
            {"strided_reads_per_ns", c.strided_reads_per_ns},
            {"strided_writes_per_ns", c.strided_writes_per_ns},
            {"runs_per_ns", c.runs_per_ns},
            {"launch_ns", c.launch_ns},
            {"round_ns", c.round_ns},
            {"stream_launch_ns", c.stream_launch_ns},
            {"stream_gap_ns", c.stream_gap_ns},
            {"empty_step_ns", c.empty_step_ns},
            {"parallel_ns", c.parallel_ns},
            {"parallel_threshold_bytes", c.parallel_threshold_bytes},
            {"notes", c.notes}};
  for (const ProductRates& rates : c.products) json["gemms"].push_back(product_json(rates));
  for (const AttentionRates& a : c.attention)
    json["attention"].push_back({{"dtype", name(a.dtype)},
                                 {"forward_flops_per_ns", a.forward_flops_per_ns},
                                 {"forward_scores_per_ns", a.forward_scores_per_ns},
                                 {"backward_flops_per_ns", a.backward_flops_per_ns},
                                 {"backward_scores_per_ns", a.backward_scores_per_ns},
                                 {"forward_call_ns", a.forward_call_ns},
                                 {"backward_call_ns", a.backward_call_ns}});
  return json.dump(1, ' ', true, Json::error_handler_t::replace) + "\n";
}

Ceilings ceilings_from_json(std::string_view text, std::string_view origin) {
  const nlohmann::json json = files::parse_json(text, origin);
  Ceilings ceilings = read({json, std::string(origin)});
  try {
    validate(ceilings);
  } catch (const Error& error) {
    throw file_error("{}: {}", origin, error.what());
  }
  return ceilings;
}

}  // namespace ridge::cost
