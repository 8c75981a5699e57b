// SPDX-License-Identifier: Apache-2.0
// Decides where each value lies: in which buffer (named by its root value) and with which layout.
// Views, in-place updates and concats without a copy are decided here; costs, the planner and binding
// read the result.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "plan/target.h"

namespace ridge::plan {

struct Place {
  ValueId root = kNoValue;  // the value whose bytes these are; its own buffer is dense
  Layout layout;
  // The value is a view that no layout expresses (a reshape of a transpose): `legalize` must put a
  // copy before it.
  bool inexpressible = false;
};

// One place per value. With a target, inputs of a concat whose producers write into a part of the
// output lie there.
std::vector<Place> places(const Graph& graph, const Target* target);

inline const Place& at(const std::vector<Place>& places, ValueId value) {
  return places[static_cast<size_t>(value)];
}

// Distinct elements of a value: axes repeated by a broadcast count once.
int64_t distinct_elements(const Shape& shape, const Layout& layout);

}  // namespace ridge::plan
