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
constexpr int64_t kKilobyte = 1024;  // capacities of shared memory are binary
constexpr double kMostTera = 1e6;

std::vector<Hardware> nvidia_ampere() {
  using enum DType;
  return {
      {.name = "a6000",
       .title = "NVIDIA RTX A6000",
       .peaks = {{kF32, 38.7}, {kBF16, 154.8}, {kF16, 154.8}},
       .tf32_tera_flops = 77.4,
       .vector_tera_flops = 38.7,
       .memory_tera_bytes = 0.768,
       .memory_bytes = 48 * kGigabyte,
       .cache_bytes = 6 * kMegabyte,
       .interconnect_giga_bytes = 112.5,
       .interconnect = "NVLink 3 bridge",
       .multiprocessors = 84,
       .shared_bytes = 100 * kKilobyte,
       .board_watts = 300,
       .source =
           "NVIDIA RTX A6000 data sheet (2021) and GA102 white paper (2020): tensor rates without sparsity"},
      {.name = "a10",
       .title = "NVIDIA A10",
       .peaks = {{kF32, 31.2}, {kBF16, 125}, {kF16, 125}},
       .tf32_tera_flops = 62.5,
       .vector_tera_flops = 31.2,
       .memory_tera_bytes = 0.6,
       .memory_bytes = 24 * kGigabyte,
       .cache_bytes = 6 * kMegabyte,
       .interconnect_giga_bytes = 64,
       .interconnect = "PCIe 4 x16",
       .multiprocessors = 72,
       .shared_bytes = 100 * kKilobyte,
       .board_watts = 150,
       .source = "NVIDIA A10 data sheet (2021)"},
      {.name = "a100-40",
       .title = "NVIDIA A100 SXM 40 GB",
       .peaks = {{kF32, 19.5}, {kBF16, 312}, {kF16, 312}},
       .tf32_tera_flops = 156,
       .vector_tera_flops = 19.5,
       .memory_tera_bytes = 1.555,
       .memory_bytes = 40 * kGigabyte,
       .cache_bytes = 40 * kMegabyte,
       .interconnect_giga_bytes = 600,
       .interconnect = "NVLink 3",
       .multiprocessors = 108,
       .shared_bytes = 164 * kKilobyte,
       .board_watts = 400,
       .source = "NVIDIA A100 data sheet (2020)"},
      {.name = "a100",
       .title = "NVIDIA A100 SXM 80 GB",
       .peaks = {{kF32, 19.5}, {kBF16, 312}, {kF16, 312}},
       .tf32_tera_flops = 156,
       .vector_tera_flops = 19.5,
       .memory_tera_bytes = 2.039,
       .memory_bytes = 80 * kGigabyte,
       .cache_bytes = 40 * kMegabyte,
       .interconnect_giga_bytes = 600,
       .interconnect = "NVLink 3",
       .multiprocessors = 108,
       .shared_bytes = 164 * kKilobyte,
       .board_watts = 400,
       .source = "NVIDIA A100 data sheet (2021)"},
  };
}

