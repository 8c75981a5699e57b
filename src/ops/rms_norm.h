// SPDX-License-Identifier: Apache-2.0
// What rms_norm and add_rms_norm share: the shape rule, the work and the double reference of a row.
#pragma once

#include <cstdint>
#include <string_view>

#include "graph/op.h"

namespace ridge::ops {

void expect_rms_norm(std::string_view op, const Type& x, const Type& weight, const Attrs& attrs);
Work rms_norm_work(const Shape& x);
Work rms_norm_backward_work(const Shape& x);
// Writes y[D] and returns rstd.
double rms_norm_row(const double* x,
                    const double* weight,
                    int64_t d,
                    double eps,
                    double offset,
                    double* y);
// Adds to dx[D] and d_weight[D].
void rms_norm_backward_row(const double* dy,
                           const double* x,
                           const double* weight,
                           double rstd,
                           int64_t d,
                           double offset,
                           double* dx,
                           double* d_weight);

}  // namespace ridge::ops
