// SPDX-License-Identifier: Apache-2.0
// How ranks divide a training, and which of them exchange data: the groups that collectives name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::plan {

// The group of all stages of one copy of the model.
inline constexpr const char* kPipelineGroup = "pipeline";

// The group of two stages that follow each other. The last one is followed by the first one.
std::string stage_pair(int64_t from, int64_t to, int64_t stages);

// Neighbours share a stage, then come the copies of that stage, then the next stage.
struct RankLayout {
  int64_t data = 1;      // copies of the model, which train on different sequences
  int64_t tensor = 1;    // ranks that share each layer
  int64_t pipeline = 1;  // stages, each of which has some of the layers

  bool operator==(const RankLayout&) const = default;
  int64_t ranks() const { return data * tensor * pipeline; }
  int64_t of_stage() const { return data * tensor; }
  int64_t stage(int64_t rank) const { return rank / of_stage(); }
  int64_t data_rank(int64_t rank) const { return rank / tensor % data; }
  int64_t tensor_rank(int64_t rank) const { return rank % tensor; }
  // The ranks of this rank's group of that name, which has `size` ranks.
  std::vector<int64_t> members(std::string_view group, int64_t size, int64_t rank) const;
};

}  // namespace ridge::plan
