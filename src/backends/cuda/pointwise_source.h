// SPDX-License-Identifier: Apache-2.0
// The CUDA source of a pointwise program over strided operands. Text only: no GPU, no compiler.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/kernels/pointwise_program.h"
#include "base/dtype.h"
#include "base/shape.h"

namespace ridge::backends::cuda {

struct PointwiseAccess {
  DType dtype = DType::kF32;
  Strides strides;              // over the domain's axes, in elements; 0 repeats
  int64_t alignment_bytes = 1;  // a power of two that divides the address
};

struct GeneratedKernel {
  // Defines `extern "C" generated_pointwise(inputs..., outputs..., count)` of kGeneratedThreads
  // threads a block; `count` (64-bit) is the number of vectors. Equal for tensors of any size where
  // all operands are dense.
  std::string source;
  int64_t vectors = 0;  // threads that have something to do
};
inline constexpr int kGeneratedThreads = 256;

// Mapping: a thread a vector of the domain in row-major order. Bound: memory, each operand once.
GeneratedKernel generate(const PointwiseProgram& program,
                         const Shape& domain,
                         const std::vector<PointwiseAccess>& inputs,
                         const std::vector<PointwiseAccess>& outputs);

}  // namespace ridge::backends::cuda
