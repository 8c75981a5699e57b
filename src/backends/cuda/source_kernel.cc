// SPDX-License-Identifier: Apache-2.0
// Compiles, loads and launches on a stream of its own.
#include "backends/cuda/source_kernel.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <memory>
#include <string_view>

#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/device.h"
#include "backends/cuda/device_error.h"
#include "backends/cuda/nvrtc.h"
#include "base/error.h"
#include "base/shape.h"

namespace ridge::backends::cuda {
namespace {

// An operand as an argument, which kPrelude declares.
struct TensorArgument {
  void* data = nullptr;
  int64_t shape[6] = {};
  int64_t rank = 0;
  // A product of the extents in the kernel would copy the argument to local memory in each thread:
  // a SiLU took 7 times as long.
  int64_t count = 1;
};
static_assert(kMaxRank == 6 && sizeof(int64_t) == sizeof(long));

constexpr std::string_view kPrelude = R"(using int8_t = signed char;
using uint8_t = unsigned char;
using int16_t = short;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned int;
using int64_t = long;
using uint64_t = unsigned long;

struct Tensor {
  void* data;
  int64_t shape[6];
  int64_t rank;
  int64_t count;

  template <typename T = float>
  __device__ T* as() const { return static_cast<T*>(data); }
  __device__ int64_t elements() const { return count; }
};
)";

// The target with all instructions of the GPU. Where there is none, the code is only for the
// compiler's messages.
std::string target() {
  if (!why_no_gpu().empty()) return "sm_90a";
  const DeviceFacts facts = Device().facts();
  return facts.architecture() + (facts.capability_major >= 9 ? "a" : "");
}

void expect_launchable(const KernelSource& source) {
  // The limits of all GPUs that Ridge runs on.
  constexpr std::array<int64_t, 3> kMostBlocks = {2147483647, 65535, 65535};
  constexpr std::array<int64_t, 3> kMostThreads = {1024, 1024, 64};
  constexpr int64_t kMostShared = 227 * 1024;
  for (size_t axis = 0; axis < 3; ++axis) {
    if (source.grid[axis] < 1 || source.grid[axis] > kMostBlocks[axis])
      throw usage_error("[grid] expected 1 to {} blocks in axis {}, got {}", kMostBlocks[axis],
                        axis, source.grid[axis]);
    if (source.block[axis] < 1 || source.block[axis] > kMostThreads[axis])
      throw usage_error("[block] expected 1 to {} threads in axis {}, got {}", kMostThreads[axis],
                        axis, source.block[axis]);
  }
  if (const int64_t threads = source.block[0] * source.block[1] * source.block[2];
      threads > kMostThreads[0])
    throw usage_error("[block] expected at most {} threads, got {}", kMostThreads[0], threads);
  if (source.shared_bytes < 0 || source.shared_bytes > kMostShared)
    throw usage_error("[shared_bytes] expected 0 to {}, got {}", kMostShared, source.shared_bytes);
}

std::string compile(const KernelSource& source) {
  const std::string text =
      std::string(kPrelude) + "#line 1 \"" + source.name + ".cu\"\n" + source.text + "\n";
  NvrtcResult made = compile_cuda(text, source.name + ".cu", target(), source.flags);
  if (made.code.empty())
    throw usage_error("[kernel] {} does not compile:\n{}", source.name, made.log);
  return std::move(made.code);
}

dim3 extents(const std::array<int64_t, 3>& of) {
  return {static_cast<unsigned>(of[0]), static_cast<unsigned>(of[1]), static_cast<unsigned>(of[2])};
}

class LoadedKernel {
 public:
  LoadedKernel(const KernelSource& source, const std::string& code, int operands)
      : grid_(extents(source.grid)),
        block_(extents(source.block)),
        shared_bytes_(static_cast<size_t>(source.shared_bytes)) {
    check(cudaLibraryLoadData(&library_, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
          "loading a kernel");
    try {
      if (cudaLibraryGetKernel(&kernel_, library_, source.name.c_str()) != cudaSuccess)
        throw usage_error("[kernel] expected a function extern \"C\" __global__ void {}",
                          source.name);
      expect_parameters(source.name, operands);
      constexpr int kFirst = 0;
      check(cudaKernelSetAttributeForDevice(kernel_, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                            static_cast<int>(source.shared_bytes), kFirst),
            "setting a kernel's shared memory");
    } catch (...) {
      cudaLibraryUnload(library_);
      throw;
    }
  }
  ~LoadedKernel() {
    cudaStreamSynchronize(device_.stream());
    cudaLibraryUnload(library_);
  }
  LoadedKernel(const LoadedKernel&) = delete;

  void launch(std::span<const KernelTensor> operands) {
    std::vector<TensorArgument> arguments(operands.size());
    std::vector<void*> pointers;
    for (size_t i = 0; i < operands.size(); ++i) {
      arguments[i].data = operands[i].data;
      arguments[i].rank = operands[i].rank;
      std::copy_n(operands[i].shape, operands[i].rank, arguments[i].shape);
      for (int64_t axis = 0; axis < operands[i].rank; ++axis)
        arguments[i].count *= operands[i].shape[axis];
      pointers.push_back(&arguments[i]);
    }
    check(cudaLaunchKernel(reinterpret_cast<const void*>(kernel_), grid_, block_, pointers.data(),
                           shared_bytes_, device_.stream()),
          "launching a kernel of one's own");
  }
  void wait() const { device_.synchronize(); }

 private:
  // A function with more parameters would read arguments that nobody gave.
  void expect_parameters(const std::string& name, int operands) const {
    const auto* function = reinterpret_cast<const void*>(kernel_);
    size_t offset = 0, bytes = 0;
    int found = 0;
    bool are_tensors = true;
    while (found <= operands && cudaFuncGetParamInfo(function, static_cast<size_t>(found), &offset,
                                                     &bytes) == cudaSuccess) {
      are_tensors = are_tensors && bytes == sizeof(TensorArgument);
      ++found;
    }
    static_cast<void>(cudaGetLastError());  // the question after the last parameter failed
    if (found != operands || !are_tensors)
      throw usage_error("[kernel] expected {} to have {} parameters of type Tensor", name,
                        operands);
  }

  Device device_;
  dim3 grid_, block_;
  size_t shared_bytes_;
  cudaLibrary_t library_ = nullptr;
  cudaKernel_t kernel_ = nullptr;
};

}  // namespace

SourceKernel compile_source(const KernelSource& source, int operands) {
  expect_launchable(source);
  const std::string code = compile(source);
  if (const std::string why = why_no_gpu(); !why.empty())
    throw Error("[cuda] " + why, ExitCode::kDevice);
  const auto loaded = std::make_shared<LoadedKernel>(source, code, operands);
  return {[loaded](std::span<const KernelTensor> given) { loaded->launch(given); },
          [loaded] { loaded->wait(); }};
}

}  // namespace ridge::backends::cuda
