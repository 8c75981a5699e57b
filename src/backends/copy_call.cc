// SPDX-License-Identifier: Apache-2.0
// Strides of copies, and where the parts of a concat go.
#include "backends/copy_call.h"

#include <utility>
#include <vector>

#include "backends/in_turn.h"

namespace ridge::backends {

static_assert(kMaxRank <= kCopyMaxRank);

CopyLayout copy_layout(const Operand& from, const Operand& to) {
  CopyLayout layout;
  layout.rank = from.type.shape.rank();
  for (int axis = 0; axis < layout.rank; ++axis) {
    layout.extents[axis] = from.type.shape[axis];
    layout.source_strides[axis] = from.strides[axis];
    layout.target_strides[axis] = to.strides[axis];
  }
  return layout;
}

Launch bind_seats(const BindCall& call,
                  const std::function<Launch(const Operand& part, const Operand& seat)>& copy) {
  std::vector<Launch> copies;
  int axis = static_cast<int>(call.attrs().integer("axis"));
  int64_t begin = 0;
  for (const Operand& part : call.inputs) {
    Operand seat = call.outputs[0];
    seat.data += storage_bytes(part.type.dtype, begin * seat.strides[axis]);
    seat.type.shape = part.type.shape;
    begin += part.type.shape[axis];
    if (seat.data != part.data) copies.push_back(copy(part, seat));
  }
  return in_turn(std::move(copies));
}

}  // namespace ridge::backends
