// SPDX-License-Identifier: Apache-2.0
// Calls NVRTC.
#include "backends/cuda/pointwise_compiler.h"

#include <nvrtc.h>

#include "backends/cuda/device_error.h"
#include "backends/cuda/shared_library.h"
#include "base/error.h"

#define RIDGE_NVRTC(FUNCTION)                \
  FUNCTION(create, nvrtcCreateProgram)       \
  FUNCTION(destroy, nvrtcDestroyProgram)     \
  FUNCTION(compile, nvrtcCompileProgram)     \
  FUNCTION(cubin_size, nvrtcGetCUBINSize)    \
  FUNCTION(cubin, nvrtcGetCUBIN)             \
  FUNCTION(log_size, nvrtcGetProgramLogSize) \
  FUNCTION(log, nvrtcGetProgramLog)          \
  FUNCTION(words, nvrtcGetErrorString)

namespace ridge::backends::cuda {
namespace {

struct Nvrtc {
  RIDGE_NVRTC(RIDGE_LIBRARY_MEMBER)
};

Nvrtc open() {
  SharedLibrary library("libnvrtc.so.13");
  if (!library.is_open())
    throw Error(fmt::format("[cuda] generated kernels need NVRTC, which cannot be opened: {}; "
                            "--pass -generate_pointwise runs without it",
                            library.failure()),
                ExitCode::kDevice);
  Nvrtc functions{};
  RIDGE_NVRTC(RIDGE_LIBRARY_FIND)
  if (!library.missing().empty())
    throw Error(fmt::format("[cuda] this NVRTC does not have {}", library.missing()),
                ExitCode::kDevice);
  return functions;
}

std::string log_of(const Nvrtc& nvrtc, nvrtcProgram program) {
  size_t size = 0;
  if (nvrtc.log_size(program, &size) != NVRTC_SUCCESS) return "";
  std::string log(size, '\0');
  nvrtc.log(program, log.data());
  return log;
}

std::string compile(const std::string& source, const std::string& architecture) {
  static const Nvrtc nvrtc = open();
  nvrtcProgram program = nullptr;
  nvrtcResult status =
      nvrtc.create(&program, source.c_str(), "generated_pointwise.cu", 0, nullptr, nullptr);
  RIDGE_CHECK(status == NVRTC_SUCCESS, "NVRTC: {}", nvrtc.words(status));
  std::string target = "--gpu-architecture=" + architecture;
  // No contraction to FMA: a cluster must compute the same bits as the primitives that it replaces.
  const char* options[] = {target.c_str(), "--std=c++17", "--fmad=false"};
  status = nvrtc.compile(program, static_cast<int>(std::size(options)), options);
  RIDGE_CHECK(status == NVRTC_SUCCESS, "NVRTC: {}\n{}\n{}", nvrtc.words(status),
              log_of(nvrtc, program), source);
  size_t size = 0;
  status = nvrtc.cubin_size(program, &size);
  RIDGE_CHECK(status == NVRTC_SUCCESS && size > 0, "NVRTC: {}", nvrtc.words(status));
  std::string code(size, '\0');
  status = nvrtc.cubin(program, code.data());
  RIDGE_CHECK(status == NVRTC_SUCCESS, "NVRTC: {}", nvrtc.words(status));
  nvrtc.destroy(&program);
  return code;
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
