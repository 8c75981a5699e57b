// SPDX-License-Identifier: Apache-2.0
// Reads with plain read() calls, so that pipes work too.
#include "files/byte_stream.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "files/system_reason.h"
#include "files/unpackers.h"

namespace ridge::files {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 18;
constexpr size_t kMagicBytes = 4;

// Reads until the buffer is full or the file ends.
size_t read_full(int descriptor, std::span<char> out, const std::string& source) {
  size_t filled = 0;
  while (filled < out.size()) {
    const ssize_t count = ::read(descriptor, out.data() + filled, out.size() - filled);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw file_error("[{}] cannot read: {}", source, system_reason(errno));
    if (count == 0) break;
    filled += static_cast<size_t>(count);
  }
  return filled;
}

}  // namespace

ByteStream::ByteStream(const std::filesystem::path& path)
    : source_(path == "-" ? "stdin" : path.string()), buffer_(kBufferBytes) {
  descriptor_ = path == "-" ? ::dup(STDIN_FILENO) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) throw file_error("[{}] cannot open: {}", source_, system_reason(errno));
  try {
    struct stat status {};
    if (::fstat(descriptor_, &status) == 0 && S_ISDIR(status.st_mode))
      throw file_error("[{}] expected a file, found a folder", source_);
    end_ = read_full(descriptor_, buffer_, source_);
    if (end_ == 0) throw file_error("[{}] the file is empty", source_);
    unpacker_ = make_unpacker(std::span(buffer_).first(std::min(end_, kMagicBytes)));
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

ByteStream::~ByteStream() { ::close(descriptor_); }

std::span<const char> ByteStream::packed() {
  if (begin_ == end_) {
    begin_ = 0;
    end_ = read_full(descriptor_, buffer_, source_);
  }
  return std::span(buffer_).subspan(begin_, end_ - begin_);
}

void ByteStream::take(size_t count) {
  begin_ += count;
  packed_bytes_ += static_cast<int64_t>(count);
}

size_t ByteStream::read(std::span<char> out) {
  std::span<char> left = out;
  while (!left.empty()) {
    const std::span<const char> in = packed();
    if (in.empty()) {
      // A decoder may hold output that did not fit before.
      const size_t before = left.size();
      std::span<const char> none = in;
      if (unpacker_ && !unpacker_->may_end()) unpacker_->unpack(none, left, source_);
      if (left.size() < before) continue;
      if (unpacker_ && !unpacker_->may_end())
        throw file_error("[{}] the packed data end early, after {} bytes", source_, packed_bytes_);
      break;
    }
    if (unpacker_ == nullptr) {
      const size_t count = std::min(in.size(), left.size());
      std::memcpy(left.data(), in.data(), count);
      left = left.subspan(count);
      take(count);
      continue;
    }
    std::span<const char> rest = in;
    unpacker_->unpack(rest, left, source_);
    take(in.size() - rest.size());
  }
  place_ += static_cast<int64_t>(out.size() - left.size());
  return out.size() - left.size();
}

void ByteStream::skip(int64_t bytes) {
  std::vector<char> dropped(kBufferBytes);
  while (bytes > 0) {
    const auto part = static_cast<size_t>(std::min<int64_t>(bytes, kBufferBytes));
    const size_t count = read(std::span(dropped).first(part));
    if (count < part)
      throw file_error("[{}] expected {} bytes more, but the file ends after {}", source_, bytes,
                       place_);
    bytes -= static_cast<int64_t>(count);
  }
}

}  // namespace ridge::files
