// SPDX-License-Identifier: Apache-2.0
// Binds NCCL's functions by name. The declarations follow nccl.h, whose interface is stable.
#include "backends/cuda/nccl.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>

#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/device_error.h"
#include "backends/cuda/kernels/rms_norm/rms_norm.h"
#include "backends/cuda/shared_library.h"
#include "base/error.h"

namespace ridge::backends::cuda {
namespace {

struct UniqueId {
  char bytes[128];
};
using Comm = NcclComm*;
enum Result : int { kSuccess = 0, kInProgress = 7 };
enum DataType : int { kBytes = 1, kFloat16 = 6, kFloat32 = 7, kBfloat16 = 9 };
enum Reduction : int { kSum = 0, kAverage = 4 };

constexpr int kLeastVersion = 22700;  // 2.27

struct Library {
  Library() : library("libnccl.so.2") {
    if (!library.is_open())
      throw Error(
          fmt::format("[nccl] expected libnccl.so.2 (2.27 or newer), got: {}", library.failure()),
          ExitCode::kDevice);
    library.find(get_version, "ncclGetVersion"), library.find(get_unique_id, "ncclGetUniqueId");
    library.find(init_rank, "ncclCommInitRank");
    library.find(async_error, "ncclCommGetAsyncError"), library.find(abort, "ncclCommAbort");
    library.find(all_reduce, "ncclAllReduce");
    library.find(all_gather, "ncclAllGather"), library.find(reduce_scatter, "ncclReduceScatter");
    library.find(send, "ncclSend"), library.find(receive, "ncclRecv");
    library.find(group_start, "ncclGroupStart"), library.find(group_end, "ncclGroupEnd");
    library.find(error_string, "ncclGetErrorString");
    if (!library.missing().empty())
      throw Error(fmt::format("[nccl] libnccl.so.2 has no {}", library.missing()),
                  ExitCode::kDevice);
    check(get_version(&version), "ncclGetVersion");
    if (version < kLeastVersion)
      throw Error(fmt::format("[nccl] expected NCCL 2.27 or newer, got {}", text()),
                  ExitCode::kDevice);
  }
  std::string text() const {
    return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
  }
  void check(Result result, const char* what) const {
    if (result != kSuccess && result != kInProgress)
      throw Error(fmt::format("[nccl] {}: {}", what, error_string(result)), ExitCode::kDevice);
  }

