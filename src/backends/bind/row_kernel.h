// SPDX-License-Identifier: Apache-2.0
// The kernel of an op that works row by row: operands are rows with any stride, and an output may
// overwrite an input.
#pragma once

#include <string_view>
#include <utility>

#include "backends/launcher.h"
#include "backends/row_layout.h"

namespace ridge::backends::bind {

inline Kernel row_kernel(std::string_view op, Bind bind) {
  return {.op = op,
          .bind = std::move(bind),
          .takes_input = lies_in_rows,
          .takes_output = output_lies_in_rows,
          .in_place = true};
}

}  // namespace ridge::backends::bind
