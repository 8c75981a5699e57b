// SPDX-License-Identifier: Apache-2.0
// Queries of the passes on GEMMs that go beyond plan::Target. The CUDA backend implements them,
// since it knows its device. Other targets, such as a plan's, do not implement them.
#pragma once

#include "plan/target.h"

namespace ridge::backends::cuda {

class GemmChoices {
 public:
  virtual ~GemmChoices() = default;
  // Whether a native kernel can compute the matmul instead of the library's.
  virtual bool has_native_gemm(const Call& matmul) const = 0;
  // The operand, 0 or 1, that is a matrix, is strided along the depth (K) and is worth transposing;
  // -1 if neither is.
  virtual int transposed_operand(const Call& matmul) const = 0;
  // Whether a kernel that streams the weight [F,D] multiplies x [N,D] in bf16 faster than one that
  // fuses norms and residuals.
  virtual bool prefers_streamed_gemm(const Shape& x,
                                     const Shape& weight,
                                     bool has_activation) const = 0;
};

// The target's GemmChoices, or null.
inline const GemmChoices* gemm_choices(const plan::Target& target) {
  return dynamic_cast<const GemmChoices*>(&target);
}

}  // namespace ridge::backends::cuda
