// SPDX-License-Identifier: Apache-2.0
// Copies windows out of mapped data sets.
#include "train/token_batches.h"

#include <algorithm>

#include "base/error.h"
#include "base/shape.h"

namespace ridge::train {
namespace {

// The key of an order: each seed, set and epoch has its own, within 2^32 epochs and 2^8 sets.
uint64_t order_key(uint64_t seed, uint64_t source, int64_t epoch) {
  return seed << 40 ^ source << 32 ^ static_cast<uint64_t>(epoch);
}

void expect_trainable(const text::TokenSet& tokens,
                      int64_t sequence,
                      const Vocabulary& vocabulary) {
  if (tokens.vocab_size() > std::max(vocabulary.rows, vocabulary.tokens))
    throw usage_error("[data] expected ids below the model's vocabulary of {}, {} has {}",
                      vocabulary.rows, tokens.source(), tokens.vocab_size());
  if (tokens.size() < sequence + 1)
    throw usage_error(
        "[data] expected at least {} ids for a sequence of {} and its labels, {} has {}",
        sequence + 1, sequence, tokens.source(), tokens.size());
}

int64_t windows_of(const text::TokenSet& tokens, int64_t sequence) {
  return (tokens.size() - 1) / sequence;
}

// A tokenizer may have tokens for which a model has no row. Their ids must not occur.
void expect_rows(const std::vector<int32_t>& window,
                 int64_t vocabulary,
                 const text::TokenSet& tokens) {
  const auto beyond =
      std::find_if(window.begin(), window.end(), [&](int32_t id) { return id >= vocabulary; });
  if (beyond != window.end())
    throw file_error("[{}] expected ids below the model's vocabulary of {}, found {}",
                     tokens.source(), vocabulary, *beyond);
}

// Appends a window of T + 1 ids as a row.
void append_row(const std::vector<int32_t>& window, Batch& batch) {
  batch.ids.insert(batch.ids.end(), window.begin(), window.end() - 1);
  batch.labels.insert(batch.labels.end(), window.begin() + 1, window.end());
  for (int32_t t = 0; t + 1 < static_cast<int32_t>(window.size()); ++t)
    batch.positions.push_back(t);
}

// The starts of documents if they are to be packed.
std::vector<int64_t> starts_of(const text::TokenSet& tokens, models::Packing packing) {
  if (packing == models::Packing::kNone) return {};
  std::vector<int64_t> starts = tokens.document_starts();
  if (starts.empty())
    throw usage_error(
        "[pack] expected an index of documents, {} has none; ridge data tokenize writes one",
        tokens.source());
  if (!std::is_sorted(starts.begin(), starts.end()) || starts[0] < 0 ||
      starts.back() > tokens.size())
    throw file_error("[{}] expected documents that begin in order among {} ids", tokens.source(),
                     tokens.size());
  return starts;
}

// Cuts the last row of the batch, whose first id has the index `first`, at the documents' starts.
void cut_at_documents(const std::vector<int64_t>& starts,
                      int64_t first,
                      int64_t sequence,
                      Batch& batch) {
  int32_t* positions = batch.positions.data() + std::ssize(batch.positions) - sequence;
  int32_t* labels = batch.labels.data() + std::ssize(batch.labels) - sequence;
  auto start = std::upper_bound(starts.begin(), starts.end(), first);
  int32_t position = 0;
  for (int64_t t = 0; t < sequence; ++t) {
    positions[t] = position++;
    // The next id begins a document, perhaps after empty ones.
    for (; start != starts.end() && *start == first + t + 1; ++start) {
      labels[t] = -1;
      position = 0;
    }
  }
}

std::vector<double> weights_of(const std::vector<WeightedData>& data) {
  std::vector<double> weights;
  for (const WeightedData& each : data) weights.push_back(each.weight);
  return weights;
}

}  // namespace

TokenBatches::TokenBatches(std::vector<WeightedData> data,
                           int64_t sequence,
                           const Vocabulary& vocabulary,
                           uint64_t seed,
                           models::Packing packing)
    : data_(std::move(data)),
      sequence_(sequence),
      rows_(vocabulary.rows),
      seed_(seed),
      mixture_(weights_of(data_)) {
  for (const WeightedData& each : data_) {
    expect_trainable(each.tokens, sequence, vocabulary);
    starts_.push_back(starts_of(each.tokens, packing));
  }
  window_.resize(static_cast<size_t>(sequence) + 1);
}

int64_t TokenBatches::windows(size_t source) const {
  return windows_of(data_[source].tokens, sequence_);
}

Batch TokenBatches::next(int64_t batch_size) {
  Batch batch;
  for (int64_t row = 0; row < batch_size; ++row) {
    const Mixture::Window at = mixture_.at(place_++);
    const int64_t count = windows(at.source), epoch = at.index / count;
    const int64_t window = permuted(at.index % count, count, order_key(seed_, at.source, epoch));
    data_[at.source].tokens.read(window * sequence_, window_);
    expect_rows(window_, rows_, data_[at.source].tokens);
    append_row(window_, batch);
    if (!starts_[at.source].empty())
      cut_at_documents(starts_[at.source], window * sequence_, sequence_, batch);
  }
  return batch;
}

std::vector<Batch> validation_batches(text::TokenSet& tokens,
                                      int64_t sequence,
                                      const Vocabulary& vocabulary,
                                      const BatchCount& count,
                                      models::Packing packing) {
  expect_trainable(tokens, sequence, vocabulary);
  const std::vector<int64_t> starts = starts_of(tokens, packing);
  bool has_labels = false;
  const int64_t windows =
      std::min(windows_of(tokens, sequence), checked_product(count.most, count.size, "windows"));
  std::vector<Batch> batches;
  std::vector<int32_t> window(static_cast<size_t>(sequence) + 1);
  for (int64_t first = 0; first < windows; first += count.size) {
    Batch& batch = batches.emplace_back();
    for (int64_t row = 0; row < count.size; ++row) {
      const bool is_there = first + row < windows;
      const int64_t begin = (is_there ? first + row : first) * sequence;
      tokens.read(begin, window);
      expect_rows(window, vocabulary.rows, tokens);
      append_row(window, batch);
      if (!starts.empty()) cut_at_documents(starts, begin, sequence, batch);
      if (!is_there) std::fill(batch.labels.end() - sequence, batch.labels.end(), -1);
    }
    has_labels = has_labels || std::any_of(batch.labels.begin(), batch.labels.end(),
                                           [](int32_t label) { return label >= 0; });
  }
  if (!has_labels)
    throw usage_error("[val-data] expected documents of at least 2 tokens, {} has none",
                      tokens.source());
  return batches;
}

}  // namespace ridge::train
