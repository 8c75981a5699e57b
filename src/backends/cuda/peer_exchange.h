// SPDX-License-Identifier: Apache-2.0
// The GPUs of a group on one host that map each other's memory, for sums of small tensors: where a
// message takes longer to start than to send, one launch of ours takes less time than NCCL's.
#pragma once

#include <memory>

#include "backends/collectives/communicator.h"
#include "backends/cuda/device_memory.h"
#include "backends/cuda/kernels/peer_all_reduce.h"

namespace ridge::backends::cuda {

class PeerExchange {
 public:
  // All ranks of the group call it. Null on all of them if one cannot map the memory of another, as
  // on several hosts.
  static std::unique_ptr<PeerExchange> join(Communicator& host, CollectiveCount& count);
  ~PeerExchange();
  PeerExchange(const PeerExchange&) = delete;

  // Whether all_reduce takes it. The same on every rank.
  bool takes(const Exchanged& tensor) const;
  // As NcclGroup's; add_rms_norm for what takes_peer_add_rms_norm allows.
  void all_reduce(const Exchanged& tensor, bool average, cudaStream_t stream) const;
  template <typename T>
  void add_rms_norm(const AddRmsNorm<T>& call, cudaStream_t stream) const;
  // Ends the waiting of kernels whose ranks have gone; the sums are then wrong.
  void stop() const;

 private:
  PeerExchange(int rank, int ranks, CollectiveCount& count);
  bool map(int rank, const std::string& handle);
  PeerLaunch next_call() const;

  DeviceMemory inbox_, calls_;
  uint32_t* stop_ = nullptr;  // pinned
  PeerInboxes peers_;
  CollectiveCount& count_;
};

}  // namespace ridge::backends::cuda
