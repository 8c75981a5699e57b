// SPDX-License-Identifier: Apache-2.0
// Joins letters whose strides continue one another.
#include "graph/einsum_axes.h"

#include <algorithm>

namespace ridge::inline graph {
int64_t Lettered::step(char letter) const {
  size_t at = letters.find(letter);
  return at == std::string::npos ? 0 : strides[static_cast<int>(at)];
}

JoinedAxis join_letters(const std::string& letters,
                        const EinsumExtents& extents,
                        const Lettered& first,
                        const Lettered& second,
                        Chain chain) {
  std::string order;
  for (char letter : letters)
    if (extents[letter] != 1) order += letter;  // an extent of 0 stays: it makes the product empty
  std::stable_sort(order.begin(), order.end(),
                   [&](char x, char y) { return first.step(x) < first.step(y); });
  if (order.empty()) return {};
  // The chain that begins at order[begin]; letters are ordered from the innermost to the outermost.
  auto chain_from = [&](size_t begin) {
    const char innermost = order[begin];
    JoinedAxis axis{extents[innermost], first.step(innermost), second.step(innermost), ""};
    for (size_t i = 0; i < order.size(); ++i) {
      if (i == begin) continue;
      bool joins = i > begin && first.step(order[i]) == axis.first_step * axis.extent &&
                   second.step(order[i]) == axis.second_step * axis.extent;
      if (joins)
        axis.extent *= extents[order[i]];
      else
        axis.rest.insert(axis.rest.begin(), order[i]);
    }
    return axis;
  };
  JoinedAxis best = chain_from(0);
  for (size_t i = 1; chain == Chain::kLongest && i < order.size(); ++i) {
    JoinedAxis other = chain_from(i);
    if (other.extent > best.extent) best = other;
  }
  return best;
}

}  // namespace ridge::inline graph
