// SPDX-License-Identifier: Apache-2.0
// The table of data sheets. Peaks are dense: half of the printed rate if a sheet prints it with
// sparsity.
#include "cost/hardware.h"

#include <algorithm>
#include <cctype>
#include <iterator>

#include "base/error.h"
#include "base/printable.h"
#include "base/split.h"
#include "files/json.h"
#include "files/json_field.h"

namespace ridge::cost {
namespace {

using files::JsonField;

constexpr double kMostTera = 1e6;

// A row of the table, in the units of data sheets: capacities are decimal, those of shared memory
// binary.
struct Sheet {
  const char *name, *title, *interconnect;
  double f32, f16, tf32, vector, memory;  // TFLOP/s (0 = no TF32), TB/s
  int64_t memory_gigabytes, cache_megabytes;
  double interconnect_giga_bytes;
  int64_t multiprocessors, shared_kibibytes;
  double board_watts;
  const char* source;
};

// clang-format off
constexpr Sheet kSheets[] = {
    // fp32  16 bit   TF32  vector   TB/s   GB   MB    GB/s  units  KiB     W
    {"a6000", "NVIDIA RTX A6000", "NVLink 3 bridge",
       38.7,  154.8,  77.4,   38.7, 0.768,  48,   6,  112.5,    84, 100,  300,
     "NVIDIA RTX A6000 data sheet (2021) and GA102 white paper (2020): tensor rates without sparsity"},
    {"a10", "NVIDIA A10", "PCIe 4 x16",
       31.2,    125,  62.5,   31.2,   0.6,  24,   6,     64,    72, 100,  150,
     "NVIDIA A10 data sheet (2021)"},
    {"a100-40", "NVIDIA A100 SXM 40 GB", "NVLink 3",
       19.5,    312,   156,   19.5, 1.555,  40,  40,    600,   108, 164,  400,
     "NVIDIA A100 data sheet (2020)"},
    {"a100", "NVIDIA A100 SXM 80 GB", "NVLink 3",
       19.5,    312,   156,   19.5, 2.039,  80,  40,    600,   108, 164,  400,
     "NVIDIA A100 data sheet (2021)"},
    {"rtx4090", "NVIDIA GeForce RTX 4090", "PCIe 4 x16",
       82.6,  165.2,  82.6,   82.6, 1.008,  24,  72,     64,   128, 100,  450,
     "NVIDIA Ada GPU architecture white paper (2022), appendix A: tensor rates with fp32 sums, without sparsity"},
    {"l4", "NVIDIA L4", "PCIe 4 x16",
       30.3,    121,    60,   30.3,   0.3,  24,  48,     64,    58, 100,   72,
     "NVIDIA L4 data sheet (2023): half of the 242 TFLOP/s printed with sparsity"},
    {"l40s", "NVIDIA L40S", "PCIe 4 x16",
       91.6, 362.05,   183,   91.6, 0.864,  48,  96,     64,   142, 100,  350,
     "NVIDIA L40S data sheet (2023)"},
    {"h100", "NVIDIA H100 SXM 80 GB", "NVLink 4",
         67,  989.5, 494.5,     67,  3.35,  80,  50,    900,   132, 228,  700,
     "NVIDIA H100 data sheet (2023): half of the 1,979 TFLOP/s printed with sparsity"},
    {"h200", "NVIDIA H200 SXM 141 GB", "NVLink 4",
         67,  989.5, 494.5,     67,   4.8, 141,  50,    900,   132, 228,  700,
     "NVIDIA H200 data sheet (2024): half of the 1,979 TFLOP/s printed with sparsity"},
    {"b200", "NVIDIA B200 SXM 180 GB", "NVLink 5",
         80,   2250,  1100,     80,     8, 180, 126,   1800,   148, 228, 1000,
     "NVIDIA Blackwell data sheet, HGX B200 (2024): half of the 4.5 PFLOP/s printed with sparsity"},
    {"mi210", "AMD Instinct MI210", "Infinity Fabric, 3 links",
       45.3,    181,     0,   22.6,   1.6,  64,   8,    300,   104,  64,  300,
     "AMD Instinct MI210 data sheet (2022): fp32 in matrix units, 22.6 TFLOP/s in vector units"},
    {"mi250", "AMD Instinct MI250", "Infinity Fabric, 6 links",
       90.5,  362.1,     0,   45.3,   3.2, 128,  16,    600,   208,  64,  500,
     "AMD Instinct MI200 series data sheet (2022): both dies together; software sees two devices"},
    {"mi300x", "AMD Instinct MI300X", "Infinity Fabric, 7 links",
      163.4, 1307.4, 653.7,  163.4,   5.3, 192, 256,    896,   304,  64,  750,
     "AMD Instinct MI300X data sheet (2023)"},
    {"mi355x", "AMD Instinct MI355X", "Infinity Fabric, 7 links",
      157.3, 2516.6,     0,  157.3,     8, 288, 256, 1075.2,   256, 160, 1400,
     "AMD Instinct MI355X data sheet (2025): no TF32; CDNA 4 white paper for the memory of a unit"}};
// clang-format on

Hardware hardware_of(const Sheet& s) {
  return {.name = s.name,
          .title = s.title,
          .peaks = {{DType::kF32, s.f32}, {DType::kBF16, s.f16}, {DType::kF16, s.f16}},
          .tf32_tera_flops = s.tf32,
          .vector_tera_flops = s.vector,
          .memory_tera_bytes = s.memory,
          .memory_bytes = s.memory_gigabytes * 1000000000,
          .cache_bytes = s.cache_megabytes * 1000000,
          .interconnect_giga_bytes = s.interconnect_giga_bytes,
          .interconnect = s.interconnect,
          .multiprocessors = s.multiprocessors,
          .shared_bytes = s.shared_kibibytes * 1024,
          .board_watts = s.board_watts,
          .source = s.source};
}

// "NVIDIA H100 SXM 80 GB" -> "H100"; its part that has a digit.
std::string_view model_of(std::string_view title) {
  for (const std::string_view word : split(title, ' '))
    if (std::ranges::any_of(word, [](char c) { return c >= '0' && c <= '9'; })) return word;
  return title;
}

// Whether a word stands in a text, with no letter or digit next to it.
bool has_word(std::string_view text, std::string_view word) {
  const auto is_part = [&](size_t at) {
    return at < text.size() && std::isalnum(static_cast<unsigned char>(text[at])) != 0;
  };
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1))
    if (!(at > 0 && is_part(at - 1)) && !is_part(at + word.size())) return true;
  return false;
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
    std::transform(std::begin(kSheets), std::end(kSheets), std::back_inserter(all), hardware_of);
    return all;
  }();
  return table;
}

