// SPDX-License-Identifier: Apache-2.0
// The published model that a training starts from: its tokenizer and its weights.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "models/master_weights.h"
#include "models/tokenizer_file.h"
#include "runtime/load.h"

namespace ridge::train {

class StartingModel {
 public:
  // `progress` is called with the bytes of each weight in fp32 when it is read.
  StartingModel(std::shared_ptr<const models::ModelFile> file,
                std::function<void(int64_t bytes)> progress);

  // Null if the model has none.
  const models::TokenizerFile* tokenizer() const { return tokenizer_ ? &*tokenizer_ : nullptr; }
  // Reads a weight; valid as long as this object.
  runtime::TensorSource weights();
  // The types that are dequantized, as a list; empty if there are none.
  std::string quantized_types() const { return weights_.quantized_types(); }
  // A checkpoint remembers its path, its size in bytes and a hash of the weights that were read.
  nlohmann::ordered_json identity() const;

 private:
  std::shared_ptr<const models::ModelFile> file_;
  std::optional<models::TokenizerFile> tokenizer_;
  models::MasterWeights weights_;
};

}  // namespace ridge::train
