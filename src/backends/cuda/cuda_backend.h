// SPDX-License-Identifier: Apache-2.0
// The CUDA backend: the kernels in backends/cuda/kernels, cuBLASLt products and generated kernels
// on one NVIDIA GPU. This header also exists without CUDA: the device is then reported as missing.
#pragma once

#include <memory>
#include <string>

#include "backends/backend.h"
#include "backends/collectives/communicator.h"

namespace ridge::backends::cuda {

struct CudaOptions {
  bool tf32 = false;      // compute products of f32 operands in TF32
  bool capture = false;   // record a stage's launches once and replay them as one CUDA graph
  bool branches = false;  // run independent launches of a recording concurrently
  // Measure the heuristics' first algorithms per shape and use the fastest
  bool tune_gemm = false;
  std::string tuning_file;  // where choices are stored; empty: nowhere
  // The groups of ranks, which must outlive the backend; null: this process runs alone.
  const Groups* groups = nullptr;
  bool nvtx = false;  // NVTX ranges named after nodes around launches, and around their recording
};

// Opens the first GPU. Throws a device Error that names what is missing: the backend in this build,
// a driver, a recent enough driver, a GPU, or one of the libraries.
std::unique_ptr<Backend> make_cuda_backend(const CudaOptions& options);

// Returns an empty string if a GPU can be used, otherwise the reason why not. Does not open the
// GPU.
std::string why_no_gpu();

// The GPUs that this process may use; 0 if none can be used.
int gpu_count();

// "NCCL 2.27.5". Throws a device Error if it is missing or too old.
std::string nccl_version();

// "NVIDIA H200" and "sm_90", for reports. Call only if a GPU can be used.
std::string gpu_name();
std::string gpu_architecture();

}  // namespace ridge::backends::cuda
