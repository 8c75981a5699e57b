// SPDX-License-Identifier: Apache-2.0
// Maps inboxes by CUDA's handles for other processes.
#include "backends/cuda/peer_exchange.h"

#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "backends/cuda/device_error.h"

namespace ridge::backends::cuda {
namespace {

// With more ranks each stores its tensor more often, and the sum of NCCL's rings is sooner there.
constexpr int64_t kMostStoredBytes = PeerInboxes::kMostBytes;

// What the ranks of a group must have in common to map memory.
std::string host_name() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace

PeerExchange::PeerExchange(int rank, int ranks)
    : inbox_(PeerInboxes::inbox_bytes(ranks), "the inbox of sums"),
      calls_(PeerInboxes::kBlocks * sizeof(uint32_t), "counts of sums") {
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

std::unique_ptr<PeerExchange> PeerExchange::join(Communicator& host) {
  if (host.size() > kMostPeers) return nullptr;
  std::unique_ptr<PeerExchange> made(new PeerExchange(host.rank(), host.size()));
  cudaIpcMemHandle_t own;
  const bool can_share = cudaIpcGetMemHandle(&own, made->inbox_.data()) == cudaSuccess;
  if (!can_share) cudaGetLastError();
  const std::string name = host_name();
  std::string text = can_share ? std::string(reinterpret_cast<const char*>(&own), sizeof own) : "";
  check(cudaDeviceSynchronize(), "clearing the inbox of sums");
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

void PeerExchange::all_reduce(const Exchanged& tensor, bool average, cudaStream_t stream) const {
  const float factor = average ? 1.0F / static_cast<float>(peers_.ranks) : 1.0F;
  check(launch_peer_all_reduce(peers_, tensor.data, tensor.elements, tensor.dtype, factor, stream),
        "all_reduce");
}

void PeerExchange::abort() const { *static_cast<volatile uint32_t*>(stop_) = 1; }

}  // namespace ridge::backends::cuda
