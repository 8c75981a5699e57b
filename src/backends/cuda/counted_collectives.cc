// SPDX-License-Identifier: Apache-2.0
// Asks the word that the device writes, and NCCL's communicators.
#include "backends/cuda/counted_collectives.h"

#include "backends/cuda/bind_context.h"
#include "backends/cuda/device_error.h"
#include "backends/cuda/kernels/count_up.h"

namespace ridge::backends::cuda {

CountedCollectives::CountedCollectives(Device& device, const Groups* groups)
    : device_(device), groups_(join_nccl(groups)) {}

CountedCollectives::~CountedCollectives() {
  if (listener_ == nullptr) return;
  listener_->watch(nullptr);
  cudaFreeHost(seen_);
}

void CountedCollectives::tell(CollectiveListener* listener) {
  if (groups_.empty() || listener == nullptr) return;
  count_ = std::make_unique<DeviceMemory>(sizeof(int64_t), "a count of collectives");
  void* seen = nullptr;
  check(cudaHostAlloc(&seen, sizeof(int64_t), cudaHostAllocMapped), "allocating pinned memory");
  seen_ = static_cast<int64_t*>(seen);
  *seen_ = 0;
  listener_ = listener;
  listener_->watch(this);
}

Launch CountedCollectives::count(int ended) const {
  if (listener_ == nullptr) return nullptr;
  return launch_on(device_, "counting collectives", launch_count_up,
                   reinterpret_cast<int64_t*>(count_->data()), seen_, int64_t{ended});
}

int64_t CountedCollectives::finished() const { return *static_cast<volatile int64_t*>(seen_); }

std::string CountedCollectives::fault() const {
  for (const auto& [name, group] : groups_)
    if (const std::string found = group->fault(); !found.empty()) return found;
  return "";
}

void CountedCollectives::abort() const {
  for (const auto& [name, group] : groups_) group->abort();
}

}  // namespace ridge::backends::cuda
