// SPDX-License-Identifier: Apache-2.0
// Computes arena offsets, ranges of the store, and the extent of a layout within them.
#include "plan/addresses.h"

#include "base/error.h"

namespace ridge::plan {

Addresses::Addresses(const PlannedGraph& planned)
    : planned_(planned), stored_(planned.graph.values.size(), -1) {
  const Graph& graph = planned.graph;
  end_ = round_up(planned.memory.arena_bytes, kStoredAlignment);
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[i];
    bool is_root = at(planned.places, static_cast<ValueId>(i)).root == static_cast<ValueId>(i);
    if (!is_root || value.storage == Storage::kTemporary) continue;
    stored_[i] = end_;
    end_ +=
        round_up(storage_bytes(value.type.dtype, value.type.shape.elements()), kStoredAlignment);
  }
}

Access Addresses::access(ValueId value, bool is_write) const {
  const Place& place = at(planned_.places, value);
  const Type& type = planned_.graph.type(value);
  int64_t base = stored_[static_cast<size_t>(place.root)];
  const bool is_stored = base >= 0;
  if (!is_stored) {
    int buffer = planned_.memory.buffer_of[static_cast<size_t>(place.root)];
    RIDGE_CHECK(buffer >= 0, "%{} has no buffer", place.root);
    base = planned_.memory.buffers[static_cast<size_t>(buffer)].offset;
  }
  int64_t elements = 0, last = 0;
  if (is_block(type.dtype)) {
    elements = type.shape.elements();
    last = elements - 1;
  } else {
    elements = distinct_elements(type.shape, place.layout);
    for (int axis = 0; axis < type.shape.rank(); ++axis)
      last += (type.shape[axis] - 1) * place.layout.strides[axis];
  }
  if (elements == 0) return {base, base, 0, is_write, is_stored};
  const DTypeInfo& dtype = info(type.dtype);
  auto offset = [&](int64_t element) {
    return element / dtype.elements_per_block * dtype.bytes_per_block;
  };
  int64_t begin = base + offset(place.layout.offset);
  return {begin, begin + offset(last) + dtype.bytes_per_block, storage_bytes(type.dtype, elements),
          is_write, is_stored};
}

}  // namespace ridge::plan
