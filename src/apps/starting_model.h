// SPDX-License-Identifier: Apache-2.0
// The model that ridge train starts from: its tokenizer, and its weights with a bar while they are
// read. Not a subcommand.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "apps/command.h"
#include "models/master_weights.h"
#include "models/tokenizer_file.h"
#include "runtime/load.h"

namespace ridge::apps {

class StartingModel {
 public:
  StartingModel(std::shared_ptr<const models::ModelFile> file, const TerminalOptions& terminal);

  // Null if the model has none.
  const models::TokenizerFile* tokenizer() const { return tokenizer_ ? &*tokenizer_ : nullptr; }
  // Reads a weight; valid as long as this object.
  runtime::TensorSource weights();
  // Prints which types are dequantized, if any are.
  void tell_types() const;
  // What a checkpoint remembers of it: its path, its size in bytes and a hash of the weights that were read.
  nlohmann::ordered_json identity() const;

 private:
  std::shared_ptr<const models::ModelFile> file_;
  std::optional<models::TokenizerFile> tokenizer_;
  Progress progress_;
  models::MasterWeights weights_;
};

}  // namespace ridge::apps
