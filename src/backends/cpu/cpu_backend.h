// SPDX-License-Identifier: Apache-2.0
// The CPU backend: the kernels in backends/cpu/kernels and oneDNN's GEMMs, on host memory.
#pragma once

#include <memory>
#include <string>

#include "backends/backend.h"
#include "backends/collectives/communicator.h"

namespace ridge::backends::cpu {

struct CpuOptions {
  int threads = 0;  // 0: as many as the machine offers
  std::string isa;  // "", "avx2", "avx512", "amx": the highest instruction set that kernels may use
  bool tune_gemm = false;   // measure oneDNN's call forms per shape and take the fastest
  std::string tuning_file;  // where choices are stored; empty: nowhere
  // The groups of ranks, which must outlive the backend; null: this process runs alone.
  const Groups* groups = nullptr;
};

std::unique_ptr<Backend> make_cpu_backend(const CpuOptions& options);

}  // namespace ridge::backends::cpu
