// SPDX-License-Identifier: Apache-2.0
// Reads blocks of a stream, which unpacks them.
#include "files/block_reader.h"

#include <system_error>
#include <utility>

#include "base/error.h"
#include "files/byte_stream.h"

namespace ridge::files {
namespace {

constexpr size_t kBlockBytes = size_t{1} << 18;

// A named pipe is refused like a folder: opening it would wait.
std::filesystem::path checked(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status))
    throw file_error("[{}] expected a regular file{}", path.string(),
                     std::filesystem::is_directory(status) ? ", found a folder" : "");
  return path == "-" ? "./-" : path;  // a stream would read stdin
}

}  // namespace

BlockReader::BlockReader(const std::filesystem::path& path)
    : source_(path.string()),
      stream_(std::make_unique<ByteStream>(checked(path))),
      block_(kBlockBytes) {
  at_ = end_ = block_.data();
  refill();
}

BlockReader::BlockReader(std::string bytes, std::string source)
    : source_(std::move(source)), block_(bytes.begin(), bytes.end()) {
  at_ = block_.data();
  end_ = at_ + block_.size();
}

BlockReader::~BlockReader() = default;
BlockReader::BlockReader(BlockReader&& other) noexcept = default;

void BlockReader::refill() {
  before_ += end_ - begin();
  if (before_ > item_end_)
    throw file_error("[{}] the item at byte {} is too long", source_, before_);
  if (stream_ == nullptr) block_.clear();
  at_ = end_ = block_.data();
  if (stream_ != nullptr) end_ += stream_->read(block_);
}

}  // namespace ridge::files
