// SPDX-License-Identifier: Apache-2.0
// Derives row strides from layouts.
#include "backends/row_layout.h"

#include <algorithm>

namespace ridge::backends {

std::optional<int64_t> row_stride(const Shape& shape, const Layout& layout) {
  int rank = shape.rank();
  if (rank == 0) return 1;
  if (shape.back() != 1 && layout.strides[rank - 1] != 1) return std::nullopt;
  int64_t stride = shape.back();  // a single row may have any stride
  int64_t count = 1;
  for (int axis = rank - 2; axis >= 0; --axis) {
    if (shape[axis] == 1) continue;
    if (count == 1)
      stride = layout.strides[axis];
    else if (layout.strides[axis] != stride * count)
      return std::nullopt;
    count *= std::max<int64_t>(shape[axis], 1);  // like dense_strides
  }
  return stride;
}

bool lies_in_rows(const Call& call, int input, const Layout& layout) {
  return row_stride(call.inputs[static_cast<size_t>(input)].shape, layout).has_value();
}

bool output_lies_in_rows(const Call& call, int output, const Layout& layout) {
  return row_stride(call.outputs[static_cast<size_t>(output)].shape, layout).has_value();
}

int64_t row_stride(const Operand& operand) {
  return row_stride(operand.type.shape, {0, operand.strides}).value();
}

bool lies_in_heads(const Shape& shape, const Layout& layout) {
  return shape.rank() == 3 && (shape[2] == 1 || layout.strides[2] == 1);
}

bool output_lies_in_heads(const Call& call, int output, const Layout& layout) {
  return lies_in_heads(call.outputs[static_cast<size_t>(output)].shape, layout);
}

bool first_lies_in_rows(const Call& call, int input, const Layout& layout) {
  return input == 0 && lies_in_rows(call, input, layout);
}

bool first_lies_in_heads(const Call& call, int input, const Layout& layout) {
  return input == 0 && lies_in_heads(call.inputs[0].shape, layout);
}

}  // namespace ridge::backends
