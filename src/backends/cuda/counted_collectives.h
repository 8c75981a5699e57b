// SPDX-License-Identifier: Apache-2.0
// The collectives that run on the GPU as the rank's watch sees them: how many have ended, and what
// NCCL reports.
#pragma once

#include <memory>
#include <string>

#include "backends/backend.h"
#include "backends/cuda/device.h"
#include "backends/cuda/device_memory.h"
#include "backends/cuda/nccl.h"

namespace ridge::backends::cuda {

class CountedCollectives final : public DeviceExchange {
 public:
  // Joins the groups; null: this process runs alone.
  CountedCollectives(Device& device, const Groups* groups);
  ~CountedCollectives() override;
  CountedCollectives(const CountedCollectives&) = delete;

  const NcclGroups& groups() const { return groups_; }
  // The listener watches this from now on; without groups there is nothing to watch.
  void tell(CollectiveListener* listener);

  // Counts that `ended` collectives of the stream have ended.
  // Null if nobody watches.
  Launch count(int ended) const;
  int64_t finished() const override;
  std::string fault() const override;
  void abort() const override;

 private:
  Device& device_;
  NcclGroups groups_;
  CollectiveListener* listener_ = nullptr;
  std::unique_ptr<DeviceMemory> count_;
  int64_t* seen_ = nullptr;  // pinned: the device writes it
};

}  // namespace ridge::backends::cuda
