// SPDX-License-Identifier: Apache-2.0
// Asks the word that the device writes, and NCCL's communicators.
#include "backends/cuda/counted_collectives.h"

#include <utility>

#include "backends/cuda/bind_context.h"
#include "backends/cuda/device_error.h"
#include "backends/cuda/kernels/count_up.h"

namespace ridge::backends::cuda {

CountedCollectives::CountedCollectives(Device& device, const Groups* groups)
    : device_(device), groups_(join_nccl(groups, count_)) {}

CountedCollectives::~CountedCollectives() {
  if (listener_ == nullptr) return;
  listener_->watch(nullptr);
  cudaFreeHost(count_.seen);
}

void CountedCollectives::tell(CollectiveListener* listener) {
  if (groups_.empty() || listener == nullptr) return;
  memory_ = std::make_unique<DeviceMemory>(2 * sizeof(int64_t), "a count of collectives");
  count_.count = reinterpret_cast<int64_t*>(memory_->data());
  count_.blocks = reinterpret_cast<uint32_t*>(count_.count + 1);
  void* seen = nullptr;
  check(cudaHostAlloc(&seen, sizeof(int64_t), cudaHostAllocMapped), "allocating pinned memory");
  count_.seen = static_cast<int64_t*>(seen);
  *count_.seen = 0;
  listener_ = listener;
  listener_->watch(this);
}

Launch CountedCollectives::counted(Launch collective, int ended) {
  return [this, collective = std::move(collective), ended] {
    struct Reset {
      int64_t& ended;
      ~Reset() { ended = 0; }
    };
    count_.ended = ended;
    const Reset reset{count_.ended};
    collective();
    if (count_.ended != 0) check(launch_count_up(count_, device_.stream()), "counting collectives");
  };
}

int64_t CountedCollectives::finished() const {
  return *static_cast<volatile int64_t*>(count_.seen);
}

std::string CountedCollectives::fault() const {
  for (const auto& [name, group] : groups_)
    if (const std::string found = group->fault(); !found.empty()) return found;
  return "";
}

// NCCL's abort of one group may wait for the device, where a sum of another one waits.
void CountedCollectives::abort() const {
  for (const auto& [name, group] : groups_) group->stop_sums();
  for (const auto& [name, group] : groups_) group->abort();
}

}  // namespace ridge::backends::cuda
