// SPDX-License-Identifier: Apache-2.0
// Decides the buffer (named by its root value) and the layout of each value. Views, in-place
// updates and concats without a copy are decided here; costs, the planner and binding read the
// result.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "plan/target.h"

namespace ridge::plan {

struct Place {
  ValueId root = kNoValue;  // the value that owns the bytes; its own buffer is dense
  Layout layout;
  // The value is a view that no layout can express (a reshape of a transpose), so `legalize` must
  // insert a copy before it.
  bool inexpressible = false;
};

// Returns one place per value. With a target, an input of a concat lies in a part of the output if
// its producer can write there.
std::vector<Place> places(const Graph& graph, const Target* target);

inline const Place& at(const std::vector<Place>& places, ValueId value) {
  return places[static_cast<size_t>(value)];
}

// Distinct elements of a value: axes repeated by a broadcast count once.
int64_t distinct_elements(const Shape& shape, const Layout& layout);

}  // namespace ridge::plan
