// SPDX-License-Identifier: Apache-2.0
// Identity, look-ups and checks of the ceilings; their JSON is ceilings_json.cc.
#include "cost/ceilings.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace ridge::cost {
namespace {

// No machine reaches these per nanosecond: they catch files with other units.
constexpr double kMostRate = 1e9;
constexpr double kMostNs = 1e15;
constexpr size_t kMostEntries = 10000;
constexpr int64_t kMostExtent = int64_t{1} << 32;

[[noreturn]] void refuse(const std::string& field, const std::string& found) {
  throw file_error("[ceilings] {} {}", field, found);
}

void expect_rate(const std::string& field, double value, bool may_be_unknown) {
  bool fits =
      std::isfinite(value) && value <= kMostRate && (value > 0 || (may_be_unknown && value == 0));
  if (!fits)
    refuse(field, fmt::format("expects a rate up to {:g} per ns, got {:g}", kMostRate, value));
}

void expect_ns(const std::string& field, double value) {
  if (!std::isfinite(value) || value < 0 || value > kMostNs)
    refuse(field, fmt::format("expects nanoseconds up to {:g}, got {:g}", kMostNs, value));
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
    expect_rate("bandwidth.read_bytes_per_ns", point.read_bytes_per_ns, false);
    expect_rate("bandwidth.copy_bytes_per_ns", point.copy_bytes_per_ns, false);
    expect_rate("bandwidth.update_bytes_per_ns", point.update_bytes_per_ns, false);
  }
  expect_count("levels", ceilings.levels.size(), 0);
  for (const MemoryLevel& level : ceilings.levels) {
    if (level.capacity_bytes < 0) refuse("levels.capacity_bytes", "expects a size >= 0");
    expect_rate("levels.read_bytes_per_ns", level.read_bytes_per_ns, false);
    expect_rate("levels.copy_bytes_per_ns", level.copy_bytes_per_ns, false);
    expect_rate("levels.theoretical_bytes_per_ns", level.theoretical_bytes_per_ns, true);
    expect_ns("levels.lifetime_ns", level.lifetime_ns);
  }
}

void check_products(const Ceilings& ceilings) {
  expect_count("gemms", ceilings.products.size(), 1);
  bool has_f32 = false;
  for (const ProductRates& rates : ceilings.products) {
    has_f32 = has_f32 || (rates.dtype == DType::kF32 && !rates.is_native);
    expect_rate("gemms.peak_flops_per_ns", rates.peak_flops_per_ns, false);
    expect_rate("gemms.theoretical_flops_per_ns", rates.theoretical_flops_per_ns, true);
    if (!(rates.exposed_memory_share >= 0 && rates.exposed_memory_share <= 1))
      refuse("gemms.exposed_memory_share",
             fmt::format("expects 0 to 1, got {:g}", rates.exposed_memory_share));
    if (!(rates.power_of_two_slowdown >= 1 && rates.power_of_two_slowdown <= 100))
      refuse("gemms.power_of_two_slowdown",
             fmt::format("expects 1 to 100, got {:g}", rates.power_of_two_slowdown));
    expect_ns("gemms.stream_call_ns", rates.stream_call_ns);
    expect_count("gemms.samples", rates.samples.size(), 0);
    for (const ProductSample& sample : rates.samples) {
      for (int64_t extent :
           {sample.extents.batch, sample.extents.m, sample.extents.n, sample.extents.k})
        if (extent < 1 || extent > kMostExtent)
          refuse("gemms.samples", fmt::format("expects extents from 1 to 2^32, got {}", extent));
      expect_ns("gemms.samples.ns", sample.ns);
      if (sample.ns == 0) refuse("gemms.samples.ns", "expects more than 0");
    }
  }
  if (!has_f32) refuse("gemms", "expects an entry for f32");
}

void check_attention(const Ceilings& ceilings) {
  expect_count("attention", ceilings.attention.size(), 0);
  for (const AttentionRates& rates : ceilings.attention) {
    expect_rate("attention.forward_flops_per_ns", rates.forward_flops_per_ns, false);
    expect_rate("attention.forward_scores_per_ns", rates.forward_scores_per_ns, false);
    expect_rate("attention.backward_flops_per_ns", rates.backward_flops_per_ns, false);
    expect_rate("attention.backward_scores_per_ns", rates.backward_scores_per_ns, false);
    expect_ns("attention.forward_call_ns", rates.forward_call_ns);
    expect_ns("attention.backward_call_ns", rates.backward_call_ns);
  }
}

// FNV-1a: the name of a cache file, stable between runs and builds.
uint64_t fnv(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (char byte : text) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3u;
  return hash;
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
  return fmt::format("{:016x}", fnv(identity));
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

double Ceilings::peak_flops_per_ns(DType dtype) const {
  return std::max(product(dtype).peak_flops_per_ns, product(dtype, true).peak_flops_per_ns);
}

Ceilings at_launch_rate(Ceilings ceilings, double rate) {
  ceilings.stream_launch_ns /= rate;
  for (ProductRates& rates : ceilings.products) rates.stream_call_ns /= rate;
  return ceilings;
}

void validate(const Ceilings& ceilings) {
  check_bandwidth(ceilings);
  check_products(ceilings);
  check_attention(ceilings);
  expect_rate("arithmetic_flops_per_ns", ceilings.arithmetic_flops_per_ns, false);
  expect_rate("fused_flops_per_ns", ceilings.fused_flops_per_ns, false);
  expect_rate("transcendentals_per_ns", ceilings.transcendentals_per_ns, false);
  expect_rate("staged_elements_per_ns", ceilings.staged_elements_per_ns, true);
  expect_rate("strided_reads_per_ns", ceilings.strided_reads_per_ns, true);
  expect_rate("strided_writes_per_ns", ceilings.strided_writes_per_ns, true);
  expect_rate("runs_per_ns", ceilings.runs_per_ns, true);
  expect_ns("launch_ns", ceilings.launch_ns);
  expect_ns("round_ns", ceilings.round_ns);
  expect_ns("stream_launch_ns", ceilings.stream_launch_ns);
  expect_ns("stream_gap_ns", ceilings.stream_gap_ns);
  expect_ns("empty_step_ns", ceilings.empty_step_ns);
  expect_ns("parallel_ns", ceilings.parallel_ns);
  if (!(ceilings.others_share >= 0 && ceilings.others_share <= 1))
    refuse("others_share", fmt::format("expects 0 to 1, got {:g}", ceilings.others_share));
  if (ceilings.parallel_threshold_bytes < 0)
    refuse("parallel_threshold_bytes", "expects a size >= 0");
  if (ceilings.machine.threads < 0 || ceilings.machine.cores < 0 ||
      ceilings.machine.memory_bytes < 0)
    refuse("machine", "expects counts >= 0");
}

double attainable_flops_per_ns(const Ceilings& ceilings, DType dtype, double flops_per_byte) {
  return std::min(ceilings.peak_flops_per_ns(dtype),
                  flops_per_byte * ceilings.memory_bytes_per_ns());
}

double ridge_point(const Ceilings& ceilings, DType dtype) {
  return ceilings.peak_flops_per_ns(dtype) / ceilings.memory_bytes_per_ns();
}

}  // namespace ridge::cost
