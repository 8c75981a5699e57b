// SPDX-License-Identifier: Apache-2.0
// Machines by their data sheets, for plans for other hardware than the present machine. The numbers
// are the vendors'; AssumedEfficiency states the shares assumed to be reached.
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
  double tera_flops;  // dense GEMMs have it, without sparsity
};

struct Hardware {
  std::string name;                    // "h100"
  std::string title;                   // "NVIDIA H100 SXM 80 GB"
  std::vector<PeakRate> peaks;         // f32 first (without TF32)
  double tf32_tera_flops = 0;          // GEMMs with fp32 inputs rounded to TF32; 0 = no TF32
  double vector_tera_flops = 0;        // fp32 outside matrix units
  double memory_tera_bytes = 0;        // TB/s
  int64_t memory_bytes = 0;            // in the vendor's units: 80 GB = 80e9
  int64_t cache_bytes = 0;             // the last-level cache on the chip
  double interconnect_giga_bytes = 0;  // GB/s to peers, sum of both directions; 0 = none
  std::string interconnect = "";       // "NVLink 4"
  int64_t multiprocessors = 0;         // NVIDIA: SMs, AMD: compute units; 0 = unknown
  int64_t shared_bytes = 0;            // the most that they hold for blocks, of each; 0 = unknown
  double board_watts = 0;              // the most power of a board; 0 = unknown
  std::string source;                  // data sheet and year
};

std::span<const Hardware> hardware_table();
const Hardware* find_hardware(std::string_view name);  // ignores case; null if unknown
// The one that a driver reports so: its name has the model of the sheet ("H100" in "NVIDIA H100
// 80GB HBM3") or is empty, and its counts, where they are not 0, are the sheet's. Null if none or
// several are.
const Hardware* hardware_of_device(std::string_view name,
                                   int64_t multiprocessors,
                                   int64_t memory_bytes);
std::string hardware_names();  // "a6000, a10, ..."

// Reads a user's file: a JSON object with the names of these fields, `peaks` as {"f32": 19.5,
// "bf16": 312}. Throws bad-file Errors that name the field.
Hardware hardware_from_json(std::string_view text, std::string_view origin);

// Shares of the data sheet's rates that plans assume to be reached.
struct AssumedEfficiency {
  double products = 0.80;  // GEMMs whose tiles fill all multiprocessors have it
  double memory = 0.85;
  double vector = 0.50;
  double launch_ns = 2500;     // a kernel takes it besides its work, in a CUDA graph too
  double round_ns = 380;       // each trip to memory beyond the five that launch_ns holds
  double enqueue_ns = 4000;    // the host launches a kernel outside of a graph
  double link = 0.80;          // as in cost/data_parallel_plan.h
  double collective_ns = 1e4;  // a small message between GPUs of a node, by NCCL
};
// With `tf32`, fp32 GEMMs run in TF32; a usage Error if the hardware has none.
Ceilings ceilings_of(const Hardware& hardware,
                     bool tf32 = false,
                     const AssumedEfficiency& assumed = {});
// The same with another time for which the host is busy with each launch outside of a CUDA graph.
Ceilings with_enqueue_time(Ceilings ceilings, double ns);

}  // namespace ridge::cost
