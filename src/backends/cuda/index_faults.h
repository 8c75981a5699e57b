// SPDX-License-Identifier: Apache-2.0
// Ids and labels out of range, which kernels note in a word of the host's memory and the next wait
// turns into an Error.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ridge::backends::cuda {

class IndexFaults {
 public:
  IndexFaults();
  ~IndexFaults();
  IndexFaults(const IndexFaults&) = delete;

  // A word for launches of one kind, as kernels/watched.h says. Words: "[embedding] expected ids
  // from -1 to 7, token 3 has another".
  int32_t* watch(const char* op, const char* noun, const char* row, int64_t bound, int lowest = -1);
  // Throws the first fault since the last call. The device must be idle.
  void raise();

 private:
  struct Watch {
    const char* op;
    const char* noun;
    const char* row;
    int64_t bound;
    int lowest;
    bool operator==(const Watch&) const = default;  // names are literals: one address each
  };
  static constexpr size_t kMost = 1024;
  int32_t* words_ = nullptr;  // pinned: the device writes them, rarely
  std::vector<Watch> watches_;
};

}  // namespace ridge::backends::cuda
