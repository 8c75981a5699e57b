// SPDX-License-Identifier: Apache-2.0
// Machine identity, look-ups and checks of the ceilings. ceilings_json.cc reads and writes their
// JSON.
#include "cost/ceilings.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/fnv.h"
#include "base/units.h"
#include "cost/ceilings_numbers.h"

namespace ridge::cost {
namespace {

// Above these limits, the file must be in other units; no machine reaches such rates.
constexpr double kMostRate = 1e9;
constexpr double kMostNs = 1e15;
constexpr size_t kMostEntries = 10000;
constexpr int64_t kMostExtent = int64_t{1} << 32;

[[noreturn]] void refuse(const std::string& field, const std::string& found) {
  throw file_error("[ceilings] {} {}", field, found);
}

std::string range_text(NumberKind kind) {
  switch (kind) {
    case NumberKind::kRate:
    case NumberKind::kRateOrUnknown:
      return fmt::format("a rate up to {:g} per ns", kMostRate);
    case NumberKind::kNs:
      return fmt::format("nanoseconds up to {:g}", kMostNs);
    case NumberKind::kShare:
      return "0 to 1";
    case NumberKind::kSlowdown:
      return "1 to 100";
  }
  return "";
}

void expect_number(const std::string& field, double value, NumberKind kind) {
  const bool is_rate = kind == NumberKind::kRate || kind == NumberKind::kRateOrUnknown;
  const double least = kind == NumberKind::kSlowdown ? 1 : 0;
  const double most = is_rate                         ? kMostRate
                      : kind == NumberKind::kNs       ? kMostNs
                      : kind == NumberKind::kSlowdown ? 100
                                                      : 1;
  const bool fits = value >= least && value <= most && !(kind == NumberKind::kRate && value == 0);
  if (!fits) refuse(field, fmt::format("expects {}, got {:g}", range_text(kind), value));
}

// Checks all numbers of a record; `place` is the prefix of their names in errors.
template <typename Record>
void expect_numbers(const std::string& place, const Record& record) {
  for (const auto& field : kNumbers<Record>)
    expect_number(place + field.name, record.*field.value, field.kind);
}

void expect_count(const std::string& field, size_t found, size_t least) {
  if (found < least || found > kMostEntries)
    refuse(field, fmt::format("expects {} to {} entries, got {}", least, kMostEntries, found));
}

void check_bandwidth(const Ceilings& ceilings) {
  expect_count("bandwidth", ceilings.bandwidth.size(), 1);
  int64_t previous = 0;
  for (const BandwidthPoint& point : ceilings.bandwidth) {
    if (point.footprint_bytes <= previous)
      refuse("bandwidth.footprint_bytes", fmt::format("expects ascending sizes, got {} after {}",
                                                      point.footprint_bytes, previous));
    previous = point.footprint_bytes;
    expect_numbers("bandwidth.", point);
  }
  expect_count("levels", ceilings.levels.size(), 0);
  for (const MemoryLevel& level : ceilings.levels) {
    if (level.capacity_bytes < 0) refuse("levels.capacity_bytes", "expects a size >= 0");
    expect_numbers("levels.", level);
  }
}

void check_samples(const std::string& field, const std::vector<ProductSample>& samples) {
  expect_count(field, samples.size(), 0);
  for (const ProductSample& sample : samples) {
    for (int64_t extent :
         {sample.extents.batch, sample.extents.m, sample.extents.n, sample.extents.k})
      if (extent < 1 || extent > kMostExtent)
        refuse(field, fmt::format("expects extents from 1 to 2^32, got {}", extent));
    expect_number(field + ".ns", sample.ns, NumberKind::kNs);
    if (sample.ns == 0) refuse(field + ".ns", "expects more than 0");
  }
}

void check_products(const Ceilings& ceilings) {
  expect_count("gemms", ceilings.products.size(), 1);
  bool has_f32 = false;
  for (const ProductRates& rates : ceilings.products) {
    has_f32 = has_f32 || (rates.dtype == DType::kF32 && !rates.is_native);
    expect_numbers("gemms.", rates);
    check_samples("gemms.samples", rates.samples);
    check_samples("gemms.memory_samples", rates.memory_samples);
  }
  if (!has_f32) refuse("gemms", "expects an entry for f32");
}

void check_multiplies(const Ceilings& ceilings) {
  expect_count("multiplies", ceilings.multiplies.size(), 0);
  for (const MultiplyRates& rates : ceilings.multiplies) expect_numbers("multiplies.", rates);
  expect_count("unpacking", ceilings.unpacks.size(), 0);
  for (const UnpackRate& rate : ceilings.unpacks) expect_numbers("unpacking.", rate);
  expect_count("functions", ceilings.functions.size(), 0);
  for (const FunctionRate& rate : ceilings.functions) expect_numbers("functions.", rate);
}

void check_quantized_gemms(const Ceilings& ceilings) {
  expect_count("stored_gemms", ceilings.quantized_gemms.size(), 0);
  for (const QuantizedRates& rates : ceilings.quantized_gemms) {
    if (rates.most_tokens < 0) refuse("stored_gemms.most_tokens", "expects a number >= 0");
    expect_count("stored_gemms.times", rates.times.size(), 1);
    int64_t previous = 0;
    for (const QuantizedTime& time : rates.times) {
      if (time.tokens <= previous || time.tokens > kMostExtent)
        refuse("stored_gemms.times.tokens",
               fmt::format("expects ascending numbers from 1 to 2^32, got {} after {}", time.tokens,
                           previous));
      previous = time.tokens;
      expect_numbers("stored_gemms.times.", time);
      if (time.cached_ns == 0 || time.memory_ns == 0)
        refuse("stored_gemms.times", "expects cached_ns and memory_ns above 0");
    }
  }
}

void check_attention(const Ceilings& ceilings) {
  expect_count("cache", ceilings.cache.size(), 0);
  for (const CacheRates& rates : ceilings.cache) expect_numbers("cache.", rates);
  expect_count("attention", ceilings.attention.size(), 0);
  for (const AttentionRates& rates : ceilings.attention) expect_numbers("attention.", rates);
}

}  // namespace

std::string_view name(ProductForm form) {
  constexpr std::string_view kNames[] = {"nn", "nt", "tn", "tt"};
  return kNames[static_cast<size_t>(form)];
}

std::string Machine::str() const {
  std::string text = device;
  if (!isa.empty()) text += ", " + isa;
  if (threads > 0)
    text += fmt::format(", {} {} on {} {}", threads, threads == 1 ? "thread" : "threads", cores,
                        cores == 1 ? "core" : "cores");
  for (const std::string& library : libraries) text += ", " + library;
  return text;
}

std::string Machine::hash() const {
  std::string identity = fmt::format("{}\n{}\n{}\n{}\n", device, isa, cores, threads);
  for (const std::string& library : libraries) identity += library + "\n";
  return fmt::format("{:016x}", fnv1a<uint64_t>(identity));
}

std::string ProductRates::name() const {
  return std::string(ridge::name(dtype)) + (is_native ? " native" : "");
}

const ProductRates& Ceilings::product(DType dtype, bool is_native) const {
  const ProductRates *f32 = nullptr, *plain = nullptr;
  for (const ProductRates& rates : products) {
    if (rates.dtype == dtype && rates.is_native == is_native) return rates;
    if (rates.is_native) continue;
    if (rates.dtype == dtype) plain = &rates;
    if (rates.dtype == DType::kF32) f32 = &rates;
  }
  RIDGE_CHECK(f32 != nullptr, "ceilings without f32 GEMMs");
  return plain != nullptr ? *plain : *f32;
}

const MultiplyRates* Ceilings::multiply_rates(DType dtype) const {
  const MultiplyRates* fastest = nullptr;
  for (const MultiplyRates& rates : multiplies)
    if (rates.dtype == dtype &&
        (fastest == nullptr || rates.multiply_ops_per_ns > fastest->multiply_ops_per_ns))
      fastest = &rates;
  const bool is_widened = dtype == DType::kBF16 || dtype == DType::kF16;
  return fastest == nullptr && is_widened ? multiply_rates(DType::kF32) : fastest;
}

double Ceilings::function_elements_per_ns(std::string_view function) const {
  for (const FunctionRate& rate : functions)
    if (rate.function == function) return rate.elements_per_ns;
  return 0;
}

double Ceilings::unpack_bytes_per_ns(DType weight) const {
  for (const UnpackRate& rate : unpacks)
    if (rate.weight == weight) return rate.bytes_per_ns;
  return 0;
}

const QuantizedRates* Ceilings::quantized_rates(DType weight, DType activations) const {
  auto found = std::find_if(quantized_gemms.begin(), quantized_gemms.end(),
                            [&](const QuantizedRates& rates) {
                              return rates.weight == weight && rates.activations == activations;
                            });
  return found == quantized_gemms.end() ? nullptr : &*found;
}

const CacheRates* Ceilings::cache_rates(std::string_view op, DType dtype) const {
  auto found = std::find_if(cache.begin(), cache.end(), [&](const CacheRates& rates) {
    return rates.op == op && rates.dtype == dtype;
  });
  return found == cache.end() ? nullptr : &*found;
}

LinkRates Ceilings::link(int64_t ranks) const {
  const LinkRates* nearest = nullptr;
  const auto distance = [&](const LinkRates& each) {
    return each.ranks == 0 ? 0 : std::abs(each.ranks - ranks);
  };
  for (const LinkRates& each : links)
    if (nearest == nullptr || distance(each) < distance(*nearest)) nearest = &each;
  if (nearest != nullptr) return *nearest;
  // A rank's bytes are copied, and all ranks share the memory's rate, which counts both the bytes
  // read and the bytes written.
  return {"memory", ranks, memory_bytes_per_ns() / 2 / static_cast<double>(ranks), launch_ns};
}

double Ceilings::peak_flops_per_ns(DType dtype) const {
  return std::max(product(dtype).peak_flops_per_ns, product(dtype, true).peak_flops_per_ns);
}

std::string ReferenceRate::str(const char* unit, std::string_view type) const {
  std::string text = fmt::format("of {}{}{}, {}", format_rate(per_ns * 1e9, unit),
                                 type.empty() ? "" : " ", type, source);
  if (source == "measured" && data_sheet_per_ns > 0)
    text += fmt::format(" (data sheet: {})", format_rate(data_sheet_per_ns * 1e9, unit));
  return text;
}

ReferenceRate Ceilings::mfu_reference(DType dtype) const {
  const double sheet = std::max(product(dtype).theoretical_flops_per_ns,
                                product(dtype, true).theoretical_flops_per_ns);
  const MultiplyRates* alone = dtype == DType::kI16 ? multiply_rates(dtype) : nullptr;
  const double measured = alone != nullptr ? alone->multiply_ops_per_ns : peak_flops_per_ns(dtype);
  if (is_measured() || sheet <= 0) return {measured, "measured", sheet};
  return {sheet, "data sheet", sheet};
}

ReferenceRate Ceilings::mbu_reference() const {
  const double sheet = levels.empty() ? 0 : levels.back().theoretical_bytes_per_ns;
  if (is_measured() || sheet <= 0) return {memory_reads_per_ns(), "measured", sheet};
  return {sheet, "data sheet", sheet};
}

Ceilings at_launch_rate(Ceilings ceilings, double rate) {
  ceilings.stream_launch_ns /= rate;
  for (ProductRates& rates : ceilings.products)
    rates.stream_call_ns /= rate, rates.stream_row_call_ns /= rate;
  return ceilings;
}

Ceilings at_threads(Ceilings c, int threads) {
  const double factor = static_cast<double>(threads) / std::max(c.machine.threads, 1);
  // Each core has these caches of its own; the last cache is shared.
  const size_t own = c.levels.size() > 2 ? c.levels.size() - 2 : 0;
  const int64_t own_bytes = own > 0 ? c.levels[own - 1].capacity_bytes : 0;
  for (BandwidthPoint& point : c.bandwidth)
    if (point.footprint_bytes <= own_bytes) {
      point.read_bytes_per_ns *= factor;
      point.copy_bytes_per_ns *= factor;
    }
  for (size_t i = 0; i < own; ++i) {
    c.levels[i].capacity_bytes =
        static_cast<int64_t>(static_cast<double>(c.levels[i].capacity_bytes) * factor);
    c.levels[i].read_bytes_per_ns *= factor;
    c.levels[i].copy_bytes_per_ns *= factor;
    c.levels[i].theoretical_bytes_per_ns *= factor;
  }
  for (ProductRates& rates : c.products) {
    rates.peak_flops_per_ns *= factor;
    rates.theoretical_flops_per_ns *= factor;
    for (ProductSample& sample : rates.samples) sample.ns /= factor;
    for (ProductSample& sample : rates.memory_samples) sample.ns /= factor;
  }
  for (MultiplyRates& rates : c.multiplies) {
    rates.theoretical_ops_per_ns *= factor;
    rates.multiply_ops_per_ns *= factor;
    rates.accumulate_ops_per_ns *= factor;
  }
  for (UnpackRate& rate : c.unpacks) rate.bytes_per_ns *= factor;
  for (FunctionRate& rate : c.functions) rate.elements_per_ns *= factor;
  for (QuantizedRates& rates : c.quantized_gemms)
    for (QuantizedTime& time : rates.times) time.cached_ns /= factor;
  for (CacheRates& rates : c.cache) {
    rates.flops_per_ns *= factor;
    rates.scores_per_ns *= factor;
  }
  for (AttentionRates& rates : c.attention) {
    rates.forward_flops_per_ns *= factor;
    rates.forward_scores_per_ns *= factor;
    rates.backward_flops_per_ns *= factor;
    rates.backward_scores_per_ns *= factor;
  }
  for (double* rate : {&c.arithmetic_flops_per_ns, &c.fused_flops_per_ns, &c.transcendentals_per_ns,
                       &c.widened_elements_per_ns, &c.narrowed_elements_per_ns, &c.rows_per_ns,
                       &c.exponential_rows_per_ns, &c.staged_elements_per_ns,
                       &c.strided_reads_per_ns, &c.strided_writes_per_ns, &c.runs_per_ns})
    *rate *= factor;
  c.parallel_ns = threads == 1 ? 0 : c.parallel_ns * factor;
  c.source = fmt::format("{}, scaled from {} to {} threads", c.source, c.machine.threads, threads);
  c.machine.threads = threads;
  return c;
}

void validate(const Ceilings& ceilings) {
  check_bandwidth(ceilings);
  check_products(ceilings);
  check_multiplies(ceilings);
  check_quantized_gemms(ceilings);
  check_attention(ceilings);
  for (const LinkRates& link : ceilings.links) {
    expect_numbers(fmt::format("links of {} ranks", link.ranks), link);
    if (link.ranks < 0) refuse("links", "expects numbers of ranks >= 0");
  }
  expect_numbers("", ceilings);
  expect_number("others_share", ceilings.others_share, NumberKind::kShare);
  if (ceilings.parallel_threshold_bytes < 0)
    refuse("parallel_threshold_bytes", "expects a size >= 0");
  if (ceilings.machine.threads < 0 || ceilings.machine.cores < 0 ||
      ceilings.machine.memory_bytes < 0)
    refuse("machine", "expects counts >= 0");
}

std::vector<std::string> implausible_levels(const Ceilings& ceilings) {
  constexpr double kNoise = 0.1;  // times of two levels differ by as much
  std::vector<std::string> found;
  auto compare = [&](const char* what, double MemoryLevel::*rate, size_t nearer, size_t farther) {
    const MemoryLevel &near = ceilings.levels[nearer], &far = ceilings.levels[farther];
    if (near.*rate < (1 - kNoise) * (far.*rate))
      found.push_back(fmt::format("{} {} {}, but {} {}", near.name, what,
                                  format_rate(1e9 * near.*rate, "B/s"), far.name,
                                  format_rate(1e9 * far.*rate, "B/s")));
  };
  for (size_t i = 0; i + 1 < ceilings.levels.size(); ++i) {
    compare("reads at", &MemoryLevel::read_bytes_per_ns, i, i + 1);
    compare("copies at", &MemoryLevel::copy_bytes_per_ns, i, i + 1);
  }
  return found;
}

double ridge_point(const Ceilings& ceilings, DType dtype) {
  return ceilings.peak_flops_per_ns(dtype) / ceilings.memory_bytes_per_ns();
}

}  // namespace ridge::cost
