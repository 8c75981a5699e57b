// SPDX-License-Identifier: Apache-2.0
// Maps inboxes by CUDA's handles for other processes.
#include "backends/cuda/peer_exchange.h"

#include <cstring>
#include <string>
#include <vector>

#include "backends/cuda/device_error.h"
#include "base/host_name.h"

namespace ridge::backends::cuda {
namespace {

// A GPU stores so many bytes in all. Two GPUs were measured
// (docs/runs/2026-11-29-two-gpus-decode-h200.md).
constexpr int64_t kMostStoredBytes = PeerInboxes::kMostBytes;

}  // namespace

PeerExchange::PeerExchange(int rank, int ranks, CollectiveCount& count)
    : inbox_(PeerInboxes::inbox_bytes(ranks), "the inbox of sums"),
      calls_(PeerInboxes::kRegions * sizeof(uint32_t), "counts of sums"),
      count_(count) {
  void* stop = nullptr;
  check(cudaHostAlloc(&stop, sizeof(uint32_t), cudaHostAllocMapped), "allocating pinned memory");
  stop_ = static_cast<uint32_t*>(stop);
  *stop_ = 0;
  peers_.rank = rank, peers_.ranks = ranks;
  peers_.inboxes[rank] = inbox_.data();
  peers_.calls = reinterpret_cast<uint32_t*>(calls_.data());
  peers_.stop = stop_;
}

PeerExchange::~PeerExchange() {
  for (int rank = 0; rank < peers_.ranks; ++rank)
    if (rank != peers_.rank && peers_.inboxes[rank] != nullptr)
      cudaIpcCloseMemHandle(peers_.inboxes[rank]);
  cudaFreeHost(stop_);
}

bool PeerExchange::map(int rank, const std::string& handle) {
  cudaIpcMemHandle_t given;
  void* mapped = nullptr;
  std::memcpy(&given, handle.data(), sizeof given);
  if (cudaIpcOpenMemHandle(&mapped, given, cudaIpcMemLazyEnablePeerAccess) != cudaSuccess) {
    cudaGetLastError();  // or a later check would report it
    return false;
  }
  peers_.inboxes[rank] = static_cast<std::byte*>(mapped);
  return true;
}

std::unique_ptr<PeerExchange> PeerExchange::join(Communicator& host, CollectiveCount& count) {
  if (host.size() > kMostPeers) return nullptr;
  std::unique_ptr<PeerExchange> made(new PeerExchange(host.rank(), host.size(), count));
  cudaIpcMemHandle_t own;
  const bool can_share = cudaIpcGetMemHandle(&own, made->inbox_.data()) == cudaSuccess;
  if (!can_share) cudaGetLastError();
  const std::string name = host_name();
  std::string text = can_share ? std::string(reinterpret_cast<const char*>(&own), sizeof own) : "";
  const std::vector<std::string> all = host.gather(text + name);
  bool is_mapped = can_share;
  for (int rank = 0; is_mapped && rank < host.size(); ++rank) {
    const std::string& each = all[static_cast<size_t>(rank)];
    is_mapped = each.size() == sizeof own + name.size() && each.substr(sizeof own) == name &&
                (rank == host.rank() || made->map(rank, each));
  }
  return host.any(!is_mapped) ? nullptr : std::move(made);
}

bool PeerExchange::takes(const Exchanged& tensor) const {
  const int64_t bytes = storage_bytes(tensor.dtype, tensor.elements);
  return (tensor.dtype == DType::kF32 || tensor.dtype == DType::kBF16) && bytes > 0 &&
         bytes * (peers_.ranks - 1) <= kMostStoredBytes && bytes % PeerInboxes::kDataBytes == 0 &&
         reinterpret_cast<uintptr_t>(tensor.data) % PeerInboxes::kDataBytes == 0;
}

// Its kernel counts what is to be counted now.
PeerLaunch PeerExchange::next_call() const {
  const PeerLaunch call{peers_, count_};
  count_.ended = 0;
  return call;
}

template <typename T>
void PeerExchange::add_rms_norm(const AddRmsNorm<T>& call, cudaStream_t stream) const {
  check(launch_peer_add_rms_norm(next_call(), call, stream), "all_reduce_add_rms_norm");
}

template void PeerExchange::add_rms_norm(const AddRmsNorm<float>&, cudaStream_t) const;
template void PeerExchange::add_rms_norm(const AddRmsNorm<uint16_t>&, cudaStream_t) const;

void PeerExchange::all_reduce(const Exchanged& tensor, bool average, cudaStream_t stream) const {
  const float factor = average ? 1.0F / static_cast<float>(peers_.ranks) : 1.0F;
  check(launch_peer_all_reduce(next_call(), tensor.data, tensor.elements, tensor.dtype, factor,
                               stream),
        "all_reduce");
}

void PeerExchange::stop() const { *static_cast<volatile uint32_t*>(stop_) = 1; }

}  // namespace ridge::backends::cuda
