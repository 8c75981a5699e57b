// SPDX-License-Identifier: Apache-2.0
// Collectives between GPUs by NCCL, which is opened at run time, and small sums by peer_exchange.h.
// A process that runs alone needs none.
#pragma once

#include <cuda_runtime.h>

#include <map>
#include <memory>
#include <span>
#include <string>

#include "backends/collectives/communicator.h"
#include "backends/cuda/peer_exchange.h"

namespace ridge::backends::cuda {

struct NcclComm;  // NCCL's own

// A group of GPUs, one a rank. Calls may be captured; all ranks make the same ones in one order.
class NcclGroup {
 public:
  // Joins the ranks that `host` reaches; all of them call it. Kernels of small sums count by
  // `count` (PeerExchange::next_call).
  NcclGroup(Communicator& host, CollectiveCount& count);
  ~NcclGroup();
  NcclGroup(const NcclGroup&) = delete;

  int size() const { return size_; }
  std::string fault() const;  // a collective failed after it was launched; empty: none did
  void stop_sums() const;     // ends the waiting of small sums, of all groups before an abort
  void abort() const;         // ends NCCL's collectives that are under way
  // Adds up each tensor over the ranks in place, or averages it, as one kernel.
  void all_reduce(std::span<const Exchanged> tensors, bool average, cudaStream_t stream) const;
  // add_rms_norm of the sum of x over the ranks: one kernel for small tensors, else three.
  template <typename T>
  void add_rms_norm(const AddRmsNorm<T>& norm, cudaStream_t stream) const;
  // As Communicator's, each as one kernel.
  void all_gather(std::span<const Divided> tensors, cudaStream_t stream) const;
  void reduce_scatter(std::span<const Divided> tensors, bool average, cudaStream_t stream) const;
  // In a group of two, to and from the other GPU; a send ends when the other one receives.
  void send(const Exchanged& tensor, cudaStream_t stream) const;
  void receive(const Exchanged& tensor, cudaStream_t stream) const;

 private:
  int rank_, size_;
  NcclComm* comm_ = nullptr;
  std::unique_ptr<PeerExchange> peers_;  // null: they cannot map each other's memory
};
using NcclGroups = std::map<std::string, std::unique_ptr<NcclGroup>, std::less<>>;

// Joins the groups, with this process's GPU. All of their ranks call it. Throws a device Error if
// NCCL is missing or older than 2.27. None for null. `count` must outlive them.
NcclGroups join_nccl(const Groups* groups, CollectiveCount& count);

}  // namespace ridge::backends::cuda
