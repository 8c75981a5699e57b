// SPDX-License-Identifier: Apache-2.0
// LoRA adapters in the folders of PEFT: adapter_config.json and adapter_model.safetensors. They are
// written by training, and read to be merged into a model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "models/parameter_list.h"

namespace ridge::models {

inline constexpr const char* kAdapterConfig = "adapter_config.json";
inline constexpr const char* kAdapterWeights = "adapter_model.safetensors";
inline constexpr const char* kAdapterPrefix = "base_model.model.";  // tensors' names begin with it

struct AdapterConfig {
  int64_t rank = 8;
  double alpha = 8;
  std::vector<std::string> targets;  // the last parts of the names of projections
  std::string base_model;            // a path or a name on the hub; may be empty
};
std::string adapter_config_json(const AdapterConfig& config);

// The low-rank change of one matrix: W += scale * B A.
struct WeightChange {
  int64_t rank = 0;
  double scale = 0;
  std::vector<float> a;  // [rank,in]
  std::vector<float> b;  // [out,rank], rows in the order of Hugging Face's files

  // Adds a row of the change to a row of W.
  void add_to(int64_t row, std::span<float> values) const;
};

class Adapter {
 public:
  // Throws bad-file Errors, also for kinds of adapters that are not plain LoRA of matrices.
  static Adapter open(const std::filesystem::path& folder);

  // A parameter's change; null if it has none. Throws a bad-file Error if the shapes do not fit.
  const WeightChange* find(const Parameter& parameter) const;
  // Throws a bad-file Error if a change is of none of these parameters.
  void expect_all_of(std::span<const Parameter> parameters) const;
  int64_t matrices() const { return static_cast<int64_t>(changes_.size()); }

 private:
  std::string source_;
  std::map<std::string, WeightChange> changes_;  // by the name of the parameter
};

}  // namespace ridge::models
