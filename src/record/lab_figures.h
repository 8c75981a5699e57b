// SPDX-License-Identifier: Apache-2.0
// The figures that the files of a lab and a bench begin with, and the rates that they compare with.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "record/rate_shares.h"
#include "record/run_figures.h"

namespace ridge::cost {

template <class See>
void figures(const See& see, const ReferenceRate& r) {
  see("per_s", r.per_ns * 1e9), see("source", r.source);
  see("data_sheet_per_s", r.data_sheet_per_ns * 1e9, record::Unknown::kNull);
}

template <class See>
void figures(const See& see, const MemoryLevel& r) {
  using enum record::Unknown;
  see("name", r.name), see("capacity_bytes", r.capacity_bytes),
      see("bytes_per_s", r.copy_bytes_per_ns * 1e9, kNull),
      see("read_bytes_per_s", r.read_bytes_per_ns * 1e9, kNull),
      see("theoretical_bytes_per_s", r.theoretical_bytes_per_ns * 1e9, kNull);
}

template <class See>
void figures(const See& see, const ProductRates& r) {
  using enum record::Unknown;
  see("name", r.name()), see("dtype", r.dtype),
      see("flops_per_s", r.peak_flops_per_ns * 1e9, kNull),
      see("theoretical_flops_per_s", r.theoretical_flops_per_ns * 1e9, kNull);
}

}  // namespace ridge::cost

namespace ridge::record {

// The roofs of a roofline.
struct Roofs {
  const cost::Ceilings& ceilings;
};
template <class See>
void figures(const See& see, const Roofs& r) {
  see({"memory", "", "bandwidths, fastest first"}, r.ceilings.levels);
  see({"arithmetic", "", "rates of GEMMs"}, r.ceilings.products);
  see("vector_flops_per_s", cost::vector_roof(r.ceilings).flops_per_ns * 1e9, Unknown::kNull);
  see("launch_ns", r.ceilings.launch_ns);
}

// The machine of a run.
struct RunMachine {
  const cost::Ceilings& ceilings;
};
template <class See>
void figures(const See& see, const RunMachine& machine) {
  const cost::Ceilings& r = machine.ceilings;
  see("device", r.machine.device), see("isa", r.machine.isa), see("cores", r.machine.cores),
      see("threads", r.machine.threads), see("libraries", r.machine.libraries),
      see("memory_bytes", r.machine.memory_bytes);
  see({"ceilings", "", "where they come from"}, r.source), see("measured_at", r.measured_at);
  std::vector<std::pair<std::string, double>> peaks;
  for (const cost::ProductRates& each : r.products)
    peaks.emplace_back(each.name(), each.peak_flops_per_ns * 1e9);
  see({"peak_flops_per_s", "", "by type of GEMM"}, peaks);
  if (!r.bandwidth.empty()) see("memory_bytes_per_s", r.memory_bytes_per_ns() * 1e9);
}

// The first figures of each file.
struct LabHeading {
  const LabRecord& lab;
};
template <class See>
void figures(const See& see, const LabHeading& r) {
  see("program", r.lab.program), see("command", r.lab.command),
      see("finished_at", r.lab.finished_at);
  if (r.lab.ceilings) see("machine", RunMachine{*r.lab.ceilings});
}

// A miss of the last level of cache moves one line. All processors that Ridge runs on have lines of
// 64 bytes.
inline constexpr double kCacheLineBytes = 64;

// Medians per step; unknown where nothing was counted.
template <class See>
void figures(const See& see, const HardwareCounts& r) {
  const auto middle = [](const std::vector<double>& counts, double scale = 1) {
    return counts.empty() ? std::nullopt : std::optional(scale * median(counts));
  };
  see("steps", r.cycles.size()), see("cycles", middle(r.cycles)),
      see("instructions", middle(r.instructions)), see("cache_misses", middle(r.cache_misses));
  see({"memory_bytes", "", "moved by these misses"}, middle(r.cache_misses, kCacheLineBytes));
  see({"reason", "", "why nothing was counted"}, r.reason);
}

template <class See>
void figures(const See& see, const PhaseShares& r) {
  using enum Unknown;
  const RateShares& s = r.shares;
  if (!r.is_decode) {
    see({"ops_per_s", "1/s"}, s.ops_per_ns * 1e9, kNull);
    see({"of_theoretical", "share"}, s.of_theoretical, kNull);
    see({"of_multiply_only", "share"}, s.of_multiply, kNull);
    see("over_reason", s.multiply_reason);
    return;
  }
  see("bytes_per_s", s.bytes_per_ns * 1e9, kNull), see({"mbu", "share"}, s.of_reads, kNull);
  see({"of_unpack_or_read", "share"}, s.of_read_and_unpack, kNull);
  see("unpack_bytes_per_s", s.unpack_bytes_per_ns * 1e9, kNull);
  see("over_reason", s.read_reason);
}

}  // namespace ridge::record
