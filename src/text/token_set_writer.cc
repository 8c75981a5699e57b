// SPDX-License-Identifier: Apache-2.0
// A shard's files appear before the index that lists them.
#include "text/token_set_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace ridge::text {
namespace {

// Writes numbers and returns their hash.
std::string write_numbers(const std::filesystem::path& path, const std::vector<uint64_t>& numbers) {
  const auto bytes = std::as_bytes(std::span(numbers));
  files::AtomicFile file(path, files::Links::kReplace);
  file.write(bytes);
  file.commit();
  return files::hash128(bytes);
}

}  // namespace

TokenSetWriter::TokenSetWriter(std::filesystem::path folder, TokenSetIndex index)
    : folder_(std::move(folder)), index_(std::move(index)) {}

std::filesystem::path TokenSetWriter::path(const char* ending) const {
  return folder_ / (entry_.name + ending);
}

void TokenSetWriter::add(std::span<const int32_t> ids, bool begins) {
  if (ids.empty()) return;
  if (!file_) {
    entry_ = {.name = fmt::format("shard-{:05}", index_.shards.size())};
    file_.emplace(path(".bin"), files::Links::kReplace);
    hash_ = files::Hash128();
  }
  if (begins) documents_.push_back(static_cast<uint64_t>(entry_.ids));
  const auto width = static_cast<size_t>(index_.width);
  for (const int32_t id : ids) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&id);
    block_.insert(block_.end(), bytes, bytes + width);
    if (block_.size() < static_cast<size_t>(kHashedBytes)) continue;
    write_block(block_);
    block_.clear();
  }
  entry_.ids += std::ssize(ids);
}

void TokenSetWriter::write_block(std::span<const std::byte> block) {
  hashes_.push_back(files::hash64(block));
  hash_.update(block);
  file_->write(block);
}

void TokenSetWriter::end_shard(nlohmann::json next) {
  if (file_) {
    if (!block_.empty()) write_block(block_);
    block_.clear();
    file_->commit();
    file_.reset();
    entry_.documents = std::ssize(documents_);
    entry_.hash = hash_.hex();
    entry_.documents_hash = write_numbers(path(".documents"), documents_);
    entry_.hashes_hash = write_numbers(path(".hashes"), hashes_);
    index_.shards.push_back(std::exchange(entry_, {}));
    documents_.clear();
    hashes_.clear();
  }
  index_.next = std::move(next);
  write_index();
}

void TokenSetWriter::finish() {
  index_.is_complete = true;
  end_shard(nullptr);
}

void TokenSetWriter::write_index() {
  files::write_file(folder_ / kTokenSetIndex, to_json(index_), files::Links::kReplace);
}

}  // namespace ridge::text
