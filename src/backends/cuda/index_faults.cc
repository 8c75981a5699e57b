// SPDX-License-Identifier: Apache-2.0
// Assigns the words and reads them.
#include "backends/cuda/index_faults.h"

#include <algorithm>

#include "backends/cuda/device_error.h"
#include "backends/cuda/kernels/watched.h"
#include "base/error.h"

namespace ridge::backends::cuda {

IndexFaults::IndexFaults() {
  void* words = nullptr;
  check(cudaHostAlloc(&words, kMost * sizeof(int32_t), cudaHostAllocMapped),
        "allocating pinned memory");
  words_ = static_cast<int32_t*>(words);
  std::fill_n(words_, kMost, kNoBadRow);
}

IndexFaults::~IndexFaults() { cudaFreeHost(words_); }

int32_t* IndexFaults::watch(const IndexNames& names, int64_t bound, int lowest) {
  Watch watch{names, bound, lowest};
  auto found = std::find(watches_.begin(), watches_.end(), watch);
  if (found != watches_.end()) return words_ + (found - watches_.begin());
  if (watches_.size() == kMost)
    // Further kinds are not reported: kernels treat an index out of range as padding.
    return nullptr;
  watches_.push_back(watch);
  return words_ + watches_.size() - 1;
}

CacheCells IndexFaults::watch_cells(const char* op, const CacheCells& cells) {
  CacheCells watched = cells;
  if (!cells.is_checked) return watched;
  watched.bad_position = watch({op, "positions", "token"}, cells.most_position + 1);
  watched.bad_slot = watch({op, "slots", "token"}, cells.slot_count, 0);
  watched.bad_block = watch({op, "blocks", "entry of the block table"}, cells.blocks, 0);
  return watched;
}

void IndexFaults::raise() {
  for (size_t i = 0; i < watches_.size(); ++i) {
    int32_t bad = *static_cast<volatile int32_t*>(words_ + i);
    if (bad == kNoBadRow) continue;
    words_[i] = kNoBadRow;
    const Watch& w = watches_[i];
    throw runtime_error("[{}] expected {} from {} to {}, {} {} has another", w.names.op,
                        w.names.noun, w.lowest, w.bound - 1, w.names.row, bad);
  }
}

}  // namespace ridge::backends::cuda
