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

  bool counts() const { return listener_ != nullptr; }
  // As Backend::counted: the collective's kernel counts if it is one of ours, else another one.
  Launch counted(Launch collective, int ended);
  int64_t finished() const override;
  std::string fault() const override;
  void abort() const override;

 private:
  Device& device_;
  // While a counted collective is launched, `ended` is what it counts; a kernel of a small sum
  // takes it over and sets it to 0.
  CollectiveCount count_;
  NcclGroups groups_;
  CollectiveListener* listener_ = nullptr;
  std::unique_ptr<DeviceMemory> memory_;  // count_'s
};

}  // namespace ridge::backends::cuda
