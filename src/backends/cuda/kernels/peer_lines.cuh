// SPDX-License-Identifier: Apache-2.0
// The lines of PeerInboxes, as NCCL's low-latency protocol has them: stores into another GPU's
// memory, and the wait for what another GPU stores into one's own.
#pragma once

#include "backends/cuda/kernels/gpu_dialect.cuh"
#include "backends/cuda/kernels/peer_all_reduce.h"
#include "backends/cuda/kernels/vector_io.cuh"

namespace ridge::backends::cuda {

// Elements of a line.
template <typename T>
inline constexpr int kLineOf = PeerInboxes::kDataBytes / static_cast<int>(sizeof(T));
template <typename T>
using PeerLine = Packed<T, kLineOf<T>>;

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
  constexpr int kLooks = 1 << 14;  // between looks at the host's word, which cross the bus
  uint2 data;
  for (int looks = 1; !load_line(at, data, call); ++looks)
    if (looks % kLooks == 0 && *stop != 0) break;
  return data;
}

// A line of a region in one of its calls.
struct PeerCall {
  uint32_t number;  // the call's, from 1
  int64_t at;       // bytes from an inbox to the line in rank 0's part of the call's turn
};

__device__ __forceinline__ PeerCall peer_call(const PeerInboxes& peers, int region, int line) {
  const uint32_t number = peers.calls[region] + 1;
  return {number,
          (number & 1) * peers.ranks * PeerInboxes::kPartBytes +
              (int64_t{region} * PeerInboxes::kLinesOfRegion + line) * PeerInboxes::kLineBytes};
}

// Stores a line of this GPU's tensor into every other GPU's inbox.
template <typename T>
__device__ __forceinline__ void send_line(const PeerInboxes& peers,
                                          const PeerCall& call,
                                          const PeerLine<T>& line) {
  for (int step = 1; step < peers.ranks; ++step)
    store_line(peers.inboxes[(peers.rank + step) % peers.ranks] + call.at +
                   peers.rank * PeerInboxes::kPartBytes,
               line.words[0], call.number);
}

// Adds up the lines of all GPUs, in the order of the ranks.
template <typename T>
__device__ __forceinline__ void sum_lines(const PeerInboxes& peers,
                                          const PeerCall& call,
                                          const PeerLine<T>& own,
                                          float (&sums)[kLineOf<T>]) {
#pragma unroll
  for (int e = 0; e < kLineOf<T>; ++e) sums[e] = 0;
  for (int rank = 0; rank < peers.ranks; ++rank) {
    PeerLine<T> line = own;
    if (rank != peers.rank)
      line.words[0] =
          wait_for_line(peers.inboxes[peers.rank] + call.at + rank * PeerInboxes::kPartBytes,
                        call.number, peers.stop);
    float values[kLineOf<T>];
    unpack(line, values);
#pragma unroll
    for (int e = 0; e < kLineOf<T>; ++e) sums[e] += values[e];
  }
}

}  // namespace ridge::backends::cuda
