// SPDX-License-Identifier: Apache-2.0
// The model of a training as the user names it: a preset, a configuration or a model with weights.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "models/config.h"
#include "models/model_file.h"

namespace ridge::models {

// The preset, unless one of the others is set.
struct ModelOptions {
  std::string preset = "small";
  std::string config_file;
  std::string model_file;
  bool is_preset() const { return config_file.empty() && model_file.empty(); }
};

// With the default batch size and length of the model's training.
struct ModelChoice {
  std::string name;
  ModelConfig config;
  int64_t batch_size = 0;
  int64_t sequence = 0;
  std::shared_ptr<const ModelFile> file = nullptr;  // null: no weights
};
ModelChoice choose_model(const ModelOptions& options);
// Throws a usage Error that names `option` if a sequence is longer than the context of a
// configuration or a model file. A preset is trained at any length.
void expect_context(const ModelOptions& options,
                    const ModelChoice& model,
                    const char* option,
                    int64_t sequence);

}  // namespace ridge::models