const Hardware* hardware_of_device(std::string_view name,
                                   int64_t multiprocessors,
                                   int64_t memory_bytes) {
  const Hardware* found = nullptr;
  for (const Hardware& sheet : hardware_table()) {
    const bool has_name = name.empty() ? multiprocessors > 0 && memory_bytes > 0
                                       : has_word(name, model_of(sheet.title));
    // Drivers report binary units, and less what they keep for themselves.
    const auto capacity = static_cast<double>(sheet.memory_bytes);
    const auto reported = static_cast<double>(memory_bytes);
    const bool has_memory =
        memory_bytes == 0 || (reported > 0.95 * capacity && reported < 1.1 * capacity);
    if (!has_name || !has_memory ||
        (multiprocessors > 0 && multiprocessors != sheet.multiprocessors))
      continue;
    if (found != nullptr) return nullptr;
    found = &sheet;
  }
  return found;
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
  c.machine.cores = static_cast<int>(hardware.multiprocessors);
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
    // Besides its products, a score costs some 8 FLOPs of the vector units: its maximum,
    // exponential and sums. With heads of 128 that is 0.58 of the sheet's rate on an H100, and 0.49
    // for the backward pass, whose five products share fewer tiles of shared memory.
    double tiles = rate * assumed.products,
           scores = hardware.vector_tera_flops * kPerNs * assumed.vector / 8;
    c.attention.push_back({peak.dtype, tiles, scores, tiles * 2 / 3, scores});
  }
  c.arithmetic_flops_per_ns = hardware.vector_tera_flops * kPerNs * assumed.vector;
  c.fused_flops_per_ns = c.arithmetic_flops_per_ns;
  c.transcendentals_per_ns = c.arithmetic_flops_per_ns / kFlopsPerTranscendental;
  c.launch_ns = assumed.launch_ns;
  c.round_ns = assumed.round_ns;
  if (hardware.interconnect_giga_bytes > 0)  // sheets add both directions
    c.links = {{hardware.interconnect, 0, hardware.interconnect_giga_bytes / 2 * assumed.link,
                assumed.collective_ns}};
  c.notes = {fmt::format("assumed shares of the data sheet's rates: GEMM {:.0f}%, memory {:.0f}%, "
                         "vector arithmetic {:.0f}%",
                         100 * assumed.products, 100 * assumed.memory, 100 * assumed.vector),
             fmt::format("assumed overhead of a kernel: {:.1f} us", assumed.launch_ns / 1000)};
  return with_enqueue_time(std::move(c), assumed.enqueue_ns);
}

Ceilings with_enqueue_time(Ceilings ceilings, double ns) {
  constexpr std::string_view kNote = "host's time of a launch outside of a CUDA graph: ";
  ceilings.stream_launch_ns = ns;
  for (ProductRates& rates : ceilings.products)
    rates.stream_call_ns = rates.stream_row_call_ns = 0;  // as other launches
  std::erase_if(ceilings.notes, [&](const std::string& note) { return note.starts_with(kNote); });
  ceilings.notes.push_back(fmt::format("{}{:.1f} us", kNote, ns / 1000));
  return ceilings;
}

}  // namespace ridge::cost