  SharedLibrary library;
  int version = 0;
  Result (*get_version)(int*) = nullptr;
  Result (*get_unique_id)(UniqueId*) = nullptr;
  Result (*init_rank)(Comm*, int ranks, UniqueId, int rank) = nullptr;
  Result (*abort)(Comm) = nullptr;
  Result (*async_error)(Comm, Result*) = nullptr;
  Result (*all_reduce)(const void*, void*, size_t, DataType, Reduction, Comm, cudaStream_t) =
      nullptr;
  Result (*all_gather)(const void*, void*, size_t, DataType, Comm, cudaStream_t) = nullptr;
  Result (*reduce_scatter)(const void*, void*, size_t, DataType, Reduction, Comm, cudaStream_t) =
      nullptr;
  Result (*send)(const void*, size_t, DataType, int peer, Comm, cudaStream_t) = nullptr;
  Result (*receive)(void*, size_t, DataType, int peer, Comm, cudaStream_t) = nullptr;
  Result (*group_start)() = nullptr;
  Result (*group_end)() = nullptr;
  const char* (*error_string)(Result) = nullptr;
};

const Library& nccl() {
  static const Library library;
  return library;
}

DataType type_of(DType dtype) {
  if (dtype == DType::kF32) return kFloat32;
  if (dtype == DType::kBF16) return kBfloat16;
  RIDGE_CHECK(dtype == DType::kF16, "NCCL exchanges no {}", name(dtype));
  return kFloat16;
}

}  // namespace

NcclGroup::NcclGroup(Communicator& host, CollectiveCount& count)
    : rank_(host.rank()), size_(host.size()) {
  UniqueId id{};
  if (host.rank() == 0) nccl().check(nccl().get_unique_id(&id), "ncclGetUniqueId");
  const std::vector<std::string> all =
      host.gather(host.rank() == 0 ? std::string(id.bytes, sizeof id.bytes) : std::string());
  std::memcpy(id.bytes, all[0].data(), sizeof id.bytes);
  nccl().check(nccl().init_rank(&comm_, size_, id, host.rank()), "joining the other GPUs");
  peers_ = PeerExchange::join(host, count);
}

// Destroying would wait for the other ranks, which may never come after an Error.
NcclGroup::~NcclGroup() {
  stop_sums();
  nccl().abort(comm_);
}

void NcclGroup::all_reduce(std::span<const Exchanged> tensors,
                           bool average,
                           cudaStream_t stream) const {
  if (peers_ != nullptr && tensors.size() == 1 && peers_->takes(tensors[0]))
    return peers_->all_reduce(tensors[0], average, stream);
  nccl().check(nccl().group_start(), "all_reduce");
  for (const Exchanged& each : tensors)
    nccl().check(nccl().all_reduce(each.data, each.data, static_cast<size_t>(each.elements),
                                   type_of(each.dtype), average ? kAverage : kSum, comm_, stream),
                 "all_reduce");
  nccl().check(nccl().group_end(), "all_reduce");
}

template <typename T>
void NcclGroup::add_rms_norm(const AddRmsNorm<T>& call, cudaStream_t stream) const {
  constexpr DType kType = sizeof(T) == sizeof(float) ? DType::kF32 : DType::kBF16;
  const Exchanged sum{reinterpret_cast<std::byte*>(call.sum.data),
                      call.norm.tokens * call.norm.width, kType};
  if (peers_ != nullptr && peers_->takes(sum) && takes_peer_add_rms_norm(call))
    return peers_->add_rms_norm(call, stream);
  check(cudaMemcpyAsync(sum.data, call.norm.x.data,
                        static_cast<size_t>(storage_bytes(kType, sum.elements)),
                        cudaMemcpyDeviceToDevice, stream),
        "copying a summand");
  all_reduce({&sum, 1}, false, stream);
  RmsNorm<T> norm = call.norm;
  norm.x = call.sum;
  check(launch_add_rms_norm<T>(norm, call.residual, call.sum, stream), "add_rms_norm");
}

template void NcclGroup::add_rms_norm(const AddRmsNorm<float>&, cudaStream_t) const;
template void NcclGroup::add_rms_norm(const AddRmsNorm<uint16_t>&, cudaStream_t) const;

void NcclGroup::all_gather(std::span<const Divided> tensors, cudaStream_t stream) const {
  nccl().check(nccl().group_start(), "all_gather");
  for (const Divided& each : tensors)
    nccl().check(nccl().all_gather(each.part, each.whole, static_cast<size_t>(each.part_bytes()),
                                   kBytes, comm_, stream),
                 "all_gather");
  nccl().check(nccl().group_end(), "all_gather");
}

void NcclGroup::reduce_scatter(std::span<const Divided> tensors,
                               bool average,
                               cudaStream_t stream) const {
  nccl().check(nccl().group_start(), "reduce_scatter");
  for (const Divided& each : tensors)
    nccl().check(
        nccl().reduce_scatter(each.whole, each.part, static_cast<size_t>(each.elements),
                              type_of(each.dtype), average ? kAverage : kSum, comm_, stream),
        "reduce_scatter");
  nccl().check(nccl().group_end(), "reduce_scatter");
}

void NcclGroup::send(const Exchanged& tensor, cudaStream_t stream) const {
  const auto bytes = static_cast<size_t>(storage_bytes(tensor.dtype, tensor.elements));
  nccl().check(nccl().send(tensor.data, bytes, kBytes, 1 - rank_, comm_, stream), "send");
}

void NcclGroup::receive(const Exchanged& tensor, cudaStream_t stream) const {
  const auto bytes = static_cast<size_t>(storage_bytes(tensor.dtype, tensor.elements));
  nccl().check(nccl().receive(tensor.data, bytes, kBytes, 1 - rank_, comm_, stream), "receive");
}

std::string NcclGroup::fault() const {
  Result result = kSuccess;
  nccl().async_error(comm_, &result);
  if (result == kSuccess || result == kInProgress) return "";
  return fmt::format("NCCL reports: {}", nccl().error_string(result));
}

void NcclGroup::stop_sums() const {
  if (peers_ != nullptr) peers_->stop();
}

void NcclGroup::abort() const { nccl().abort(comm_); }

std::string nccl_version() { return "NCCL " + nccl().text(); }

NcclGroups join_nccl(const Groups* groups, CollectiveCount& count) {
  NcclGroups joined;
  if (groups == nullptr) return joined;
  // A program that uses NVLink's multicast wrongly can put the GPUs of a host out of service.
  ::setenv("NCCL_NVLS_ENABLE", "0", 1);
  for (const auto& [name, host] : *groups) joined[name] = std::make_unique<NcclGroup>(*host, count);
  return joined;
}

}  // namespace ridge::backends::cuda
