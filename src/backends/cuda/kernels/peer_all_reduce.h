// SPDX-License-Identifier: Apache-2.0
// Small sums over GPUs that map each other's memory: each GPU stores its tensor into an inbox of
// every other one, and adds up what has arrived, all in one launch.
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/count_up.h"
#include "backends/cuda/kernels/gpu_runtime.h"
#include "backends/kernels/rms_norm.h"
#include "base/dtype.h"

namespace ridge::backends::cuda {

inline constexpr int kMostPeers = 8;

// The inboxes of a group of GPUs, as one of them sees them. An inbox has two turns, of which each
// has a part for every rank; a part is lines of 8 bytes of the tensor, in regions. A line carries
// the number of its call twice, beside either half, so that a reader knows by the line alone that
// it is there: no GPU waits for another but for its data. The calls of a region are counted by
// themselves, and in the GPU's memory, as graphs are replayed.
//
// Two turns are enough. Rank a stores into turn t of rank b again in call n + 2. By then a has
// ended call n + 1, in which it read a line of b; b sent that line after b's call n had ended, so
// b reads turn t no longer. Therefore every block of a call has a line of its region, and sends
// only after wait_for_grids.
struct PeerInboxes {
  static constexpr int kRegions = 64, kLinesOfRegion = 1024, kLineBytes = 16, kDataBytes = 8;
  static constexpr int64_t kMostBytes = int64_t{kRegions} * kLinesOfRegion * kDataBytes;
  static constexpr int64_t kPartBytes = int64_t{kRegions} * kLinesOfRegion * kLineBytes;

  int rank = 0, ranks = 1;
  std::byte* inboxes[kMostPeers] = {};  // [2 turns, ranks, kPartBytes], zeros at first
  uint32_t* calls = nullptr;            // a region's calls, in this GPU's memory, zeros at first
  const uint32_t* stop = nullptr;       // a word of the host: if not 0, nobody waits any longer

  static int64_t inbox_bytes(int ranks) { return 2 * ranks * kPartBytes; }
};

// All ranks make the same calls in the same order; their kernels run one after another.
struct PeerLaunch {
  PeerInboxes peers;
  CollectiveCount count;
};

// Replaces a tensor of f32 or bf16, whose lines are whole, at most kMostBytes, by its sum over the
// ranks times `factor`, with fp32 sums in the order of the ranks: every rank gets the same bits.
cudaError_t launch_peer_all_reduce(const PeerLaunch& call,
                                   std::byte* tensor,
                                   int64_t elements,
                                   DType dtype,
                                   float factor,
                                   cudaStream_t stream);

// Whether launch_peer_add_rms_norm takes rows of this width and number: each fits the threads of a
// block, and all of them the regions.
bool takes_peer_add_rms_norm(int64_t tokens, int64_t width, DType dtype);
// And their alignment.
template <typename T>
bool takes_peer_add_rms_norm(const AddRmsNorm<T>& call);

// launch_add_rms_norm of the sum of x over the ranks, rounded to T as launch_peer_all_reduce stores
// it, in one launch. `sum` has the bits of both in turn; y may be rounded otherwise, since squares
// are added up in another order. x keeps this GPU's summand.
template <typename T>
cudaError_t launch_peer_add_rms_norm(const PeerLaunch& call,
                                     const AddRmsNorm<T>& norm,
                                     cudaStream_t stream);

}  // namespace ridge::backends::cuda
