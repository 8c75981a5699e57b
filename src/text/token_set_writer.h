// SPDX-License-Identifier: Apache-2.0
// Writes a data set of token ids (token_set_files.h) shard by shard. A killed writer goes on after
// the last whole shard.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "files/atomic_file.h"
#include "files/hash.h"
#include "text/token_set_files.h"

namespace ridge::text {

class TokenSetWriter {
 public:
  // `index` has the width, the vocabulary and the origin, and the shards that are there already.
  // `folder` must exist.
  TokenSetWriter(std::filesystem::path folder, TokenSetIndex index);

  // Adds ids; `begins` if a document begins with the first one.
  void add(std::span<const int32_t> ids, bool begins);
  int64_t shard_ids() const { return entry_.ids; }  // the shard being written has so many
  // Ends the shard, if it has ids, and writes an index that says where to go on.
  void end_shard(nlohmann::json next);
  // Ends the last shard and marks the set as complete.
  void finish();
  const TokenSetIndex& index() const { return index_; }

 private:
  void write_block(std::span<const std::byte> block);
  void write_index();
  std::filesystem::path path(const char* ending) const;

  std::filesystem::path folder_;
  TokenSetIndex index_;
  ShardEntry entry_;
  std::optional<files::AtomicFile> file_;
  files::Hash128 hash_;
  std::vector<std::byte> block_;  // ids that are not written yet, less than kHashedBytes
  std::vector<uint64_t> hashes_, documents_;
};

}  // namespace ridge::text
