// SPDX-License-Identifier: Apache-2.0
// Chooses by the path how data are read.
#include "train/training_data.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/openmp_threads.h"
#include "base/printable.h"
#include "text/token_stream.h"

namespace ridge::train {
namespace {

namespace fs = std::filesystem;

constexpr double kMostWeight = 1e6, kLeastWeight = 1e-6;
constexpr int64_t kMostSets = 256;

// "PATH=0.3": the weight after the last equals sign, if it is a number.
std::pair<std::string, double> split_weight(const std::string& text) {
  const size_t at = text.rfind('=');
  if (at == std::string::npos || at + 1 == text.size()) return {text, 1};
  double weight = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + at + 1, end, weight);
  if (error != std::errc() || stop != end) return {text, 1};
  if (!(weight >= kLeastWeight && weight <= kMostWeight))
    throw usage_error("[data] expected a weight from {} to {}, got {}", kLeastWeight, kMostWeight,
                      printable(text.substr(at + 1)));
  return {text.substr(0, at), weight};
}

}  // namespace

models::Packing TrainingDataOptions::packing() const {
  if (pack != "windows" && pack != "documents")
    throw usage_error("[pack] expected windows or documents, got {}", printable(pack));
  return pack == "documents" ? models::Packing::kDocuments : models::Packing::kNone;
}

TrainingData::TrainingData(const TrainingDataOptions& options,
                           int64_t vocabulary,
                           const models::TokenizerFile* tokenizer,
                           const Progress& progress)
    : o_(options) {
  text::expect_form(o_.form);
  if (o_.seed < 0) throw usage_error("[seed] expected a number >= 0, got {}", o_.seed);
  if (o_.validation_batches < 1)
    throw usage_error("[val-batches] expected at least 1, got {}", o_.validation_batches);
  if (std::ssize(o_.data) > kMostSets)
    throw usage_error("[data] expected at most {} data sets, got {}", kMostSets, o_.data.size());
  if (tokenizer != nullptr) take_tokenizer(*tokenizer);
  if (!o_.tokenizer.empty()) take_tokenizer(models::read_tokenizer(o_.tokenizer));
  for (const std::string& each : o_.data) {
    const auto [path, weight] = split_weight(each);
    data_.push_back({open(path, vocabulary, progress), weight});
  }
  if (!o_.validation.empty()) validation_tokens_ = open(o_.validation, vocabulary, progress);
}

void TrainingData::take_tokenizer(models::TokenizerFile file) {
  if (tokenizer_ && text::tokenizer_hash(tokenizer_->spec) != text::tokenizer_hash(file.spec))
    throw usage_error("[data] expected one tokenizer, but that of {} is not that of {}",
                      printable(file.source), printable(tokenizer_->source));
  vocabulary_ = std::max(vocabulary_, std::ssize(file.spec.tokens));
  if (!tokenizer_) tokenizer_ = std::move(file);
}

text::TokenSet TrainingData::open(const std::string& path,
                                  int64_t vocabulary,
                                  const Progress& progress) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    text::TokenSet set = text::TokenSet::open(path, 0);
    vocabulary_ = std::max<int64_t>(vocabulary_, set.vocab_size());
    const fs::path tokenizer = fs::path(path) / text::kTokenSetTokenizer;
    if (fs::exists(tokenizer, error)) take_tokenizer(models::read_tokenizer(tokenizer));
    return set;
  }
  if (fs::path(path).extension() == ".bin")
    return text::TokenSet::open(path,
                                static_cast<int32_t>(vocabulary_ > 0 ? vocabulary_ : vocabulary));
  return tokenize(path, progress);
}

text::TokenSet TrainingData::tokenize(const std::string& path, const Progress& progress) const {
  files::ByteStream probe(path);  // a fault of the path comes first
  if (!tokenizer_)
    throw usage_error(
        "[tokenizer] expected --tokenizer (`ridge tokenizer train` makes one), or a --model with "
        "one, for the text {}",
        printable(path));
  start_openmp_threads();
  const text::Tokenizer tokenizer = models::make_tokenizer(*tokenizer_);
  std::error_code error;
  const auto size = static_cast<int64_t>(fs::file_size(path, error));
  const int64_t total_bytes = error ? 0 : size;
  progress(0, total_bytes);
  std::vector<int32_t> ids;
  std::vector<int64_t> starts;
  text::TokenStream stream(tokenizer, text::document_options(tokenizer, o_.form),
                           [&](const text::TokenPart& part) {
                             if (part.begins) starts.push_back(std::ssize(ids));
                             ids.insert(ids.end(), part.ids.begin(), part.ids.end());
                           });
  text::read_documents(
      path, o_.form, {}, 0, [&](const text::TextPart& part) { stream.add(part); },
      [&](int64_t bytes) {
        if (bytes > 0) progress(bytes, total_bytes);
      });
  stream.flush();
  return text::TokenSet::of_ids(std::move(ids), tokenizer.vocab_size(), path, std::move(starts));
}

void TrainingData::make_batches(int64_t sequence,
                                const Vocabulary& vocabulary,
                                int64_t batch_size) {
  batches_ = std::make_unique<TokenBatches>(std::move(data_), sequence, vocabulary,
                                            static_cast<uint64_t>(o_.seed), o_.packing());
  if (validation_tokens_)
    validation_ = validation_batches(*validation_tokens_, sequence, vocabulary,
                                     {batch_size, o_.validation_batches}, o_.packing());
}

nlohmann::ordered_json TrainingData::identity() const {
  nlohmann::ordered_json sets = nlohmann::ordered_json::array();
  for (const WeightedData& each : batches_->data())
    sets.push_back({{"path", each.tokens.source()},
                    {"hash", each.tokens.hash()},
                    {"ids", each.tokens.size()},
                    {"weight", each.weight}});
  return {{"seed", o_.seed}, {"sets", sets}};
}

}  // namespace ridge::train
