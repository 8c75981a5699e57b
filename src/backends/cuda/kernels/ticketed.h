// SPDX-License-Identifier: Apache-2.0
// The arguments of a kernel whose blocks count themselves, so that the last one finishes the work.
// tickets.h allocates the counters.
#pragma once

#include <cstdint>

namespace ridge::backends::cuda {

inline constexpr int kTicketWords = 1;  // needed by kernels that use last_blocks.cuh

template <typename Call>
struct Ticketed : Call {
  int32_t* tickets = nullptr;  // zero before and after the launch
};

}  // namespace ridge::backends::cuda
