// SPDX-License-Identifier: Apache-2.0
// Reports ids and labels out of range: a kernel writes a word in host memory, and the next wait
// converts it into an Error.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/index_names.h"
#include "backends/kernels/kv_cache.h"

namespace ridge::backends::cuda {

class IndexFaults {
 public:
  IndexFaults();
  ~IndexFaults();
  IndexFaults(const IndexFaults&) = delete;

  // Returns the word for launches of one kind (see kernels/watched.h), or null if no word is left.
  // The error message is for example "[embedding] expected ids from -1 to 7, token 3 has another".
  int32_t* watch(const IndexNames& names, int64_t bound, int lowest = -1);
  // Returns the same cells, with words for positions, slots and blocks if they are to be checked.
  CacheCells watch_cells(const char* op, const CacheCells& cells);
  // Throws the first fault since the last call. The device must be idle.
  void raise();

 private:
  struct Watch {
    IndexNames names;
    int64_t bound;
    int lowest;
    bool operator==(const Watch&) const = default;
  };
  static constexpr size_t kMost = 1024;
  int32_t* words_ = nullptr;  // pinned: the device writes them, rarely
  std::vector<Watch> watches_;
};

}  // namespace ridge::backends::cuda
