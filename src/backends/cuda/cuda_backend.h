// SPDX-License-Identifier: Apache-2.0
// The CUDA backend: kernels of backends/cuda/kernels, cuBLASLt products and generated kernels on
// one NVIDIA GPU. This header is there without CUDA too: then the device is said to be missing.
#pragma once

#include <memory>
#include <string>

#include "backends/backend.h"

namespace ridge::backends::cuda {

struct CudaOptions {
  bool tf32 = false;      // products of f32 operands in TF32
  bool capture = false;   // a stage's launches are recorded once and replayed as one
  bool branches = false;  // what does not wait for each other runs side by side in a recording
  // Measure the heuristics' first algorithms per shape and take the fastest
  bool tune_gemm = false;
  std::string tuning_file;  // where choices are kept; empty: nowhere
  bool nvtx = false;        // ranges named for nodes around launches, and around their recording
};

// Opens the first GPU. Throws a device Error that says what is missing: the backend in this build,
// a driver, one new enough, a GPU, or one of the libraries.
std::unique_ptr<Backend> make_cuda_backend(const CudaOptions& options);

// Empty where a GPU can be used, else why not, in words. Opens nothing.
std::string why_no_gpu();

// "NVIDIA H200", "sm_90": for reports. Only where a GPU can be used.
std::string gpu_name();
std::string gpu_architecture();

}  // namespace ridge::backends::cuda
