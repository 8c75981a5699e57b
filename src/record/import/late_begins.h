// SPDX-License-Identifier: Apache-2.0
// Steps whose first kernels wait for work that the trace does not have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace ridge::record {

struct LaunchedKernel {
  int64_t begin_ns = 0, end_ns = 0;
  int64_t launched_ns = 0;  // the end of the call that launched it
  int32_t step = -1;        // during which that call was made; -1: none
};

// By step, when its kernels begin in earnest, where that is later than the device was free by the
// trace: a device that leaves a launched kernel waiting, but runs no kernel of the trace, is busy
// with one that the trace does not have. Only while nearly all of a step is still to come.
std::map<int32_t, int64_t> late_begins(std::vector<LaunchedKernel> kernels, size_t steps);

// A kernel that begins so long after its launch waited for others.
inline constexpr int64_t kLongestLaunchNs = 1'000'000;

}  // namespace ridge::record
