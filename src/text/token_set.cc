// SPDX-License-Identifier: Apache-2.0
// Finds the shard of an id, and checks each block of a shard once.
#include "text/token_set.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "files/hash.h"
#include "files/mapped_file.h"

namespace ridge::text {
namespace fs = std::filesystem;
namespace {

// llm.c's header: 256 numbers of 32 bits, of which three say something.
constexpr size_t kHeaderBytes = 1024;
constexpr uint32_t kGpt2Magic = 20240520, kGpt2Version = 1;      // ids of 2 bytes
constexpr uint32_t kLlama3Magic = 20240801, kLlama3Version = 7;  // ids of 4 bytes

struct FileForm {
  size_t header_bytes = 0;
  IdWidth width = IdWidth::k16;
};

FileForm form_of(const files::MappedFile& file, int32_t vocab_size) {
  FileForm form{0, smallest_id_width(vocab_size)};
  const auto bytes = file.bytes();
  if (bytes.size() < kHeaderBytes) return form;
  uint32_t head[3];
  std::memcpy(head, bytes.data(), sizeof head);
  if (head[0] != kGpt2Magic && head[0] != kLlama3Magic) return form;
  const bool is_wide = head[0] == kLlama3Magic;
  if (head[1] != (is_wide ? kLlama3Version : kGpt2Version))
    throw file_error("[{}] expected version {} of llm.c's header, found {}", file.source(),
                     is_wide ? kLlama3Version : kGpt2Version, head[1]);
  form = {kHeaderBytes, is_wide ? IdWidth::k32 : IdWidth::k16};
  const uint64_t found = (bytes.size() - kHeaderBytes) / static_cast<size_t>(form.width);
  if (head[2] != found)
    throw file_error("[{}] expected the {} ids of its header, found {}", file.source(), head[2],
                     found);
  return form;
}

// A file with the same stamp was not changed.
struct FileStamp {
  int64_t bytes = 0, seconds = 0, nanoseconds = 0;
  bool operator==(const FileStamp&) const = default;
};
FileStamp stamp_of(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return {};
  return {status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

std::vector<uint64_t> read_numbers(const fs::path& path, int64_t count, const std::string& hash) {
  std::vector<uint64_t> numbers(static_cast<size_t>(count));
  if (count == 0) return numbers;
  const files::MappedFile file(path);
  const auto bytes = std::as_writable_bytes(std::span(numbers));
  if (file.bytes().size() != bytes.size())
    throw file_error("[{}] expected {} bytes, found {}", file.source(), bytes.size(),
                     file.bytes().size());
  std::copy_n(file.bytes().begin(), bytes.size(), bytes.begin());
  if (files::hash128(bytes) != hash)
    throw file_error("[{}] expected the hash {}, found {}", file.source(), hash,
                     files::hash128(bytes));
  return numbers;
}

}  // namespace

class TokenShard {
 public:
  virtual ~TokenShard() = default;
  virtual int64_t size() const = 0;
  virtual void read(int64_t first, std::span<int32_t> out) = 0;
  virtual std::vector<uint64_t> documents() const { return {}; }
  virtual int64_t check(const std::function<void(int64_t)>&) { return 0; }
};

namespace {

class ShardInMemory final : public TokenShard {
 public:
  ShardInMemory(std::vector<int32_t> ids, const std::vector<int64_t>& starts)
      : ids_(std::move(ids)), documents_(starts.begin(), starts.end()) {}
  int64_t size() const override { return std::ssize(ids_); }
  void read(int64_t first, std::span<int32_t> out) override {
    std::copy_n(ids_.begin() + first, out.size(), out.begin());
  }
  std::vector<uint64_t> documents() const override { return documents_; }

 private:
  std::vector<int32_t> ids_;
  std::vector<uint64_t> documents_;
};

class ShardFile final : public TokenShard {
 public:
  // A file without an index.
  ShardFile(const fs::path& path, int32_t vocab_size)
      : path_(path), stamp_(stamp_of(path)), file_(path) {
    const FileForm form = form_of(file_, vocab_size);
    bytes_ = file_.bytes().subspan(form.header_bytes);
    ids_.emplace(bytes_, form.width, vocab_size, file_.source());
  }
  ShardFile(const fs::path& folder, const ShardEntry& entry, const TokenSetIndex& index)
      : path_(folder / (entry.name + ".bin")), stamp_(stamp_of(path_)), file_(path_) {
    bytes_ = file_.bytes();
    const auto expected = static_cast<size_t>(entry.ids) * static_cast<size_t>(index.width);
    if (bytes_.size() != expected)
      throw file_error("[{}] expected {} bytes for {} ids, found {}", file_.source(), expected,
                       entry.ids, bytes_.size());
    ids_.emplace(bytes_, index.width, index.vocab_size, file_.source());
    const auto blocks = static_cast<int64_t>((expected + kHashedBytes - 1) / kHashedBytes);
    hashes_ = read_numbers(folder / (entry.name + ".hashes"), blocks, entry.hashes_hash);
    checked_.resize(hashes_.size());
    documents_ =
        read_numbers(folder / (entry.name + ".documents"), entry.documents, entry.documents_hash);
  }

  int64_t size() const override { return ids_->size(); }
  std::vector<uint64_t> documents() const override { return documents_; }

  void read(int64_t first, std::span<int32_t> out) override {
    if (stamp_of(path_) != stamp_)
      throw file_error("[{}] the file was changed while it was in use", file_.source());
    const int64_t width = static_cast<int64_t>(bytes_.size()) / ids_->size();
    const int64_t end = (first + std::ssize(out)) * width;
    for (int64_t block = first * width / kHashedBytes; block * kHashedBytes < end; ++block)
      check_block(static_cast<size_t>(block));
    ids_->read(first, out);
  }

  int64_t check(const std::function<void(int64_t)>& progress) override {
    std::vector<int32_t> ids;
    constexpr int64_t kPart = kHashedBytes;
    for (int64_t first = 0; first < size(); first += kPart) {
      ids.resize(static_cast<size_t>(std::min(kPart, size() - first)));
      read(first, ids);
      if (progress) progress(std::ssize(ids));
    }
    return static_cast<int64_t>(bytes_.size());
  }

 private:
  void check_block(size_t block) {
    if (block >= hashes_.size() || checked_[block]) return;
    const size_t begin = block * static_cast<size_t>(kHashedBytes);
    const auto bytes =
        bytes_.subspan(begin, std::min(static_cast<size_t>(kHashedBytes), bytes_.size() - begin));
    if (const uint64_t found = files::hash64(bytes); found != hashes_[block])
      throw file_error("[{}] bytes {} to {}: expected the hash {:016x}, found {:016x}",
                       file_.source(), begin, begin + bytes.size(), hashes_[block], found);
    checked_[block] = true;
  }

  fs::path path_;
  FileStamp stamp_;
  files::MappedFile file_;
  std::span<const std::byte> bytes_;
  std::optional<TokenIds> ids_;
  std::vector<uint64_t> hashes_;
  std::vector<bool> checked_;
  std::vector<uint64_t> documents_;
};

}  // namespace

TokenSet::TokenSet() = default;
TokenSet::~TokenSet() = default;
TokenSet::TokenSet(TokenSet&&) noexcept = default;
TokenSet& TokenSet::operator=(TokenSet&&) noexcept = default;

TokenSet TokenSet::of_ids(std::vector<int32_t> ids,
                          int32_t vocab_size,
                          std::string source,
                          std::vector<int64_t> starts) {
  TokenSet set;
  set.source_ = std::move(source);
  set.vocab_size_ = vocab_size;
  set.size_ = std::ssize(ids);
  set.hash_ = files::hash128(std::as_bytes(std::span(ids)));
  set.begins_ = {0};
  set.shards_.push_back(std::make_unique<ShardInMemory>(std::move(ids), std::move(starts)));
  return set;
}

TokenSet TokenSet::open(const fs::path& path, int32_t vocab_size) {
  TokenSet set;
  set.source_ = path.string();
  set.vocab_size_ = vocab_size;
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    set.shards_.push_back(std::make_unique<ShardFile>(path, vocab_size));
    // A file without an index has no hash beforehand, and reading it all would take long.
    set.hash_ = fmt::format("{} ids", set.shards_[0]->size());
  } else {
    set.index_ = read_index(path);
    set.vocab_size_ = set.index_->vocab_size;
    if (!set.index_->is_complete)
      throw file_error("[{}] the data set is incomplete; the same ridge data tokenize goes on",
                       set.source_);
    std::string hashes;
    for (const ShardEntry& entry : set.index_->shards) {
      set.shards_.push_back(std::make_unique<ShardFile>(path, entry, *set.index_));
      hashes += entry.hash;
    }
    set.hash_ = files::hash128(std::as_bytes(std::span(hashes)));
  }
  for (const auto& shard : set.shards_) {
    set.begins_.push_back(set.size_);
    set.size_ += shard->size();
  }
  return set;
}

void TokenSet::read(int64_t first, std::span<int32_t> out) {
  RIDGE_CHECK(first >= 0 && std::ssize(out) <= size_ && first <= size_ - std::ssize(out),
              "ids {} to {} of {}", first, first + std::ssize(out), size_);
  auto shard = static_cast<size_t>(std::upper_bound(begins_.begin(), begins_.end(), first) -
                                   begins_.begin() - 1);
  while (!out.empty()) {
    const int64_t at = first - begins_[shard];
    const auto count =
        static_cast<size_t>(std::min(shards_[shard]->size() - at, int64_t{std::ssize(out)}));
    shards_[shard]->read(at, out.first(count));
    out = out.subspan(count);
    first += static_cast<int64_t>(count);
    ++shard;
  }
}

int64_t TokenSet::check(const std::function<void(int64_t)>& progress) {
  int64_t bytes = 0;
  for (const auto& shard : shards_) bytes += shard->check(progress);
  return bytes;
}

std::vector<int64_t> TokenSet::document_starts() const {
  std::vector<int64_t> starts;
  for (size_t i = 0; i < shards_.size(); ++i)
    for (const uint64_t start : shards_[i]->documents())
      starts.push_back(begins_[i] + static_cast<int64_t>(start));
  return starts;
}

}  // namespace ridge::text
