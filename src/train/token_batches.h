// SPDX-License-Identifier: Apache-2.0
// Batches of windows of token ids. Window w of a data set begins at id w T and has T ids, each
// labelled with the next one; a remainder at the end is not used. With packed documents, positions
// begin at 0 in each document of a window, and the last token of a document has no label. A
// document that crosses the end of a window goes on in another row, from position 0.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/packing.h"
#include "text/token_set.h"
#include "train/batch.h"
#include "train/window_order.h"

namespace ridge::train {

struct WeightedData {
  text::TokenSet tokens;
  double weight = 1;  // its windows have it among those of all sets
};

// The ids that a model can read: those below `rows`. Data whose tokenizer is the model's may have
// up to `tokens`, if those without a row do not occur.
struct Vocabulary {
  Vocabulary(int64_t rows_of_model, int64_t tokens_known = 0)
      : rows(rows_of_model), tokens(tokens_known) {}
  int64_t rows, tokens;
};

// An endless mixture. Each epoch of a data set visits each of its windows once, in an order of its
// own.
class TokenBatches final : public BatchSource {
 public:
  // Throws usage Errors: a set with fewer than T + 1 ids, one with ids beyond the vocabulary, one
  // without an index of documents that are to be packed; a bad-file Error for a damaged index.
  TokenBatches(std::vector<WeightedData> data,
               int64_t sequence,
               const Vocabulary& vocabulary,
               uint64_t seed,
               models::Packing packing = models::Packing::kNone);

  // Throws a bad-file Error for an id for which the model has no row.
  Batch next(int64_t batch_size) override;
  // Windows taken so far: the place where `next` goes on.
  int64_t place() const { return place_; }
  void seek(int64_t place) { place_ = place; }

  const std::vector<WeightedData>& data() const { return data_; }
  int64_t windows(size_t source) const;

 private:
  std::vector<WeightedData> data_;
  int64_t sequence_, rows_;
  uint64_t seed_;
  Mixture mixture_;
  int64_t place_ = 0;
  std::vector<int32_t> window_;  // T + 1
  // Per set the indexes of the first ids of documents, in order; empty without packing.
  std::vector<std::vector<int64_t>> starts_;
};

struct BatchCount {
  int64_t size, most;  // rows of a batch, and batches
};
// The first windows of a data set in order, in whole batches; labels of a batch's missing rows are
// -1. Throws the same Errors, and a usage Error if no token has a label.
std::vector<Batch> validation_batches(text::TokenSet& tokens,
                                      int64_t sequence,
                                      const Vocabulary& vocabulary,
                                      const BatchCount& count,
                                      models::Packing packing = models::Packing::kNone);

}  // namespace ridge::train
