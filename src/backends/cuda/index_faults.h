// SPDX-License-Identifier: Apache-2.0
// Ids and labels out of range, which kernels note in a word of the host's memory and the next wait
// turns into an Error.
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

  // A word for launches of one kind, as kernels/watched.h says. Words: "[embedding] expected ids
  // from -1 to 7, token 3 has another".
  int32_t* watch(const IndexNames& names, int64_t bound, int lowest = -1);
  // The same cells with words for positions, slots and blocks.
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
