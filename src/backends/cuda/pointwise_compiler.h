// SPDX-License-Identifier: Apache-2.0
// Compiles the source of generated kernels with NVRTC, which is opened at run time. Equal sources
// are compiled once per process.
#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <string>
#include <vector>

#include "backends/cuda/device.h"

namespace ridge::backends::cuda {

class PointwiseCompiler {
 public:
  explicit PointwiseCompiler(const Device& device) : device_(device) {}
  ~PointwiseCompiler();
  PointwiseCompiler(const PointwiseCompiler&) = delete;

  // Returns the function `generated_pointwise` of the source. Throws a device Error if NVRTC is
  // missing.
  cudaKernel_t kernel(const std::string& source);

 private:
  const Device& device_;
  std::map<std::string, cudaKernel_t> kernels_;
  std::vector<cudaLibrary_t> libraries_;
};

}  // namespace ridge::backends::cuda
