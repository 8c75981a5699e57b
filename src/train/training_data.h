// SPDX-License-Identifier: Apache-2.0
// The data of a training: opens data sets, files of ids and texts, and makes batches of them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "models/tokenizer_file.h"
#include "text/document_file.h"
#include "text/token_set.h"
#include "train/token_batches.h"

namespace ridge::train {

struct TrainingDataOptions {
  std::vector<std::string> data;  // PATH or PATH=WEIGHT
  std::string validation;
  std::string tokenizer;
  std::string pack = "windows";
  text::TextForm form;
  int64_t seed = 0;
  int64_t validation_batches = 20;

  bool is_given() const { return !data.empty(); }
  models::Packing packing() const;  // throws a usage Error
};

// Texts are tokenized in memory.
class TrainingData {
 public:
  // Called with 0 and the size of a text in bytes (0: unknown) before it is tokenized, and then
  // with the bytes that were read since the last call.
  using Progress = std::function<void(int64_t bytes, int64_t total_bytes)>;

  // Opens the data, which the options name. `vocabulary` is the model's; it bounds ids of files
  // that do not say. `tokenizer` is the model's, which the data must have too; it may be null.
  TrainingData(const TrainingDataOptions& options,
               int64_t vocabulary,
               const models::TokenizerFile* tokenizer,
               const Progress& progress);

  // The largest vocabulary among data sets and tokenizer; 0 if none says.
  int64_t vocabulary() const { return vocabulary_; }
  const models::TokenizerFile* tokenizer() const { return tokenizer_ ? &*tokenizer_ : nullptr; }

  // Makes the batches; it is called once, when the model's sizes are known.
  void make_batches(int64_t sequence, const Vocabulary& vocabulary, int64_t batch_size);
  TokenBatches& batches() { return *batches_; }
  const std::vector<Batch>& validation() const { return validation_; }
  // The order of windows depends on this; checkpoints keep it.
  nlohmann::ordered_json identity() const;

 private:
  text::TokenSet open(const std::string& path, int64_t vocabulary, const Progress& progress);
  text::TokenSet tokenize(const std::string& path, const Progress& progress) const;
  void take_tokenizer(models::TokenizerFile file);

  const TrainingDataOptions& o_;
  std::optional<models::TokenizerFile> tokenizer_;
  int64_t vocabulary_ = 0;
  std::vector<WeightedData> data_;
  std::optional<text::TokenSet> validation_tokens_;
  std::unique_ptr<TokenBatches> batches_;
  std::vector<Batch> validation_;
};

}  // namespace ridge::train