std::vector<Hardware> nvidia_later() {
  using enum DType;
  return {
      {.name = "rtx4090",
       .title = "NVIDIA GeForce RTX 4090",
       .peaks = {{kF32, 82.6}, {kBF16, 165.2}, {kF16, 165.2}},
       .tf32_tera_flops = 82.6,
       .vector_tera_flops = 82.6,
       .memory_tera_bytes = 1.008,
       .memory_bytes = 24 * kGigabyte,
       .cache_bytes = 72 * kMegabyte,
       .interconnect_giga_bytes = 64,
       .interconnect = "PCIe 4 x16",
       .multiprocessors = 128,
       .shared_bytes = 100 * kKilobyte,
       .board_watts = 450,
       .source =
           "NVIDIA Ada GPU architecture white paper (2022), appendix A: tensor rates with fp32 sums, without sparsity"},
      {.name = "l4",
       .title = "NVIDIA L4",
       .peaks = {{kF32, 30.3}, {kBF16, 121}, {kF16, 121}},
       .tf32_tera_flops = 60,
       .vector_tera_flops = 30.3,
       .memory_tera_bytes = 0.3,
       .memory_bytes = 24 * kGigabyte,
       .cache_bytes = 48 * kMegabyte,
       .interconnect_giga_bytes = 64,
       .interconnect = "PCIe 4 x16",
       .multiprocessors = 58,
       .shared_bytes = 100 * kKilobyte,
       .board_watts = 72,
       .source = "NVIDIA L4 data sheet (2023): half of the 242 TFLOP/s printed with sparsity"},
      {.name = "l40s",
       .title = "NVIDIA L40S",
       .peaks = {{kF32, 91.6}, {kBF16, 362.05}, {kF16, 362.05}},
       .tf32_tera_flops = 183,
       .vector_tera_flops = 91.6,
       .memory_tera_bytes = 0.864,
       .memory_bytes = 48 * kGigabyte,
       .cache_bytes = 96 * kMegabyte,
       .interconnect_giga_bytes = 64,
       .interconnect = "PCIe 4 x16",
       .multiprocessors = 142,
       .shared_bytes = 100 * kKilobyte,
       .board_watts = 350,
       .source = "NVIDIA L40S data sheet (2023)"},
      {.name = "h100",
       .title = "NVIDIA H100 SXM 80 GB",
       .peaks = {{kF32, 67}, {kBF16, 989.5}, {kF16, 989.5}},
       .tf32_tera_flops = 494.5,
       .vector_tera_flops = 67,
       .memory_tera_bytes = 3.35,
       .memory_bytes = 80 * kGigabyte,
       .cache_bytes = 50 * kMegabyte,
       .interconnect_giga_bytes = 900,
       .interconnect = "NVLink 4",
       .multiprocessors = 132,
       .shared_bytes = 228 * kKilobyte,
       .board_watts = 700,
       .source = "NVIDIA H100 data sheet (2023): half of the 1,979 TFLOP/s printed with sparsity"},
      {.name = "h200",
       .title = "NVIDIA H200 SXM 141 GB",
       .peaks = {{kF32, 67}, {kBF16, 989.5}, {kF16, 989.5}},
       .tf32_tera_flops = 494.5,
       .vector_tera_flops = 67,
       .memory_tera_bytes = 4.8,
       .memory_bytes = 141 * kGigabyte,
       .cache_bytes = 50 * kMegabyte,
       .interconnect_giga_bytes = 900,
       .interconnect = "NVLink 4",
       .multiprocessors = 132,
       .shared_bytes = 228 * kKilobyte,
       .board_watts = 700,
       .source = "NVIDIA H200 data sheet (2024): half of the 1,979 TFLOP/s printed with sparsity"},
      {.name = "b200",
       .title = "NVIDIA B200 SXM 180 GB",
       .peaks = {{kF32, 80}, {kBF16, 2250}, {kF16, 2250}},
       .tf32_tera_flops = 1100,
       .vector_tera_flops = 80,
       .memory_tera_bytes = 8,
       .memory_bytes = 180 * kGigabyte,
       .cache_bytes = 126 * kMegabyte,
       .interconnect_giga_bytes = 1800,
       .interconnect = "NVLink 5",
       .multiprocessors = 148,
       .shared_bytes = 228 * kKilobyte,
       .board_watts = 1000,
       .source =
           "NVIDIA Blackwell data sheet, HGX B200 (2024): half of the 4.5 PFLOP/s printed with sparsity"},
  };
}

