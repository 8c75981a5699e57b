// SPDX-License-Identifier: Apache-2.0
// Shared by rms_norm and add_rms_norm: shape rule, work and the double-precision reference of a
// row.
#pragma once

#include <cstdint>
#include <string_view>

#include "graph/op.h"

namespace ridge::ops {

void expect_rms_norm(std::string_view op, const Type& x, const Type& weight, const Attrs& attrs);
Work rms_norm_work(const Shape& x);
Work rms_norm_backward_work(const Shape& x);
// Norms of rows x[D] with one weight[D].
struct RmsNormRows {
  const Tensor64& weight;
  const Attrs& attrs;  // eps and offset
  // Writes y[D] and returns rstd.
  double norm(const double* x, double* y) const;
};

}  // namespace ridge::ops
