// SPDX-License-Identifier: Apache-2.0
// Bindings of copy and concat. concat copies those inputs that do not already lie in its output.
#include <utility>
#include <vector>

#include "backends/bind/bindings.h"
#include "backends/in_order.h"
#include "backends/row_layout.h"

namespace ridge::backends::bind {
namespace {

static_assert(kMaxRank <= kCopyMaxRank);

CopyLayout layout_of(const Operand& from, const Operand& to) {
  CopyLayout layout;
  layout.rank = from.type.shape.rank();
  for (int axis = 0; axis < layout.rank; ++axis) {
    layout.extents[axis] = from.type.shape[axis];
    layout.source_strides[axis] = from.strides[axis];
    layout.target_strides[axis] = to.strides[axis];
  }
  return layout;
}

Launch bind_seats(const BindCall& call, const Copier& copier) {
  std::vector<Launch> copies;
  int axis = static_cast<int>(call.attrs().integer("axis"));
  int64_t begin = 0;
  for (const Operand& part : call.inputs) {
    Operand place = call.outputs[0];
    place.data += storage_bytes(part.type.dtype, begin * place.strides[axis]);
    place.type.shape = part.type.shape;
    begin += part.type.shape[axis];
    if (place.data != part.data) copies.push_back(copier(part, place));
  }
  return in_order(std::move(copies));
}

}  // namespace

Launch strided_copy(const PairLaunchers<Copy>& launchers,
                    const char* op,
                    const Operand& from,
                    const Operand& to,
                    bool accumulate) {
  return by_float_dtype(moved_as(from.type.dtype), [&](auto source) {
    return by_float_dtype(moved_as(to.type.dtype), [&](auto target) {
      using From = decltype(source);
      using To = decltype(target);
      return launchers(
          Copy<From, To>{layout_of(from, to), from.as<const From>(), to.as<To>(), accumulate}, op);
    });
  });
}

Kernel copy(const Copier& copier) {
  return {
      .op = "copy",
      .bind = [copier](const BindCall& call) { return copier(call.inputs[0], call.outputs[0]); },
      .takes_input = any_layout,
      .takes_output = any_layout};
}

Kernel concat(const Copier& copier) {
  return {.op = "concat",
          .bind = [copier](const BindCall& call) { return bind_seats(call, copier); },
          .takes_input = any_layout,
          .takes_output = any_layout};
}

}  // namespace ridge::backends::bind