std::vector<Hardware> amd() {
  using enum DType;
  return {
      {.name = "mi210",
       .title = "AMD Instinct MI210",
       .peaks = {{kF32, 45.3}, {kBF16, 181}, {kF16, 181}},
       .tf32_tera_flops = 0,
       .vector_tera_flops = 22.6,
       .memory_tera_bytes = 1.6,
       .memory_bytes = 64 * kGigabyte,
       .cache_bytes = 8 * kMegabyte,
       .interconnect_giga_bytes = 300,
       .interconnect = "Infinity Fabric, 3 links",
       .multiprocessors = 104,
       .shared_bytes = 64 * kKilobyte,
       .board_watts = 300,
       .source =
           "AMD Instinct MI210 data sheet (2022): fp32 in matrix units, 22.6 TFLOP/s in vector units"},
      {.name = "mi250",
       .title = "AMD Instinct MI250",
       .peaks = {{kF32, 90.5}, {kBF16, 362.1}, {kF16, 362.1}},
       .tf32_tera_flops = 0,
       .vector_tera_flops = 45.3,
       .memory_tera_bytes = 3.2,
       .memory_bytes = 128 * kGigabyte,
       .cache_bytes = 16 * kMegabyte,
       .interconnect_giga_bytes = 600,
       .interconnect = "Infinity Fabric, 6 links",
       .multiprocessors = 208,
       .shared_bytes = 64 * kKilobyte,
       .board_watts = 500,
       .source =
           "AMD Instinct MI200 series data sheet (2022): both dies together; software sees two devices"},
      {.name = "mi300x",
       .title = "AMD Instinct MI300X",
       .peaks = {{kF32, 163.4}, {kBF16, 1307.4}, {kF16, 1307.4}},
       .tf32_tera_flops = 653.7,
       .vector_tera_flops = 163.4,
       .memory_tera_bytes = 5.3,
       .memory_bytes = 192 * kGigabyte,
       .cache_bytes = 256 * kMegabyte,
       .interconnect_giga_bytes = 896,
       .interconnect = "Infinity Fabric, 7 links",
       .multiprocessors = 304,
       .shared_bytes = 64 * kKilobyte,
       .board_watts = 750,
       .source = "AMD Instinct MI300X data sheet (2023)"},
      {.name = "mi355x",
       .title = "AMD Instinct MI355X",
       .peaks = {{kF32, 157.3}, {kBF16, 2516.6}, {kF16, 2516.6}},
       .tf32_tera_flops = 0,
       .vector_tera_flops = 157.3,
       .memory_tera_bytes = 8,
       .memory_bytes = 288 * kGigabyte,
       .cache_bytes = 256 * kMegabyte,
       .interconnect_giga_bytes = 1075.2,
       .interconnect = "Infinity Fabric, 7 links",
       .multiprocessors = 256,
       .shared_bytes = 160 * kKilobyte,
       .board_watts = 1400,
       .source =
           "AMD Instinct MI355X data sheet (2025): no TF32; CDNA 4 white paper for the memory of a unit"},
  };
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
    for (const std::vector<Hardware>& some : {nvidia_ampere(), nvidia_later(), amd()})
      all.insert(all.end(), some.begin(), some.end());
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
  if (r.has("multiprocessors")) hardware.multiprocessors = r.at("multiprocessors").integer(1);
  if (r.has("shared_bytes")) hardware.shared_bytes = r.at("shared_bytes").integer(1);
  if (r.has("board_watts")) hardware.board_watts = positive(r.at("board_watts"));
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
    ProductRates& products = c.products.emplace_back();
    products.dtype = peak.dtype;
    products.peak_flops_per_ns = rate * assumed.products;
    products.theoretical_flops_per_ns = rate;
    // Tiles enter and leave the matrix units through vector code, so assume half the rate of GEMMs.
    double tiles = rate * assumed.products / 2,
           scores = hardware.vector_tera_flops * kPerNs * assumed.vector / 16;
    c.attention.push_back({peak.dtype, tiles, scores, tiles, scores});
  }
  c.arithmetic_flops_per_ns = hardware.vector_tera_flops * kPerNs * assumed.vector;
  c.fused_flops_per_ns = c.arithmetic_flops_per_ns;
  c.transcendentals_per_ns = c.arithmetic_flops_per_ns / kFlopsPerTranscendental;
  c.launch_ns = assumed.launch_ns;
  if (hardware.interconnect_giga_bytes > 0)  // sheets add both directions
    c.links = {{hardware.interconnect, 0, hardware.interconnect_giga_bytes / 2 * assumed.link,
                assumed.collective_ns}};
  c.notes = {fmt::format("assumed shares of the data sheet's rates: GEMM {:.0f}%, memory {:.0f}%, "
                         "vector arithmetic {:.0f}%, GEMMs of attention {:.0f}%",
                         100 * assumed.products, 100 * assumed.memory, 100 * assumed.vector,
                         50 * assumed.products),
             fmt::format("assumed overhead of a kernel: {:.1f} us", assumed.launch_ns / 1000)};
  return c;
}

}  // namespace ridge::cost
