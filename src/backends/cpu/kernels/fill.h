// SPDX-License-Identifier: Apache-2.0
// Sets every element of a strided matrix to one value. T is float or uint16_t (bf16, rounded to
// nearest even).
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/rows.h"

namespace ridge::backends::cpu {

template <typename T>
struct Fill {
  int64_t rows = 0;
  int64_t columns = 0;
  Rows<T> y;  // [rows, columns]
  float value = 0;
};

template <typename T>
void fill(const Fill<T>& call);

}  // namespace ridge::backends::cpu
