// SPDX-License-Identifier: Apache-2.0
// A data set of token ids: how it was made, and its contents.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ridge::record {

struct DataSetSummary {
  std::string folder;
  int64_t ids = 0, documents = 0, shards = 0;
  int id_bytes = 0;  // the size of an id
  int64_t vocab_size = 0;
  double seconds = 0;       // the time that this run took
  double tokens_per_s = 0;  // the rate of this run, which may have gone on with a data set
  int64_t read_bytes = 0;   // packed bytes, in this run
};

struct DataSetContents {
  struct Shard {
    std::string name;
    int64_t ids = 0, documents = 0;
    std::string hash;
  };
  std::string path;
  int64_t ids = 0, vocab_size = 0, documents = 0;
  int64_t least_ids = 0, median_ids = 0, most_ids = 0;  // in a document; 0 without documents
  std::vector<Shard> shards;                            // empty for a file of ids
  std::string origin;                                   // JSON; empty if unknown
  bool checked = false;                                 // whether all hashes were compared
  std::optional<std::string> text;                      // the beginning, if it is shown
};

}  // namespace ridge::record
