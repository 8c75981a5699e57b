// SPDX-License-Identifier: Apache-2.0
// Opens and calls NVRTC.
#include "backends/cuda/nvrtc.h"

#include <nvrtc.h>

#include <vector>

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
    throw Error(fmt::format("[cuda] kernels in source need NVRTC, which cannot be opened: {}; "
                            "--pass -generate_pointwise runs without generated ones",
                            library.failure()),
                ExitCode::kDevice);
  Nvrtc functions{};
  RIDGE_NVRTC(RIDGE_LIBRARY_FIND)
  if (!library.missing().empty())
    throw Error(fmt::format("[cuda] this NVRTC does not have {}", library.missing()),
                ExitCode::kDevice);
  return functions;
}

// A source that is being compiled.
class Program {
 public:
  Program(const Nvrtc& nvrtc, const std::string& source, const std::string& file) : nvrtc_(nvrtc) {
    check(nvrtc.create(&program_, source.c_str(), file.c_str(), 0, nullptr, nullptr));
  }
  ~Program() { nvrtc_.destroy(&program_); }
  Program(const Program&) = delete;

  bool compile(std::span<const char* const> options) {
    return nvrtc_.compile(program_, static_cast<int>(options.size()), options.data()) ==
           NVRTC_SUCCESS;
  }
  std::string log() const {
    size_t size = 0;
    if (nvrtc_.log_size(program_, &size) != NVRTC_SUCCESS || size == 0) return "";
    std::string log(size, '\0');
    nvrtc_.log(program_, log.data());
    log.resize(size - 1);  // without the zero at its end
    return log;
  }
  std::string code() const {
    size_t size = 0;
    check(nvrtc_.cubin_size(program_, &size));
    std::string code(size, '\0');
    check(nvrtc_.cubin(program_, code.data()));
    return code;
  }

 private:
  void check(nvrtcResult status) const {
    RIDGE_CHECK(status == NVRTC_SUCCESS, "NVRTC: {}", nvrtc_.words(status));
  }

  const Nvrtc& nvrtc_;
  nvrtcProgram program_ = nullptr;
};

}  // namespace

NvrtcResult compile_cuda(const std::string& source,
                         const std::string& file,
                         const std::string& architecture,
                         std::span<const std::string> options) {
  static const Nvrtc nvrtc = open();
  const std::string target = "--gpu-architecture=" + architecture;
  std::vector<const char*> all = {target.c_str(), "--std=c++17"};
  for (const std::string& each : options) all.push_back(each.c_str());
  Program program(nvrtc, source, file);
  const bool compiles = program.compile(all);
  return {compiles ? program.code() : "", program.log()};
}

}  // namespace ridge::backends::cuda
