// SPDX-License-Identifier: Apache-2.0
// A data set of token ids: how it was made, and its contents; and a tokenizer that was trained.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "record/figures.h"

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

template <class See>
void figures(const See& see, const DataSetSummary& r) {
  see("folder", r.folder), see("ids", r.ids), see("documents", r.documents);
  see("shards", r.shards);
  see({"id_bytes", "", "the size of an id"}, r.id_bytes);
  see("vocab_size", r.vocab_size), see({"seconds", "s", "the time of this run"}, r.seconds);
  see({"tokens_per_s", "", "of this run, which may have gone on with a data set"}, r.tokens_per_s);
  see({"read_bytes", "", "packed bytes, in this run"}, r.read_bytes);
}

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

template <class See>
void figures(const See& see, const DataSetContents::Shard& r) {
  see("name", r.name), see("ids", r.ids), see("documents", r.documents), see("xxh128", r.hash);
}

struct TokenizerTimes {
  double count_s = 0, merge_s = 0;
};

template <class See>
void figures(const See& see, const TokenizerTimes& r) {
  see({"count_s", "s", "reading the texts and counting their words"}, r.count_s);
  see({"merge_s", "s", "making the merges"}, r.merge_s);
}

struct TrainedTokenizer {
  int64_t tokens = 0, merges = 0, text_bytes = 0;
  TokenizerTimes times;
  std::string folder;  // harmless to a terminal
  std::vector<std::string> files;
};

template <class See>
void figures(const See& see, const TrainedTokenizer& r) {
  see({"vocab_size", "", "tokens: special ones, bytes and merges"}, r.tokens);
  see("merges", r.merges), see("text_bytes", r.text_bytes), see("timings", r.times);
  see("folder", r.folder), see("files", r.files);
}

}  // namespace ridge::record
