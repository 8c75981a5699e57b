// SPDX-License-Identifier: Apache-2.0
// Reads with plain read() calls, so that pipes work too, and unpacks gzip by zlib and zstd by
// libzstd.
#include "files/byte_stream.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <new>
#include <string_view>

#include "base/error.h"
#include "files/system_reason.h"

namespace ridge::files {

// Unpacks one format. There may be several parts, one after the other, as `cat a.gz b.gz` makes
// them.
class Unpacker {
 public:
  virtual ~Unpacker() = default;
  // Takes bytes from the front of `in`, puts bytes into the front of `out`, and shortens both.
  // Throws a bad-file Error that names `source` if the bytes are damaged.
  virtual void unpack(std::span<const char>& in,
                      std::span<char>& out,
                      const std::string& source) = 0;
  // Whether the input may end here.
  virtual bool may_end() const = 0;
};

namespace {

constexpr size_t kBufferBytes = size_t{1} << 18;
constexpr size_t kMagicBytes = 4;

constexpr std::string_view kGzip = "\x1f\x8b";
constexpr std::string_view kZstd = "\x28\xb5\x2f\xfd";

class Gzip final : public Unpacker {
 public:
  Gzip() {
    constexpr int kWithGzipHeader = 15 + 16;
    if (::inflateInit2(&state_, kWithGzipHeader) != Z_OK) throw std::bad_alloc();
  }
  ~Gzip() override { ::inflateEnd(&state_); }
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;

  void unpack(std::span<const char>& in, std::span<char>& out, const std::string& source) override {
    if (ended_) ::inflateReset(&state_);
    ended_ = false;
    // zlib does not write to its input.
    state_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));
    state_.avail_in = static_cast<uInt>(std::min<size_t>(in.size(), INT_MAX));
    state_.next_out = reinterpret_cast<Bytef*>(out.data());
    state_.avail_out = static_cast<uInt>(std::min<size_t>(out.size(), INT_MAX));
    const uInt in_before = state_.avail_in, out_before = state_.avail_out;
    const int result = ::inflate(&state_, Z_NO_FLUSH);
    in = in.subspan(in_before - state_.avail_in);
    out = out.subspan(out_before - state_.avail_out);
    ended_ = result == Z_STREAM_END;
    if (result == Z_MEM_ERROR) throw std::bad_alloc();
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
      throw file_error("[{}] expected gzip data, but they are damaged: {}", source,
                       state_.msg == nullptr ? "no reason given" : state_.msg);
  }
  bool may_end() const override { return ended_; }

 private:
  z_stream state_{};
  bool ended_ = false;
};

class Zstd final : public Unpacker {
 public:
  Zstd() : state_(::ZSTD_createDStream()) {
    if (state_ == nullptr) throw std::bad_alloc();
  }
  ~Zstd() override { ::ZSTD_freeDStream(state_); }
  Zstd(const Zstd&) = delete;
  Zstd& operator=(const Zstd&) = delete;

  void unpack(std::span<const char>& in, std::span<char>& out, const std::string& source) override {
    ZSTD_inBuffer from{in.data(), in.size(), 0};
    ZSTD_outBuffer to{out.data(), out.size(), 0};
    const size_t left = ::ZSTD_decompressStream(state_, &to, &from);
    if (::ZSTD_isError(left) != 0)
      throw file_error("[{}] expected zstd data, but they are damaged: {}", source,
                       ::ZSTD_getErrorName(left));
    ended_ = left == 0;
    in = in.subspan(from.pos);
    out = out.subspan(to.pos);
  }
  bool may_end() const override { return ended_; }

 private:
  ZSTD_DStream* state_;
  bool ended_ = false;
};

// The unpacker of a file that begins with these bytes (four are enough); null if it is not packed.
std::unique_ptr<Unpacker> make_unpacker(std::span<const char> first) {
  const std::string_view bytes(first.data(), first.size());
  if (bytes.starts_with(kGzip)) return std::make_unique<Gzip>();
  if (bytes.starts_with(kZstd)) return std::make_unique<Zstd>();
  return nullptr;
}

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
    const bool is_known = ::fstat(descriptor_, &status) == 0;
    if (is_known && S_ISDIR(status.st_mode))
      throw file_error("[{}] expected a file, found a folder", source_);
    if (is_known && S_ISCHR(status.st_mode) && path != "-")  // /dev/zero has no end
      throw file_error("[{}] expected a file, found a device", source_);
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
