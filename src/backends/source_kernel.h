// SPDX-License-Identifier: Apache-2.0
// A kernel of a person's own in source, which is compiled when it is made. Not one of Ridge's
// kernels: no node is bound to it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace ridge::backends {

// An operand as the kernel sees it: dense, row-major, of the operand's element type. `data` is in
// the memory of the device that runs the kernel.
struct KernelTensor {
  void* data = nullptr;
  const int64_t* shape = nullptr;
  int64_t rank = 0;
};

struct KernelSource {
  std::string name;  // its function has it
  std::string text;
  std::array<int64_t, 3> grid = {1, 1, 1};   // blocks
  std::array<int64_t, 3> block = {1, 1, 1};  // threads
  int64_t shared_bytes = 0;                  // dynamic shared memory of a block
  std::vector<std::string> flags = {};       // for the compiler
};

// A compiled kernel. `launch` takes the inputs, then the outputs, and returns once the kernel is
// enqueued; `wait` returns when it has ended.
struct SourceKernel {
  std::function<void(std::span<const KernelTensor>)> launch;
  std::function<void()> wait;
};

}  // namespace ridge::backends
