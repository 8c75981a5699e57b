// SPDX-License-Identifier: Apache-2.0
// Chooses the backend and the file in which it keeps its tuned choices.
#include "backends/machine.h"

#include <fmt/format.h>
#include <omp.h>

#include <filesystem>

#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/isa.h"
#include "backends/cuda/cuda_backend.h"
#include "backends/tuning_file.h"
#include "base/error.h"
#include "base/printable.h"
#include "files/cache_folder.h"

namespace ridge::backends {
namespace {

constexpr int kMostThreads = 1024;  // more must be a typing error

std::string gemm_choices(const MachineOptions& machine, bool on_gpu) {
  const std::string path = tuned_file(on_gpu ? kGpuTuning : kCpuTuning);
  if (const std::string fault = tuning_fault(path); machine.note && !fault.empty())
    machine.note(fmt::format("{}; GEMMs are measured again", fault));
  return path;
}

}  // namespace

bool is_gpu(const MachineOptions& machine) {
  if (machine.device.empty()) return cuda::why_no_gpu().empty();
  if (machine.device != "cpu" && machine.device != "cuda")
    throw usage_error("[device] expected cpu or cuda, got {}", printable(machine.device));
  return machine.device == "cuda";
}

namespace {

std::unique_ptr<Backend> open_backend(const MachineOptions& machine,
                                      const passes::Selection& selection) {
  const auto& [device, threads, isa, nvtx, groups, listener, note] = machine;
  if (threads < 0 || threads > kMostThreads)
    throw usage_error("[threads] expected a number from 1 to {} (or 0: all), got {}", kMostThreads,
                      threads);
  const bool on_gpu = is_gpu(machine);
  if (!on_gpu && selection.has("tf32"))
    throw usage_error("[dtype] expected fp32, bf16 or fp16 on a CPU, got tf32, which needs a GPU");
  if (note && !on_gpu && threads > omp_get_num_procs())
    note(fmt::format("{} threads will share {} cores", threads, omp_get_num_procs()));
  if (on_gpu && (threads != 0 || !isa.empty()))
    throw usage_error("[{0}] --{0} has no effect on a GPU; choose the CPU with --device cpu",
                      threads != 0 ? "threads" : "isa");
  if (nvtx && !on_gpu) throw usage_error("[nvtx] expected --device cuda, got cpu");
  const bool tunes = selection.has("tune_gemm");
  const std::string choices = tunes ? gemm_choices(machine, on_gpu) : "";
  if (on_gpu)
    return cuda::make_cuda_backend({selection.has("tf32"), selection.has("capture"),
                                    selection.has("branches"), tunes, choices, groups, nvtx});
  return cpu::make_cpu_backend({threads, isa, tunes, choices, groups});
}

}  // namespace

std::unique_ptr<Backend> make_backend(const MachineOptions& machine,
                                      const passes::Selection& selection) {
  auto backend = open_backend(machine, selection);
  backend->tell(machine.listener);
  return backend;
}

record::Setting make_setting(const std::string& model,
                             const MachineOptions& machine,
                             const passes::Selection& selection,
                             const std::string& switches) {
  const bool on_gpu = is_gpu(machine);
  record::Setting setting;
  setting.model = model;
  setting.level = selection.level();
  setting.switches = switches;
  setting.dtype = selection.gemm_dtype();
  setting.device = on_gpu ? "cuda" : "cpu";
  setting.isa = on_gpu ? cuda::gpu_architecture() : cpu::isa_name();
  setting.threads = on_gpu ? 1 : omp_get_max_threads();
  if (machine.groups != nullptr && !machine.groups->empty())
    setting.exchange = on_gpu ? cuda::nccl_version() : machine.groups->begin()->second->library();
  return setting;
}

std::string tuned_file(const char* name) {
  const std::filesystem::path path = files::cache_file(name);
  if (path.empty()) return "";
  std::error_code error;  // without the folder nothing is kept, and the next run measures again
  std::filesystem::create_directories(path.parent_path(), error);
  return path.string();
}

}  // namespace ridge::backends
