// SPDX-License-Identifier: Apache-2.0
// Feeds zlib in parts, whose sizes its interface counts in 32 bits.
#include "files/gzip_writer.h"

#include <zlib.h>

#include <algorithm>
#include <array>

#include "base/error.h"

namespace ridge::files {

std::string gzip(std::string_view text) {
  constexpr int kWindowBits = 15 + 16;  // the largest window, and gzip's header
  constexpr int kMemory = 8;            // zlib's default
  constexpr size_t kPart = size_t{1} << 20;
  z_stream stream{};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kWindowBits, kMemory,
                   Z_DEFAULT_STRATEGY) != Z_OK)
    throw Error("[gzip] out of memory", ExitCode::kOutOfMemory);
  std::string packed;
  std::string part(kPart, '\0');
  int status = Z_OK;
  do {
    const size_t taken = std::min(text.size(), kPart);
    // zlib reads the bytes only; its type lacks the const.
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    stream.avail_in = static_cast<uInt>(taken);
    const int flush = taken == text.size() ? Z_FINISH : Z_NO_FLUSH;
    do {
      stream.next_out = reinterpret_cast<Bytef*>(part.data());
      stream.avail_out = static_cast<uInt>(kPart);
      status = deflate(&stream, flush);
      packed.append(part, 0, kPart - stream.avail_out);
    } while (stream.avail_out == 0);
    text.remove_prefix(taken);
  } while (status != Z_STREAM_END);
  deflateEnd(&stream);
  return packed;
}

}  // namespace ridge::files
