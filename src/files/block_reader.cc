// SPDX-License-Identifier: Apache-2.0
// Reads through zlib, which passes plain files on unchanged.
#include "files/block_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <utility>

#include "base/error.h"
#include "files/system_reason.h"

namespace ridge::files {
namespace {

constexpr size_t kBlockBytes = size_t{1} << 18;

// Opens without waiting at a named pipe, which is refused like a folder.
int open_regular(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) throw file_error("[{}] cannot open: {}", path, system_reason(errno));
  struct stat status {};
  if (::fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) return fd;
  ::close(fd);
  throw file_error("[{}] expected a regular file{}", path,
                   S_ISDIR(status.st_mode) ? ", found a folder" : "");
}

}  // namespace

struct BlockReader::Stream {
  explicit Stream(const std::string& path) {
    const int fd = open_regular(path);
    file = ::gzdopen(fd, "rb");
    if (file == nullptr) {
      ::close(fd);
      throw memory_error("[{}] no memory to read the file", path);
    }
    ::gzbuffer(file, kBlockBytes);
  }
  ~Stream() { ::gzclose(file); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  gzFile file = nullptr;
};

BlockReader::BlockReader(const std::filesystem::path& path)
    : source_(path.string()), stream_(std::make_unique<Stream>(source_)), block_(kBlockBytes) {
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
  at_ = end_ = block_.data();
  if (stream_ == nullptr) {
    block_.clear();
    at_ = end_ = block_.data();
    return;
  }
  const int count = ::gzread(stream_->file, block_.data(), static_cast<unsigned>(block_.size()));
  int error = Z_OK;
  const char* reason = ::gzerror(stream_->file, &error);
  if (count < 0 || error == Z_BUF_ERROR)
    throw file_error("[{}] cannot read after byte {}: {}", source_, before_,
                     error == Z_ERRNO ? system_reason(errno) : std::string(reason));
  end_ = at_ + count;
}

}  // namespace ridge::files
