// SPDX-License-Identifier: Apache-2.0
// One strided, perhaps batched matrix product through oneDNN: C = A B, or C += A B.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/dtype.h"

namespace ridge::backends::cpu {

// Extents and strides in elements. A is [batch..., m, k], B [batch..., k, n], C [batch..., m, n]; a batch stride of 0
// in A or B repeats the matrix.
struct GemmShape {
  std::vector<int64_t> batch, a_batch, b_batch, c_batch;
  int64_t m = 1, n = 1, k = 1;
  int64_t a_m = 0, a_k = 0, b_k = 0, b_n = 0, c_m = 0, c_n = 0;
  DType input = DType::kF32;   // of A and B: f32 or bf16
  DType output = DType::kF32;  // of C
  bool accumulate = false;
};

// Whether oneDNN takes the strides: one of the two axes of each matrix contiguous, C's rows contiguous or (by
// transposing the whole product) its columns.
bool is_supported(const GemmShape& shape);

// A product bound to its pointers.
class Gemm {
 public:
  Gemm(const GemmShape& shape, std::byte* a, std::byte* b, std::byte* c);
  void run() const;

 private:
  struct Primitive;
  std::shared_ptr<const Primitive> primitive_;
};

}  // namespace ridge::backends::cpu
