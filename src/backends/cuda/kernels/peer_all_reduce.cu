// SPDX-License-Identifier: Apache-2.0
// The sum by stores into the other GPUs' inboxes, in lines as NCCL's low-latency protocol has them.
#include "backends/cuda/kernels/peer_all_reduce.h"

#include <algorithm>

#include "backends/cuda/kernels/vector_io.cuh"

namespace ridge::backends::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kLooks = 1 << 14;  // between looks at the host's word, which cross the bus

// Stores of 16 bytes arrive at least in whole halves, so each half has the number beside its data.
__device__ __forceinline__ void store_line(std::byte* at, uint2 data, uint32_t call) {
#ifdef __HIP__
  auto* to = reinterpret_cast<volatile uint64_t*>(at);
  to[0] = data.x | static_cast<uint64_t>(call) << 32;
  to[1] = data.y | static_cast<uint64_t>(call) << 32;
#else
  asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %2};" ::"l"(at), "r"(data.x),
               "r"(call), "r"(data.y)
               : "memory");
#endif
}

// Returns whether the line has arrived.
__device__ __forceinline__ bool load_line(const std::byte* at, uint2& data, uint32_t call) {
#ifdef __HIP__
  const auto* from = reinterpret_cast<const volatile uint64_t*>(at);
  const uint64_t first = from[0], second = from[1];
  data = make_uint2(static_cast<uint32_t>(first), static_cast<uint32_t>(second));
  return first >> 32 == call && second >> 32 == call;
#else
  uint32_t first, second;
  asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(data.x), "=r"(first), "=r"(data.y), "=r"(second)
               : "l"(at)
               : "memory");
  return first == call && second == call;
#endif
}

__device__ __forceinline__ uint2 wait_for_line(const std::byte* at,
                                               uint32_t call,
                                               const volatile uint32_t* stop) {
  uint2 data;
  for (int looks = 1; !load_line(at, data, call); ++looks)
    if (looks % kLooks == 0 && *stop != 0) break;
  return data;
}

// T is float or uint16_t (bf16). Bound: a store over the link, and the wait for the other ranks'.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    peer_all_reduce_kernel(const __grid_constant__ PeerInboxes peers,
                           T* tensor,
                           int64_t lines,
                           int lines_of_block,
                           float factor) {
  constexpr int kOf = PeerInboxes::kDataBytes / static_cast<int>(sizeof(T));
  using Line = Packed<T, kOf>;
  const uint32_t call = peers.calls[blockIdx.x] + 1;
  const int64_t begin = int64_t{blockIdx.x} * lines_of_block;
  const auto count = static_cast<int>(min(lines - begin, int64_t{lines_of_block}));
  const int64_t turn = (call & 1) * peers.ranks * PeerInboxes::kPartBytes +
                       int64_t{blockIdx.x} * PeerInboxes::kLinesOfBlock * PeerInboxes::kLineBytes;
  T* const own = tensor + begin * kOf;
  for (int i = threadIdx.x; i < count; i += kThreads) {
    const Line line = load_packed<kOf>(own + i * kOf);
    const int64_t at = turn + peers.rank * PeerInboxes::kPartBytes + i * PeerInboxes::kLineBytes;
    for (int step = 1; step < peers.ranks; ++step)
      store_line(peers.inboxes[(peers.rank + step) % peers.ranks] + at, line.words[0], call);
  }
  const std::byte* const inbox = peers.inboxes[peers.rank] + turn;
  for (int i = threadIdx.x; i < count; i += kThreads) {
    float sums[kOf] = {};
    for (int rank = 0; rank < peers.ranks; ++rank) {
      Line line;
      if (rank == peers.rank)
        line = load_packed<kOf>(own + i * kOf);
      else
        line.words[0] = wait_for_line(
            inbox + rank * PeerInboxes::kPartBytes + i * PeerInboxes::kLineBytes, call, peers.stop);
      float values[kOf];
      unpack(line, values);
#pragma unroll
      for (int e = 0; e < kOf; ++e) sums[e] += values[e];
    }
#pragma unroll
    for (int e = 0; e < kOf; ++e) sums[e] *= factor;
    store_floats(own + i * kOf, sums);
  }
  __syncthreads();
  if (threadIdx.x == 0) peers.calls[blockIdx.x] = call;
}

template <typename T>
cudaError_t launch(const PeerInboxes& peers,
                   std::byte* tensor,
                   int64_t elements,
                   float factor,
                   cudaStream_t stream) {
  const int64_t lines = elements * static_cast<int64_t>(sizeof(T)) / PeerInboxes::kDataBytes;
  // A line for each thread while there are blocks.
  const auto blocks = static_cast<int>(
      std::clamp<int64_t>((lines + kThreads - 1) / kThreads, 1, PeerInboxes::kBlocks));
  const auto lines_of_block = static_cast<int>((lines + blocks - 1) / blocks);
  peer_all_reduce_kernel<<<blocks, kThreads, 0, stream>>>(peers, reinterpret_cast<T*>(tensor),
                                                          lines, lines_of_block, factor);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_peer_all_reduce(const PeerInboxes& peers,
                                   std::byte* tensor,
                                   int64_t elements,
                                   DType dtype,
                                   float factor,
                                   cudaStream_t stream) {
  if (dtype == DType::kF32) return launch<float>(peers, tensor, elements, factor, stream);
  if (dtype == DType::kBF16) return launch<uint16_t>(peers, tensor, elements, factor, stream);
  return cudaErrorInvalidValue;
}

}  // namespace ridge::backends::cuda
