// SPDX-License-Identifier: Apache-2.0
// The lowest free offset, against a search through all that is occupied.
#include "plan/occupancy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace ridge::plan {
namespace {

struct Occupied {
  NodeId first, last;
  int64_t begin, end;
};

int64_t lowest_free(const std::vector<Occupied>& all, NodeId first, NodeId last, int64_t bytes) {
  auto is_free = [&](int64_t offset) {
    return std::none_of(all.begin(), all.end(), [&](const Occupied& each) {
      return each.first <= last && first <= each.last && each.begin < offset + bytes &&
             offset < each.end;
    });
  };
  int64_t offset = 0;
  while (!is_free(offset)) ++offset;
  return offset;
}

TEST(Occupancy, FindsTheLowestFreeOffset) {
  std::mt19937 random(7);
  auto draw = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  for (int moments : {1, 2, 7, 64, 100}) {
    Occupancy occupancy(moments);
    std::vector<Occupied> all;
    for (int i = 0; i < 120; ++i) {
      NodeId first = draw(0, moments - 1), last = draw(first, moments - 1);
      int64_t bytes = draw(1, 20);
      int64_t offset = occupancy.lowest_free(first, last, bytes);
      ASSERT_EQ(offset, lowest_free(all, first, last, bytes)) << i << " of " << moments;
      // A range may also be occupied above a gap, and ranges of other times overlap it.
      if (i % 5 == 0) offset += draw(0, 30);
      occupancy.occupy(first, last, offset, offset + bytes);
      all.push_back({first, last, offset, offset + bytes});
    }
  }
}

}  // namespace
}  // namespace ridge::plan
