// SPDX-License-Identifier: Apache-2.0
// Machines by their data sheets, for plans of hardware that is not here. Numbers are the vendors';
// what part of them is assumed to be reached is stated beside.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "cost/ceilings.h"

namespace ridge::cost {

struct PeakRate {
  DType dtype;
  double tera_flops;  // dense, no sparsity; products
};

struct Hardware {
  std::string name;                    // "h100"
  std::string title;                   // "NVIDIA H100 SXM 80 GB"
  std::vector<PeakRate> peaks;         // f32 first (without TF32)
  double vector_tera_flops = 0;        // fp32 outside matrix units
  double memory_tera_bytes = 0;        // TB/s
  int64_t memory_bytes = 0;            // as the vendor counts: 80 GB = 80e9
  int64_t cache_bytes = 0;             // the last level on the chip
  double interconnect_giga_bytes = 0;  // GB/s to peers, both directions together; 0 = none
  std::string interconnect;            // "NVLink 4"
  std::string source;                  // data sheet and year
};

std::span<const Hardware> hardware_table();
const Hardware* find_hardware(std::string_view name);  // in either case; null when unknown
std::string hardware_names();                          // "a6000, a10, ..."

// A user's file: a JSON object with the fields' names, `peaks` as {"f32": 19.5, "bf16": 312}.
// Throws bad-file Errors that name the field.
Hardware hardware_from_json(std::string_view text, std::string_view origin);

// Shares of the data sheet that plans assume to reach.
struct AssumedEfficiency {
  double products = 0.70;
  double memory = 0.85;
  double vector = 0.50;
  double launch_ns = 2500;  // a kernel in a captured graph
};
Ceilings ceilings_of(const Hardware& hardware, const AssumedEfficiency& assumed = {});

}  // namespace ridge::cost
