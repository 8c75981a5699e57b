// SPDX-License-Identifier: Apache-2.0
// Arguments of the fill kernel: writes one value to every element of a strided matrix. T is float,
// uint16_t (bf16, rounded to nearest even), Float16 or int32_t.
#pragma once

#include <cstdint>

#include "backends/kernels/strided_rows.h"

namespace ridge::backends {

template <typename T>
struct Fill {
  int64_t rows = 0;
  int64_t columns = 0;
  StridedRows<T> y;  // [rows, columns]
  double value = 0;
};

}  // namespace ridge::backends
