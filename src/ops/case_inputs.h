// SPDX-License-Identifier: Apache-2.0
// Inputs that the sample cases of several ops have.
#pragma once

#include "ops/infer.h"

namespace ridge::ops {

// No gradient is asked of it.
inline CaseInput inert(const Type& type) { return {type, {Fill::kNormal, 1, false}}; }
// That, and it keeps its type: no test narrows it to bf16.
inline CaseInput fixed(const Type& type, double std = 1) {
  return {type, {Fill::kNormal, std, false}, false};
}
inline CaseInput constant(const Type& type, double value) {
  return {type, {Fill::kConstant, value, false}, false};
}
// From 0 to `bound` - 1, with some -1.
inline CaseInput ids(const Shape& shape, int64_t bound) {
  return {i32(shape), {Fill::kIds, static_cast<double>(bound), false}, false};
}

}  // namespace ridge::ops
