// SPDX-License-Identifier: Apache-2.0
// Writes the ceilings as JSON and reads them back. Reading checks every field; field names include
// the units.
#include <limits>
#include <optional>

#include "base/error.h"
#include "cost/ceilings.h"
#include "cost/ceilings_numbers.h"
#include "files/json.h"
#include "files/json_field.h"

namespace ridge::cost {
namespace {

using files::JsonField;
using Json = nlohmann::ordered_json;

constexpr int kFormat = 23;

template <typename Record>
void write_numbers(const Record& record, Json& to) {
  for (const auto& field : kNumbers<Record>) to[field.name] = record.*field.value;
}

template <typename Record>
void read_numbers(const JsonField& from, Record& record) {
  for (const auto& field : kNumbers<Record>) record.*field.value = from.at(field.name).real();
}

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

Json samples_json(const std::vector<ProductSample>& samples) {
  Json json = Json::array();
  for (const ProductSample& s : samples)
    json.push_back({{"form", name(s.form)},
                    {"batch", s.extents.batch},
                    {"m", s.extents.m},
                    {"n", s.extents.n},
                    {"k", s.extents.k},
                    {"ns", s.ns}});
  return json;
}

Json product_json(const ProductRates& rates) {
  Json json{{"dtype", name(rates.dtype)}, {"is_native", rates.is_native}};
  write_numbers(rates, json);
  json["samples"] = samples_json(rates.samples);
  json["memory_samples"] = samples_json(rates.memory_samples);
  return json;
}

Json multiply_json(const MultiplyRates& rates) {
  Json json{{"dtype", name(rates.dtype)}, {"instruction", rates.instruction}};
  write_numbers(rates, json);
  json["source"] = rates.source;
  return json;
}

Json quantized_json(const QuantizedRates& rates) {
  Json times = Json::array();
  for (const QuantizedTime& t : rates.times)
    write_numbers(t, times.emplace_back(Json{{"tokens", t.tokens}}));
  return {{"weight", name(rates.weight)},
          {"activations", name(rates.activations)},
          {"most_tokens", rates.most_tokens},
          {"times", std::move(times)}};
}

Json memory_json(const Ceilings& ceilings) {
  Json points = Json::array(), levels = Json::array();
  for (const BandwidthPoint& p : ceilings.bandwidth)
    write_numbers(p, points.emplace_back(Json{{"footprint_bytes", p.footprint_bytes}}));
  for (const MemoryLevel& l : ceilings.levels)
    write_numbers(
        l, levels.emplace_back(Json{{"name", l.name}, {"capacity_bytes", l.capacity_bytes}}));
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

std::vector<ProductSample> read_samples(const JsonField& r) {
  std::vector<ProductSample> samples;
  for (const JsonField& s : r.items())
    samples.push_back(
        {{s.at("batch").integer(), s.at("m").integer(), s.at("n").integer(), s.at("k").integer()},
         read_form(s.at("form")),
         s.at("ns").real()});
  return samples;
}

ProductRates read_product(const JsonField& r) {
  ProductRates rates;
  rates.dtype = read_dtype(r.at("dtype"));
  rates.is_native = r.at("is_native").flag();
  read_numbers(r, rates);
  rates.samples = read_samples(r.at("samples"));
  rates.memory_samples = read_samples(r.at("memory_samples"));
  return rates;
}

MultiplyRates read_multiply(const JsonField& r) {
  MultiplyRates rates;
  rates.dtype = read_dtype(r.at("dtype"));
  rates.instruction = r.at("instruction").text();
  read_numbers(r, rates);
  rates.source = r.at("source").text();
  return rates;
}

QuantizedRates read_quantized(const JsonField& r) {
  QuantizedRates rates;
  rates.weight = read_dtype(r.at("weight"));
  rates.activations = read_dtype(r.at("activations"));
  rates.most_tokens = r.at("most_tokens").integer();
  for (const JsonField& t : r.at("times").items())
    read_numbers(t, rates.times.emplace_back(QuantizedTime{t.at("tokens").integer()}));
  return rates;
}

void read_memory(const JsonField& r, Ceilings& ceilings) {
  for (const JsonField& p : r.at("points").items())
    read_numbers(
        p, ceilings.bandwidth.emplace_back(BandwidthPoint{p.at("footprint_bytes").integer()}));
  for (const JsonField& l : r.at("levels").items())
    read_numbers(l, ceilings.levels.emplace_back(
                        MemoryLevel{l.at("name").text(), l.at("capacity_bytes").integer()}));
}

Ceilings read(const JsonField& r) {
  if (r.at("format").integer() != kFormat)
    throw r.at("format").fault(fmt::format("format {}", kFormat));
  Ceilings c;
  c.machine = read_machine(r.at("machine"));
  c.source = r.at("source").text();
  c.measured_at = r.at("measured_at").text();
  c.others_share = r.at("others_share").real();
  c.has_inference = r.at("has_inference").flag();
  read_memory(r.at("memory"), c);
  for (const JsonField& p : r.at("gemms").items()) c.products.push_back(read_product(p));
  for (const JsonField& m : r.at("multiplies").items()) c.multiplies.push_back(read_multiply(m));
  for (const JsonField& u : r.at("unpacking").items())
    read_numbers(u, c.unpacks.emplace_back(UnpackRate{read_dtype(u.at("weight"))}));
  for (const JsonField& f : r.at("functions").items())
    read_numbers(f, c.functions.emplace_back(FunctionRate{f.at("function").text()}));
  for (const JsonField& g : r.at("stored_gemms").items())
    c.quantized_gemms.push_back(read_quantized(g));
  for (const JsonField& a : r.at("cache").items())
    read_numbers(a, c.cache.emplace_back(CacheRates{a.at("op").text(), read_dtype(a.at("dtype"))}));
  for (const JsonField& a : r.at("attention").items())
    read_numbers(a, c.attention.emplace_back(AttentionRates{read_dtype(a.at("dtype"))}));
  // Files of one device have none.
  if (r.has("links"))
    for (const JsonField& l : r.at("links").items())
      read_numbers(l,
                   c.links.emplace_back(LinkRates{l.at("link").text(), l.at("ranks").integer()}));
  read_numbers(r, c);
  c.parallel_threshold_bytes = r.at("parallel_threshold_bytes").integer();
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
            {"has_inference", c.has_inference},
            {"memory", memory_json(c)},
            {"gemms", Json::array()},
            {"multiplies", Json::array()},
            {"unpacking", Json::array()},
            {"functions", Json::array()},
            {"stored_gemms", Json::array()},
            {"cache", Json::array()},
            {"attention", Json::array()}};
  for (const ProductRates& rates : c.products) json["gemms"].push_back(product_json(rates));
  for (const MultiplyRates& rates : c.multiplies)
    json["multiplies"].push_back(multiply_json(rates));
  for (const UnpackRate& u : c.unpacks)
    write_numbers(u, json["unpacking"].emplace_back(Json{{"weight", name(u.weight)}}));
  for (const FunctionRate& f : c.functions)
    write_numbers(f, json["functions"].emplace_back(Json{{"function", f.function}}));
  for (const QuantizedRates& rates : c.quantized_gemms)
    json["stored_gemms"].push_back(quantized_json(rates));
  for (const CacheRates& a : c.cache)
    write_numbers(a, json["cache"].emplace_back(Json{{"op", a.op}, {"dtype", name(a.dtype)}}));
  for (const AttentionRates& a : c.attention)
    write_numbers(a, json["attention"].emplace_back(Json{{"dtype", name(a.dtype)}}));
  for (const LinkRates& l : c.links)
    write_numbers(l, json["links"].emplace_back(Json{{"link", l.link}, {"ranks", l.ranks}}));
  write_numbers(c, json);
  json["parallel_threshold_bytes"] = c.parallel_threshold_bytes;
  json["notes"] = c.notes;
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

bool is_ceilings_json(std::string_view text, std::string_view origin) {
  const nlohmann::json json = files::parse_json(text, origin);
  return json.is_object() && json.contains("gemms");
}

}  // namespace ridge::cost
