// SPDX-License-Identifier: Apache-2.0
// What the bindings of row kernels share: layout tests for values that are rows of a contiguous
// last axis, evenly spaced, and operands as such rows.
#pragma once

#include <cstdint>
#include <optional>

#include "backends/backend.h"
#include "backends/kernels/strided_rows.h"
#include "backends/kernels/token_heads.h"

namespace ridge::backends {

inline bool any_layout(const Call&, int, const Layout&) { return true; }

// The distance between rows when a value lies in rows; nothing otherwise.
std::optional<int64_t> row_stride(const Shape& shape, const Layout& layout);
bool lies_in_rows(const Call& call,
                  int input,
                  const Layout& layout);  // takes_input for row kernels
bool output_lies_in_rows(const Call& call, int output, const Layout& layout);  // takes_output

// An operand as rows; it must lie in rows.
int64_t row_stride(const Operand& operand);
template <typename T>
StridedRows<T> rows(const Operand& operand) {
  return {operand.as<T>(), row_stride(operand)};
}

// An operand as tokens' heads; it must lie in heads.
template <typename T>
TokenHeads<T> token_heads(const Operand& operand) {
  return {operand.as<T>(), operand.strides[0], operand.strides[1]};
}

// [N,heads,E] with each head contiguous.
bool lies_in_heads(const Shape& shape, const Layout& layout);
bool output_lies_in_heads(const Call& call, int output, const Layout& layout);  // takes_output

// takes_input for kernels whose other operands must be dense.
bool first_lies_in_rows(const Call& call, int input, const Layout& layout);
bool first_lies_in_heads(const Call& call, int input, const Layout& layout);

}  // namespace ridge::backends
