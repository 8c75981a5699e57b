// SPDX-License-Identifier: Apache-2.0
// Rebuilds the weights and batches of the published training runs bit by bit from their seeds,
// and uses the same recipe for other sizes. docs/accounting.md describes it. Adapters are drawn as
// PEFT does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "base/shape.h"
#include "models/config.h"
#include "train/batch.h"

namespace ridge::train {

inline constexpr uint32_t kSyntheticSeed = 42;

// A weight of a model before its training. It is drawn when it is asked for, so that no more than
// one is in memory at a time.
struct InitialWeight {
  std::string name;
  int64_t elements = 0;
  float constant = 0;
  std::optional<Random> from = {};  // before this weight's draws; none: all are `constant`

  std::vector<float> draw() const;
};

// In the published order: matrices from N(0, 0.02), norms that multiply by 1, biases of 0.
std::vector<InitialWeight> initial_weights(const models::ModelConfig& config, uint32_t seed);

// The first values of an adapter's parameter, as in PEFT: B is 0, so that the model begins
// unchanged; A [rank,in] is uniform within 1 / sqrt(in). They depend only on the seed, the name and
// the element.
std::vector<float> initial_adapter(std::string_view name, const Shape& shape, uint32_t seed);

// 1000 rows of T+1 random ids. Each batch takes the first rows of a fresh permutation. Position t
// predicts id t + 2: labels are shifted twice, as in the published loss, and the last position of
// a row does not count (-1).
class SyntheticData final : public BatchSource {
 public:
  SyntheticData(int64_t vocabulary, int64_t sequence, uint32_t seed);

  Batch next(int64_t batch_size) override;
  const std::vector<int32_t>& row(int64_t index) const { return rows_[static_cast<size_t>(index)]; }

 private:
  Random random_;
  int64_t sequence_;
  std::vector<std::vector<int32_t>> rows_;
};

}  // namespace ridge::train
