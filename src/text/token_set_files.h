// SPDX-License-Identifier: Apache-2.0
// The files of a data set of token ids, which the writer and the reader share. A folder has
//   index.json             what the set is, its shards with sizes and hashes, and where to go on
//   shard-00000.bin        ids of 2 or 4 bytes, little endian, one after the other
//   shard-00000.documents  u64: for each document that begins in the shard, its first id's index
//   shard-00000.hashes     u64: XXH3 of each MiB of the ids
//   tokenizer/             the tokenizer, as Hugging Face's files
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "text/token_ids.h"

namespace ridge::text {

inline constexpr const char* kTokenSetIndex = "index.json";
inline constexpr const char* kTokenSetTokenizer = "tokenizer";
inline constexpr const char* kTokenSetFormat = "ridge tokens";
inline constexpr int64_t kHashedBytes = int64_t{1} << 20;

// Ids, documents and hashes of a shard.
struct ShardEntry {
  std::string name = {};  // without an ending
  int64_t ids = 0;
  int64_t documents = 0;
  std::string hash = {};            // it covers the ids, in 128 bits
  std::string documents_hash = {};  // each covers one of the files next to them
  std::string hashes_hash = {};
};

struct TokenSetIndex {
  bool is_complete = false;
  int32_t vocab_size = 0;
  IdWidth width = IdWidth::k16;
  // The maker describes in it what the set was made from and how; compared before going on.
  nlohmann::json origin;
  nlohmann::json next;  // where to go on; null if complete
  std::vector<ShardEntry> shards;

  int64_t ids() const;
  int64_t documents() const;
};

std::string to_json(const TokenSetIndex& index);
// Throws a bad-file Error that names the field.
TokenSetIndex read_index(const std::filesystem::path& folder);

}  // namespace ridge::text
