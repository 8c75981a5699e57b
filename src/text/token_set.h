// SPDX-License-Identifier: Apache-2.0
// Token ids to train on, read at any place: a folder of `ridge data tokenize`, or a file of ids of
// another program (headerless, or with llm.c's header). The bytes stay in the mapped files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "text/token_set_files.h"

namespace ridge::text {

class TokenShard;

class TokenSet {
 public:
  // Checks sizes and the small files; `vocab_size` bounds the ids of a file that does not say.
  // Throws bad-file Errors: an incomplete set, files of another size, damaged files.
  static TokenSet open(const std::filesystem::path& path, int32_t vocab_size);
  // Ids in memory. They must be below vocab_size. `starts` are those of the documents, in order.
  static TokenSet of_ids(std::vector<int32_t> ids,
                         int32_t vocab_size,
                         std::string source,
                         std::vector<int64_t> starts = {});
  ~TokenSet();
  TokenSet(TokenSet&&) noexcept;
  TokenSet& operator=(TokenSet&&) noexcept;

  int64_t size() const { return size_; }
  int32_t vocab_size() const { return vocab_size_; }
  const std::string& source() const { return source_; }
  // Identifies the ids: the same in each run on the same data.
  const std::string& hash() const { return hash_; }
  // The ids of [first, first + out.size()), which must exist. Throws bad-file Errors: an id outside
  // the vocabulary, a block that does not have its hash (checked when it is first read), a file
  // that was changed since it was opened.
  void read(int64_t first, std::span<int32_t> out);
  // Reads all ids, which checks hashes and the vocabulary. Returns the number of bytes. `progress`
  // is called with the number of ids read; may be empty.
  int64_t check(const std::function<void(int64_t ids)>& progress);
  // The index of the first id of each document, in order; empty if the data do not say.
  std::vector<int64_t> document_starts() const;
  const std::optional<TokenSetIndex>& index() const { return index_; }  // a folder has one

 private:
  TokenSet();

  std::string source_;
  std::string hash_;
  int32_t vocab_size_ = 0;
  int64_t size_ = 0;
  std::optional<TokenSetIndex> index_;
  std::vector<std::unique_ptr<TokenShard>> shards_;
  std::vector<int64_t> begins_;  // the first id's index of each shard
};

}  // namespace ridge::text
