// SPDX-License-Identifier: Apache-2.0
// Both formats may have several parts, one after the other, as `cat a.gz b.gz` makes them.
#include "files/unpackers.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <climits>
#include <new>
#include <string_view>

#include "base/error.h"

namespace ridge::files {
namespace {

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

}  // namespace

std::unique_ptr<Unpacker> make_unpacker(std::span<const char> first) {
  const std::string_view bytes(first.data(), first.size());
  if (bytes.starts_with(kGzip)) return std::make_unique<Gzip>();
  if (bytes.starts_with(kZstd)) return std::make_unique<Zstd>();
  return nullptr;
}

}  // namespace ridge::files
