// SPDX-License-Identifier: Apache-2.0
// How the axes of a reduce_sum fall into leading ones that are summed, kept ones, and trailing ones
// that are summed: rows are summed first, then columns. Kept axes before all of these repeat the
// sum. Not the sums: those are each backend's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/in_turn.h"

namespace ridge::backends {

// [repeats, outer, kept, inner] with outer and inner
// summed. `plain` is false for any other pattern.
struct SumSplit {
  int64_t repeats = 1, outer = 1, kept = 1, inner = 1;
  bool plain = true;
};

SumSplit sum_split(const Call& call);

// Empty when the axes are plain, else what `backend` ("cpu") does not sum.
std::string unsupported_sum(const Call& call, std::string_view backend);

// The launches of all repeats: one(x, y) binds the sum of [outer, kept, inner] at x to [kept] at y.
template <typename T, typename One>
Launch bind_repeats(const BindCall& call, const SumSplit& s, const One& one) {
  std::vector<Launch> sums;
  for (int64_t i = 0; i < s.repeats; ++i)
    sums.push_back(one(call.inputs[0].as<const T>() + i * s.outer * s.kept * s.inner,
                       call.outputs[0].as<T>() + i * s.kept));
  return in_turn(std::move(sums));
}

}  // namespace ridge::backends
