// SPDX-License-Identifier: Apache-2.0
// The data that ridge train reads: options, and what they name. Not a subcommand.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/command.h"
#include "apps/data_input.h"
#include "models/tokenizer_file.h"
#include "report/terminal.h"
#include "train/token_batches.h"

namespace ridge::apps {

struct TrainingDataOptions {
  std::vector<std::string> data;  // PATH or PATH=WEIGHT
  std::string validation;
  std::string tokenizer;
  std::string pack = "windows";
  TextForm form;
  int64_t seed = 0;
  int64_t validation_batches = 20;

  bool is_given() const { return !data.empty(); }
  models::Packing packing() const;  // throws a usage Error
};
void add_training_data_options(Command app, TrainingDataOptions& options);

// The opened data. Texts are tokenized in memory.
class TrainingData {
 public:
  // `vocabulary` is that of the model; it bounds ids of files that do not say. `tokenizer` is the
  // model's, which the data must have too; may be null.
  TrainingData(const TrainingDataOptions& options,
               int64_t vocabulary,
               const models::TokenizerFile* tokenizer,
               const TerminalOptions& terminal);

  // The largest vocabulary among data sets and tokenizer; 0 if none says.
  int64_t vocabulary() const { return vocabulary_; }
  const models::TokenizerFile* tokenizer() const { return tokenizer_ ? &*tokenizer_ : nullptr; }

  // Make batches; call once, when the model's sizes are known.
  void make_batches(int64_t sequence, const train::Vocabulary& vocabulary, int64_t batch_size);
  train::TokenBatches& batches() { return *batches_; }
  const std::vector<train::Batch>& validation() const { return validation_; }
  // What the order of windows depends on, for checkpoints.
  nlohmann::ordered_json identity() const;

 private:
  text::TokenSet open(const std::string& path, int64_t vocabulary);
  text::TokenSet tokenize(const std::string& path) const;
  void take_tokenizer(models::TokenizerFile file);

  const TrainingDataOptions& o_;
  const TerminalOptions& terminal_;
  std::optional<models::TokenizerFile> tokenizer_;
  int64_t vocabulary_ = 0;
  std::vector<train::WeightedData> data_;
  std::optional<text::TokenSet> validation_tokens_;
  std::unique_ptr<train::TokenBatches> batches_;
  std::vector<train::Batch> validation_;
};

}  // namespace ridge::apps
