// SPDX-License-Identifier: Apache-2.0
// One aligned block of host memory. The planner assigns the offsets in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace ridge {
inline namespace base {

inline constexpr int64_t kAlignmentBytes = 64;  // a cache line and an AVX-512 vector

struct HostUnmap {
  int64_t bytes = 0;
  void operator()(std::byte* data) const;
};

class Arena {
 public:
  Arena() = default;
  // Zero-filled on first touch. Throws an out-of-memory Error that names `what`.
  Arena(int64_t bytes, const char* what);

  std::byte* data() const { return data_.get(); }
  int64_t bytes() const { return bytes_; }

 private:
  std::unique_ptr<std::byte, HostUnmap> data_;
  int64_t bytes_ = 0;
};

}  // namespace base
}  // namespace ridge
