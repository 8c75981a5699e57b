// SPDX-License-Identifier: Apache-2.0
// Announces the parts of a file shortly before they are read, so that the disk works while threads
// convert what it has delivered. It reads nothing itself.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <vector>

namespace ridge::runtime {

class ReadAhead {
 public:
  // A few times what a disk delivers while a thread converts its share of a tensor, and little
  // beside a model.
  static constexpr int64_t kAheadBytes = int64_t{128} << 20;

  using Parts = std::vector<std::span<const std::byte>>;
  using Announce = std::function<void(std::span<const std::byte> part)>;

  // Announces the first kAheadBytes of `parts`, which will be read in this order.
  ReadAhead(Parts parts, Announce announce);

  // Counts bytes as read and announces as many more. Any thread may call it.
  void advance(int64_t bytes);

 private:
  Parts parts_;
  Announce announce_;
  std::atomic<int64_t> read_bytes_ = 0;
  std::mutex mutex_;  // it guards the members below
  size_t part_ = 0;   // the next to announce; begin_ says how much of it is announced
  size_t begin_ = 0;
  int64_t announced_bytes_ = 0;
};

}  // namespace ridge::runtime
