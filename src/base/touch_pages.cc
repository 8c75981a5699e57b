// SPDX-License-Identifier: Apache-2.0
// Zeroing pages takes longer than asking for them, so all threads do it.
#include "base/touch_pages.h"

#include <algorithm>
#include <cstdint>

namespace ridge {
inline namespace base {

void touch_pages(std::span<std::byte> memory) {
  constexpr int64_t kPage = 4096, kPiece = int64_t{2} << 20;  // a large page is one thread's
  const int64_t bytes = std::ssize(memory), pieces = (bytes + kPiece - 1) / kPiece;
#pragma omp parallel for schedule(static)
  for (int64_t piece = 0; piece < pieces; ++piece)
    for (int64_t at = piece * kPiece; at < std::min(bytes, (piece + 1) * kPiece); at += kPage) {
      volatile std::byte* const byte = &memory[static_cast<size_t>(at)];
      *byte = *byte;
    }
}

}  // namespace base
}  // namespace ridge
