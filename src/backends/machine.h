// SPDX-License-Identifier: Apache-2.0
// The device of this machine that runs graphs, as the user chooses it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "backends/backend.h"
#include "backends/collectives/communicator.h"
#include "passes/pipeline.h"
#include "record/run_record.h"

namespace ridge::backends {

struct MachineOptions {
  std::string device = {};  // "cpu" or "cuda"; empty: a GPU if there is one
  int threads = 0;          // 0: all
  std::string isa = {};
  bool nvtx = false;
  // The groups of ranks, which must outlive the backend; null: this process runs alone.
  const Groups* groups = nullptr;
  CollectiveListener* listener = nullptr;  // hears their collectives; must outlive it, too
  // Is told of threads that share cores, and of a file of tuned choices that is replaced. May be
  // null.
  std::function<void(const std::string& warning)> note = nullptr;
};
// Whether graphs run on a GPU. Throws a usage Error for an unknown device.
bool is_gpu(const MachineOptions& machine);
// Sets threads and ISA. Throws usage Errors.
std::unique_ptr<Backend> make_backend(const MachineOptions& machine,
                                      const passes::Selection& selection);
// The settings of a run, for its record. Call after make_backend.
record::Setting make_setting(const std::string& model,
                             const MachineOptions& machine,
                             const passes::Selection& selection,
                             const std::string& switches);

// The files of choices that were made by timing, in the user's cache folder.
inline constexpr const char* kCpuTuning = "gemm-tuning.json";
inline constexpr const char* kGpuTuning = "gemm-tuning-cuda.json";
inline constexpr const char* kAttentionTuning = "attention-tuning.json";
// The path of one of them, in a folder that exists; empty if the user has no cache folder.
std::string tuned_file(const char* name);

}  // namespace ridge::backends
