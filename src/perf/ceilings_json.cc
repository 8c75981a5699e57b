// SPDX-License-Identifier: Apache-2.0
// The ceilings as JSON and back. Reading checks every field; units stand in the names.
#include "base/error.h"
#include "perf/ceilings.h"
#include "perf/json_reader.h"

namespace ridge::perf {
namespace {

constexpr int kFormat = 2;

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
          {"peak_flops_per_ns", rates.peak_flops_per_ns},
          {"theoretical_flops_per_ns", rates.theoretical_flops_per_ns},
          {"exposed_memory_share", rates.exposed_memory_share},
          {"power_of_two_slowdown", rates.power_of_two_slowdown},
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
                      {"theoretical_bytes_per_ns", l.theoretical_bytes_per_ns}});
  return {{"points", points}, {"levels", levels}};
}

Machine read_machine(const JsonReader& r) {
  Machine machine;
  machine.device = r.text("device");
  machine.isa = r.text("isa");
  machine.cores = r.small_integer("cores");
  machine.threads = r.small_integer("threads");
  machine.libraries = r.texts("libraries");
  machine.clock_ghz = r.number("clock_ghz");
  machine.clock_source = r.text("clock_source");
  machine.memory_bytes = r.integer("memory_bytes");
  return machine;
}

ProductForm read_form(const JsonReader& r) {
  std::string text = r.text("form");
  for (ProductForm form : {ProductForm::kNN, ProductForm::kNT, ProductForm::kTN, ProductForm::kTT})
    if (name(form) == text) return form;
  r.fail_at("form", "one of nn, nt, tn, tt", text);
}

ProductRates read_product(const JsonReader& r) {
  ProductRates rates;
  rates.dtype = r.dtype("dtype");
  rates.peak_flops_per_ns = r.number("peak_flops_per_ns");
  rates.theoretical_flops_per_ns = r.number("theoretical_flops_per_ns");
  rates.exposed_memory_share = r.number("exposed_memory_share");
  rates.power_of_two_slowdown = r.number("power_of_two_slowdown");
  for (const JsonReader& s : r.objects("samples"))
    rates.samples.push_back({{s.integer("batch"), s.integer("m"), s.integer("n"), s.integer("k")},
                             read_form(s),
                             s.number("ns")});
  return rates;
}

void read_memory(const JsonReader& r, Ceilings& ceilings) {
  for (const JsonReader& p : r.objects("points"))
    ceilings.bandwidth.push_back({p.integer("footprint_bytes"), p.number("read_bytes_per_ns"),
                                  p.number("copy_bytes_per_ns"), p.number("update_bytes_per_ns")});
  for (const JsonReader& l : r.objects("levels"))
    ceilings.levels.push_back({l.text("name"), l.integer("capacity_bytes"),
                               l.number("read_bytes_per_ns"), l.number("copy_bytes_per_ns"),
                               l.number("theoretical_bytes_per_ns")});
}

void read_rates(const JsonReader& r, Ceilings& c) {
  c.arithmetic_flops_per_ns = r.number("arithmetic_flops_per_ns");
  c.fused_flops_per_ns = r.number("fused_flops_per_ns");
  c.transcendentals_per_ns = r.number("transcendentals_per_ns");
  c.staged_elements_per_ns = r.number("staged_elements_per_ns");
  c.strided_reads_per_ns = r.number("strided_reads_per_ns");
  c.strided_writes_per_ns = r.number("strided_writes_per_ns");
  c.runs_per_ns = r.number("runs_per_ns");
  c.launch_ns = r.number("launch_ns");
  c.round_ns = r.number("round_ns");
  c.stream_launch_ns = r.number("stream_launch_ns");
  c.parallel_ns = r.number("parallel_ns");
  c.parallel_threshold_bytes = r.integer("parallel_threshold_bytes");
}

Ceilings read(const Json& json, std::string_view origin) {
  JsonReader r(json, std::string(origin));
  if (r.integer("format") != kFormat)
    throw file_error("{}: expected format {}, found {}", origin, kFormat, r.integer("format"));
  Ceilings c;
  c.machine = read_machine(r.object("machine"));
  c.source = r.text("source");
  c.measured_at = r.text("measured_at");
  read_memory(r.object("memory"), c);
  for (const JsonReader& p : r.objects("products")) c.products.push_back(read_product(p));
  for (const JsonReader& a : r.objects("attention"))
    c.attention.push_back({a.dtype("dtype"), a.number("forward_flops_per_ns"),
                           a.number("forward_scores_per_ns"), a.number("backward_flops_per_ns"),
                           a.number("backward_scores_per_ns")});
  read_rates(r, c);
  c.notes = r.texts("notes");
  return c;
}

}  // namespace

std::string to_json(const Ceilings& c) {
  Json json{{"format", kFormat},
            {"machine", machine_json(c.machine)},
            {"source", c.source},
            {"measured_at", c.measured_at},
            {"memory", memory_json(c)},
            {"products", Json::array()},
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
            {"parallel_ns", c.parallel_ns},
            {"parallel_threshold_bytes", c.parallel_threshold_bytes},
            {"notes", c.notes}};
  for (const ProductRates& rates : c.products) json["products"].push_back(product_json(rates));
  for (const AttentionRates& a : c.attention)
    json["attention"].push_back({{"dtype", name(a.dtype)},
                                 {"forward_flops_per_ns", a.forward_flops_per_ns},
                                 {"forward_scores_per_ns", a.forward_scores_per_ns},
                                 {"backward_flops_per_ns", a.backward_flops_per_ns},
                                 {"backward_scores_per_ns", a.backward_scores_per_ns}});
  return json.dump(1, ' ', true, Json::error_handler_t::replace) + "\n";
}

Ceilings ceilings_from_json(std::string_view text, std::string_view origin) {
  Json json = parse_json(text, origin);
  Ceilings ceilings = read(json, origin);
  try {
    validate(ceilings);
  } catch (const Error& error) {
    throw file_error("{}: {}", origin, error.what());
  }
  return ceilings;
}

}  // namespace ridge::perf
