// SPDX-License-Identifier: Apache-2.0
// Announces piece by piece.
#include "runtime/read_ahead.h"

#include <algorithm>
#include <utility>

namespace ridge::runtime {
namespace {

constexpr size_t kPieceBytes = size_t{8} << 20;

}  // namespace

ReadAhead::ReadAhead(Parts parts, Announce announce)
    : parts_(std::move(parts)), announce_(std::move(announce)) {
  advance(0);
}

// A thread that announces may wait for the disk; the others go on meanwhile.
void ReadAhead::advance(int64_t bytes) {
  read_bytes_ += bytes;
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return;
  while (part_ < parts_.size() && announced_bytes_ < read_bytes_ + kAheadBytes) {
    std::span<const std::byte> rest = parts_[part_].subspan(begin_);
    std::span<const std::byte> piece = rest.first(std::min(kPieceBytes, rest.size()));
    if (!piece.empty()) announce_(piece);
    announced_bytes_ += static_cast<int64_t>(piece.size());
    begin_ += piece.size();
    if (begin_ == parts_[part_].size()) ++part_, begin_ = 0;
  }
}

}  // namespace ridge::runtime
