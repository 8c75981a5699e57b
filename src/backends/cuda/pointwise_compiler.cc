// SPDX-License-Identifier: Apache-2.0
// Keeps what NVRTC made.
#include "backends/cuda/pointwise_compiler.h"

#include <array>

#include "backends/cuda/device_error.h"
#include "backends/cuda/nvrtc.h"
#include "base/error.h"

namespace ridge::backends::cuda {
namespace {

std::string compile(const std::string& source, const std::string& architecture) {
  // No contraction to FMA: a cluster must compute the same bits as the primitives that it replaces.
  const std::array<std::string, 1> options = {"--fmad=false"};
  const NvrtcResult made = compile_cuda(source, "generated_pointwise.cu", architecture, options);
  RIDGE_CHECK(!made.code.empty(), "NVRTC: {}\n{}", made.log, source);
  return made.code;
}

}  // namespace

PointwiseCompiler::~PointwiseCompiler() {
  for (cudaLibrary_t library : libraries_) cudaLibraryUnload(library);
}

cudaKernel_t PointwiseCompiler::kernel(const std::string& source) {
  auto found = kernels_.find(source);
  if (found != kernels_.end()) return found->second;
  std::string code = compile(source, device_.facts().architecture());
  cudaLibrary_t library = nullptr;
  check(cudaLibraryLoadData(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
        "loading a generated kernel");
  libraries_.push_back(library);
  cudaKernel_t kernel = nullptr;
  check(cudaLibraryGetKernel(&kernel, library, "generated_pointwise"),
        "loading a generated kernel");
  kernels_.emplace(source, kernel);
  return kernel;
}

}  // namespace ridge::backends::cuda
