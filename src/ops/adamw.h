// SPDX-License-Identifier: Apache-2.0
// The position of each tensor among the operands of adamw and adamw_multi, for passes and backends.
#pragma once

#include <cstddef>
#include <vector>

#include "graph/attrs.h"

namespace ridge::ops {

struct AdamwTensor {
  int input;   // first of parameter, gradient, first moment, second moment[, copy]
  int output;  // first of parameter, first moment, second moment[, copy]
  bool copy;
};
std::vector<AdamwTensor> adamw_tensors(size_t inputs, const Attrs& attrs);

}  // namespace ridge::ops
