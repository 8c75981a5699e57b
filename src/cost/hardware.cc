// SPDX-License-Identifier: Apache-2.0
// The table of data sheets. Peaks are dense: half of the printed rate if a sheet prints it with
// sparsity.
#include "cost/hardware.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/printable.h"
#include "files/json.h"
#include "files/json_field.h"

namespace ridge::cost {
namespace {

using files::JsonField;

constexpr int64_t kGigabyte = 1000000000;  // capacities on data sheets are decimal
constexpr int64_t kMegabyte = 1000000;
constexpr double kMostTera = 1e6;

void add_nvidia(std::vector<Hardware>& table) {
  using enum DType;
  table.push_back({"a6000",
                   "NVIDIA RTX A6000",
                   {{kF32, 38.7}, {kBF16, 154.8}, {kF16, 154.8}},
                   77.4,
                   38.7,
                   0.768,
                   48 * kGigabyte,
                   6 * kMegabyte,
                   112.5,
                   "NVLink 3 bridge",
                   "NVIDIA RTX A6000 data sheet (2021) and GA102 white paper (2020): tensor rates "
                   "without sparsity"});
  table.push_back({"a10",
                   "NVIDIA A10",
                   {{kF32, 31.2}, {kBF16, 125}, {kF16, 125}},
                   62.5,
                   31.2,
                   0.600,
                   24 * kGigabyte,
                   6 * kMegabyte,
                   64,
                   "PCIe 4 x16",
                   "NVIDIA A10 data sheet (2021)"});
  table.push_back({"a100-40",
                   "NVIDIA A100 SXM 40 GB",
                   {{kF32, 19.5}, {kBF16, 312}, {kF16, 312}},
                   156,
                   19.5,
                   1.555,
                   40 * kGigabyte,
                   40 * kMegabyte,
                   600,
                   "NVLink 3",
                   "NVIDIA A100 data sheet (2020)"});
  table.push_back({"a100",
                   "NVIDIA A100 SXM 80 GB",
                   {{kF32, 19.5}, {kBF16, 312}, {kF16, 312}},
                   156,
                   19.5,
                   2.039,
                   80 * kGigabyte,
                   40 * kMegabyte,
                   600,
                   "NVLink 3",
                   "NVIDIA A100 data sheet (2021)"});
  table.push_back(
      {"h100",
       "NVIDIA H100 SXM 80 GB",
       {{kF32, 67}, {kBF16, 989.5}, {kF16, 989.5}},
       494.5,
       67,
       3.35,
       80 * kGigabyte,
       50 * kMegabyte,
       900,
       "NVLink 4",
       "NVIDIA H100 data sheet (2023): half of the 1,979 TFLOP/s printed with sparsity"});
  table.push_back(
      {"h200",
       "NVIDIA H200 SXM 141 GB",
       {{kF32, 67}, {kBF16, 989.5}, {kF16, 989.5}},
       494.5,
       67,
       4.8,
       141 * kGigabyte,
       50 * kMegabyte,
       900,
       "NVLink 4",
       "NVIDIA H200 data sheet (2024): half of the 1,979 TFLOP/s printed with sparsity"});
}

void add_amd(std::vector<Hardware>& table) {
  using enum DType;
  table.push_back(
      {"mi210",
       "AMD Instinct MI210",
       {{kF32, 45.3}, {kBF16, 181}, {kF16, 181}},
       0,
       22.6,
       1.6,
       64 * kGigabyte,
       8 * kMegabyte,
       300,
       "Infinity Fabric, 3 links",
       "AMD Instinct MI210 data sheet (2022): fp32 in matrix units, 22.6 TFLOP/s in vector units"});
  table.push_back({"mi250",
                   "AMD Instinct MI250",
                   {{kF32, 90.5}, {kBF16, 362.1}, {kF16, 362.1}},
                   0,
                   45.3,
                   3.2,
                   128 * kGigabyte,
                   16 * kMegabyte,
                   600,
                   "Infinity Fabric, 6 links",
                   "AMD Instinct MI200 series data sheet (2022): both dies together; software sees "
                   "two devices"});
  table.push_back({"mi300x",
                   "AMD Instinct MI300X",
                   {{kF32, 163.4}, {kBF16, 1307.4}, {kF16, 1307.4}},
                   653.7,
                   163.4,
                   5.3,
                   192 * kGigabyte,
                   256 * kMegabyte,
                   896,
                   "Infinity Fabric, 7 links",
                   "AMD Instinct MI300X data sheet (2023)"});
}

double positive(const JsonField& field) {
  double value = field.real();
  if (!(value > 0 && value <= kMostTera)) throw field.fault("a number in (0, 1e6]");
  return value;
}

std::vector<PeakRate> read_peaks(const JsonField& field) {
  std::vector<PeakRate> peaks;
  for (const auto& [key, value] : field.object().items()) {
    auto dtype = parse_dtype(key);
    if (!dtype) throw field.fault("element types", printable(key));
    peaks.push_back({*dtype, positive(field.at(key.c_str()))});
  }
  auto f32 = std::find_if(peaks.begin(), peaks.end(),
                          [](const PeakRate& p) { return p.dtype == DType::kF32; });
  if (f32 == peaks.end()) throw field.fault("a rate for f32", "none");
  std::rotate(peaks.begin(), f32, f32 + 1);
  return peaks;
}

}  // namespace

std::span<const Hardware> hardware_table() {
  static const std::vector<Hardware> table = [] {
    std::vector<Hardware> all;
    add_nvidia(all);
    add_amd(all);
    return all;
  }();
  return table;
}

const Hardware* find_hardware(std::string_view name) {
  auto lower = [](unsigned char c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : int{c}; };
  for (const Hardware& hardware : hardware_table())
    if (std::equal(name.begin(), name.end(), hardware.name.begin(), hardware.name.end(),
                   [&](char a, char b) { return lower(static_cast<unsigned char>(a)) == b; }))
      return &hardware;
  return nullptr;
}

std::string hardware_names() {
  std::string names;
  for (const Hardware& hardware : hardware_table())
    names += (names.empty() ? "" : ", ") + hardware.name;
  return names;
}

Hardware hardware_from_json(std::string_view text, std::string_view origin) {
  const nlohmann::json json = files::parse_json(text, origin);
  JsonField r(json, std::string(origin));
  Hardware hardware;
  hardware.name = r.at("name").text();
  hardware.title = r.text_or("title", hardware.name.c_str());
  hardware.peaks = read_peaks(r.at("peaks"));
  if (r.has("tf32_tera_flops")) hardware.tf32_tera_flops = positive(r.at("tf32_tera_flops"));
  hardware.vector_tera_flops = r.has("vector_tera_flops") ? positive(r.at("vector_tera_flops"))
                                                          : hardware.peaks[0].tera_flops;
  hardware.memory_tera_bytes = positive(r.at("memory_tera_bytes"));
  hardware.memory_bytes = r.at("memory_bytes").integer(1);
  hardware.cache_bytes = r.has("cache_bytes") ? r.at("cache_bytes").integer(0) : 0;
  if (r.has("interconnect_giga_bytes"))
    hardware.interconnect_giga_bytes = positive(r.at("interconnect_giga_bytes"));
  hardware.interconnect = r.text_or("interconnect", hardware.interconnect.c_str());
  hardware.source = r.has("source") ? r.at("source").text() : fmt::format("file {}", origin);
  return hardware;
}

Ceilings ceilings_of(const Hardware& hardware, bool tf32, const AssumedEfficiency& assumed) {
  if (tf32 && hardware.tf32_tera_flops <= 0)
    throw usage_error("[dtype] expected fp32 or bf16, got tf32, which {} does not have",
                      hardware.title);
  constexpr double kPerNs = 1000;  // 1 T/s = 1000 per ns
  // On a GPU, one transcendental on the special function units takes as long as 4 multiply-adds on
  // the vector units (16 against 64 per clock and quarter of a multiprocessor), that is, 8 FLOPs.
  constexpr double kFlopsPerTranscendental = 8;
  Ceilings c;
  c.machine.device = hardware.title;
  c.machine.memory_bytes = hardware.memory_bytes;
  c.source = "data sheet: " + hardware.source;
  double memory = hardware.memory_tera_bytes * kPerNs;
  c.bandwidth = {{hardware.memory_bytes, memory * assumed.memory, memory * assumed.memory}};
  c.levels = {
      {"memory", hardware.memory_bytes, memory * assumed.memory, memory * assumed.memory, memory}};
  for (const PeakRate& peak : hardware.peaks) {
    const bool is_tf32 = tf32 && peak.dtype == DType::kF32;
    const double rate = (is_tf32 ? hardware.tf32_tera_flops : peak.tera_flops) * kPerNs;
    c.products.push_back({peak.dtype, false, rate * assumed.products, rate, 1, 0, {}});
    // Tiles enter and leave the matrix units through vector code, so assume half the rate of GEMMs.
    double tiles = rate * assumed.products / 2,
           scores = hardware.vector_tera_flops * kPerNs * assumed.vector / 16;
    c.attention.push_back({peak.dtype, tiles, scores, tiles, scores});
  }
  c.arithmetic_flops_per_ns = hardware.vector_tera_flops * kPerNs * assumed.vector;
  c.fused_flops_per_ns = c.arithmetic_flops_per_ns;
  c.transcendentals_per_ns = c.arithmetic_flops_per_ns / kFlopsPerTranscendental;
  c.launch_ns = assumed.launch_ns;
  c.notes = {fmt::format("assumed shares of the data sheet's rates: GEMM {:.0f}%, memory {:.0f}%, "
                         "vector arithmetic {:.0f}%, GEMMs of attention {:.0f}%",
                         100 * assumed.products, 100 * assumed.memory, 100 * assumed.vector,
                         50 * assumed.products),
             fmt::format("assumed overhead of a kernel: {:.1f} us", assumed.launch_ns / 1000)};
  return c;
}

}  // namespace ridge::cost
