// SPDX-License-Identifier: Apache-2.0
// Einsum notation for any number of operands, "...ij,jk,k->...i", and the order of products that
// takes the fewest FLOPs. Builds nothing: ops/einsum.cc does.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/shape.h"
#include "graph/op.h"

namespace ridge::ops {

inline constexpr size_t kMostContracted = 32;
// Up to this many operands the order is the best one; of more it is greedy.
inline constexpr size_t kBestOrder = 8;

// Letters are a to z and A to Z. The axes of `...` are aligned at their last one and have digits as
// letters; where such an axis is 1 and longer in another operand, it repeats and has no letter.
struct Contraction {
  std::vector<std::string> operands;
  std::string out;
  std::array<int64_t, 128> extents{};

  int64_t extent(char letter) const { return extents[static_cast<size_t>(letter)]; }
  Shape shape(std::string_view letters) const;
  int64_t elements(std::string_view letters) const;  // out-of-memory Error over 63 bits
};

// Throws usage Errors: letters twice in an operand or the result, letters of the result in no
// operand, extents that differ, a missing "->".
Contraction parse_contraction(std::string_view text, std::span<const Type> operands);

// The product of two values. Values are the operands, then the results of earlier pairs.
struct ContractedPair {
  size_t first = 0, second = 0;
  std::string out;     // letters of the result: what the final result or another value has, too
  std::string summed;  // letters of both that nothing else has; empty: a pointwise product
};

// Letters that only one operand has are summed first; then pairs are multiplied.
struct ContractionOrder {
  std::vector<std::string> reduced;  // each operand keeps these letters
  std::vector<ContractedPair> pairs;
};
// Returns the order with the fewest FLOPs whose results have at most kMaxRank axes, among equals
// the one with the smallest results. Throws a usage Error if there is none.
ContractionOrder order_of(const Contraction& contraction);

// Counts 1 FLOP for an element that is summed, 1 MAC for each combination of a pair's letters, or 1
// FLOP if the pair sums nothing.
Work work_of(const Contraction& contraction, const ContractionOrder& order);

}  // namespace ridge::ops
