// SPDX-License-Identifier: Apache-2.0
// A kernel's call whose blocks count themselves, so that the last one finishes for all. Who hands
// the counters out is tickets.h.
#pragma once

#include <cstdint>

namespace ridge::backends::cuda {

inline constexpr int kTicketWords = 1;  // what kernels of last_blocks.cuh take

template <typename Call>
struct Ticketed : Call {
  int32_t* tickets = nullptr;  // zeros, which are zeros again when it is done
};

}  // namespace ridge::backends::cuda
