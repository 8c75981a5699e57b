// SPDX-License-Identifier: Apache-2.0
// Shared by the bindings of row kernels: layout tests for values made of evenly spaced rows with a
// contiguous last axis, and views of operands as such rows.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "backends/kernel.h"
#include "backends/kernels/strided_rows.h"
#include "backends/kernels/token_heads.h"

namespace ridge::backends {

inline bool any_layout(const Call&, int, const Layout&) { return true; }

// The distance between rows if a value consists of rows; nullopt otherwise.
std::optional<int64_t> row_stride(const Shape& shape, const Layout& layout);
// takes_input and takes_output for row kernels.
bool lies_in_rows(const Call& call, int input, const Layout& layout);
bool output_lies_in_rows(const Call& call, int output, const Layout& layout);

// An operand as rows; its layout must allow it.
int64_t row_stride(const Operand& operand);
template <typename T>
StridedRows<T> rows(const Operand& operand) {
  return {operand.as<T>(), row_stride(operand)};
}

// An operand as the heads of tokens; its layout must allow it.
template <typename T>
TokenHeads<T> token_heads(const Operand& operand) {
  return {operand.as<T>(), operand.strides[0], operand.strides[1]};
}

// Whether it is [N,heads,E] with each head contiguous.
bool lies_in_heads(const Shape& shape, const Layout& layout);
bool output_lies_in_heads(const Call& call, int output, const Layout& layout);  // takes_output

// takes_input for kernels whose other operands must be dense.
bool first_lies_in_rows(const Call& call, int input, const Layout& layout);
bool first_lies_in_heads(const Call& call, int input, const Layout& layout);

// The kernel of an op that works row by row: operands are rows with any stride, and an output may
// overwrite an input.
inline Kernel row_kernel(std::string_view op, Bind bind) {
  return {.op = op,
          .bind = std::move(bind),
          .takes_input = lies_in_rows,
          .takes_output = output_lies_in_rows,
          .in_place = true};
}

}  // namespace ridge::backends
