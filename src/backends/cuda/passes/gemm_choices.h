// SPDX-License-Identifier: Apache-2.0
// What passes on GEMMs ask of a GPU beyond plan::Target: the backend answers, which knows its
// device. A target that does not, such as a plan's, has neither.
#pragma once

#include "plan/target.h"

namespace ridge::backends::cuda {

class GemmChoices {
 public:
  virtual ~GemmChoices() = default;
  // Whether a native kernel computes the matmul, where one of a library would too.
  virtual bool has_native_gemm(const Call& matmul) const = 0;
  // The operand, a matrix, that the matmul reads across the depth and that is worth transposing;
  // -1: neither.
  virtual int transposed_operand(const Call& matmul) const = 0;
};

// The target's answers, or null.
inline const GemmChoices* gemm_choices(const plan::Target& target) {
  return dynamic_cast<const GemmChoices*>(&target);
}

}  // namespace ridge::backends::cuda
