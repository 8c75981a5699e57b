// SPDX-License-Identifier: Apache-2.0
// Memory of backends whose operands lie in the host's memory.
#pragma once

#include "backends/backend.h"
#include "base/arena.h"

namespace ridge::backends {

class HostMemory final : public Memory {
 public:
  // Zero-filled. Throws an out-of-memory Error that names `what`.
  HostMemory(int64_t bytes, const char* what) : arena_(bytes, what) {}
  std::byte* data() const override { return arena_.data(); }
  int64_t bytes() const override { return arena_.bytes(); }

 private:
  Arena arena_;
};

}  // namespace ridge::backends
