// SPDX-License-Identifier: Apache-2.0
// Inputs shared by the test cases of several ops.
#pragma once

#include "ops/infer.h"

namespace ridge::ops {

// An input that is not differentiated.
inline CaseInput inert(const Type& type) { return {type, {Fill::kNormal, 1, false}}; }
// An input that is not differentiated and keeps its type: no test casts it to bf16.
inline CaseInput fixed(const Type& type, double std = 1) {
  return {type, {Fill::kNormal, std, false}, false};
}
inline CaseInput constant(const Type& type, double value) {
  return {type, {Fill::kConstant, value, false}, false};
}
// Ids from 0 to `bound` - 1, and some -1.
inline CaseInput ids(const Shape& shape, int64_t bound) {
  return {i32(shape), {Fill::kIds, static_cast<double>(bound), false}, false};
}

}  // namespace ridge::ops
