// SPDX-License-Identifier: Apache-2.0
// The inputs of one run of a training graph, and where they come from.
#pragma once

#include <cstdint>
#include <vector>

namespace ridge::train {

struct Batch {
  std::vector<int32_t> ids;         // [B*T]
  std::vector<int32_t> positions;   // [B*T]
  std::vector<int32_t> labels;      // [B*T], -1 = does not count
  std::vector<uint32_t> rows = {};  // [B], of synthetic data
};

class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // The next batch of so many sequences.
  virtual Batch next(int64_t batch_size) = 0;
};

}  // namespace ridge::train
