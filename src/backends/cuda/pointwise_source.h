// SPDX-License-Identifier: Apache-2.0
// Generates the CUDA source of a pointwise program over strided operands. Text only: needs no GPU
// and no compiler.
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
  // Defines `extern "C" generated_pointwise(inputs..., outputs..., count)` with kGeneratedThreads
  // threads per block; `count` (64-bit) is the number of vectors. If all operands are dense, the
  // source does not depend on the tensors' size.
  std::string source;
  int64_t vectors = 0;  // number of threads with work
};
inline constexpr int kGeneratedThreads = 256;

// Mapping: one thread per vector of the domain, in row-major order. Bound: memory, each operand
// once.
GeneratedKernel generate(const PointwiseProgram& program,
                         const Shape& domain,
                         const std::vector<PointwiseAccess>& inputs,
                         const std::vector<PointwiseAccess>& outputs);

}  // namespace ridge::backends::cuda
