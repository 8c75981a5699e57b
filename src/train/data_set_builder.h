// SPDX-License-Identifier: Apache-2.0
// Makes data sets of token ids from texts, and describes one.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "models/tokenizer_file.h"
#include "record/data_set.h"
#include "text/document_file.h"
#include "text/token_set.h"
#include "text/token_set_writer.h"
#include "text/token_stream.h"

namespace ridge::train {

struct DataSetOptions {
  std::vector<std::string> files;  // "-" is stdin
  std::string tokenizer;
  std::string out;
  text::TextForm form;
  int64_t shard_tokens = 100'000'000;
};

// Makes a data set, or goes on with one that an earlier run began with the same options.
class DataSetBuilder {
 public:
  // Reads the tokenizer. Throws if a file cannot be read. The options must outlive the builder.
  explicit DataSetBuilder(const DataSetOptions& options);

  int64_t input_bytes() const { return input_bytes_; }  // 0: unknown

  struct Begun {
    int64_t ids = 0, shards = 0;
  };
  // Makes the folder, or returns how far an earlier run came. Throws a usage Error if the folder
  // has another data set, or a whole one.
  std::optional<Begun> begin();
  // Then tokenizes the files. `progress` is called with the packed bytes read since the last call.
  record::DataSetSummary run(const std::function<void(int64_t bytes)>& progress);

 private:
  nlohmann::json origin() const;
  text::TokenSetIndex new_index() const;
  text::TokenSetIndex found_index();
  void add(text::TokenSetWriter& writer, const text::TokenPart& part) const;

  const DataSetOptions& o_;
  models::TokenizerFile file_;
  text::Tokenizer tokenizer_;
  int64_t input_bytes_;
  double begin_ns_ = 0;
  text::TokenSetIndex index_;  // until it runs
  int64_t first_input_ = 0;
  text::DocumentStart start_;
};

// Describes a data set. With `shown` > 0, the text of so many first ids is in it, if the folder
// has a tokenizer; else the ids. The hashes are not compared.
record::DataSetContents describe_data_set(text::TokenSet& set,
                                          const std::string& path,
                                          int64_t shown);

}  // namespace ridge::train
