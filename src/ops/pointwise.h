// SPDX-License-Identifier: Apache-2.0
// All pointwise ops, made from the table in base/pointwise.h. Operands have one shape and one
// element type; broadcasting is a separate view. `cast` takes the new element type.
#pragma once

#include <span>

#include "base/pointwise.h"
#include "graph/op.h"

namespace ridge::ops {

std::span<const Op> pointwise_ops();
const Op& pointwise_op(Pointwise function);

// The function of a pointwise node and its scalar parameter (0 if it has none).
Pointwise pointwise_function(const Op& op);
double pointwise_parameter(const Attrs& attrs);

}  // namespace ridge::ops
