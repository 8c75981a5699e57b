// SPDX-License-Identifier: Apache-2.0
// Goes through all kernels in order of their begin.
#include "record/import/late_begins.h"

#include <algorithm>

namespace ridge::record {

std::map<int32_t, int64_t> late_begins(std::vector<LaunchedKernel> kernels, size_t steps) {
  constexpr int64_t kShare = 100;  // the kernels before take no more than a hundredth
  std::ranges::stable_sort(kernels, {}, &LaunchedKernel::begin_ns);
  std::vector<int64_t> total_ns(steps, 0), before_ns(steps, 0);
  for (const LaunchedKernel& each : kernels)
    if (each.step >= 0) total_ns[static_cast<size_t>(each.step)] += each.end_ns - each.begin_ns;
  std::map<int32_t, int64_t> begins;
  int64_t device_ns = INT64_MIN;  // until then the device ran kernels of the trace
  for (const LaunchedKernel& each : kernels) {
    if (each.step >= 0) {
      const auto step = static_cast<size_t>(each.step);
      const int64_t free_ns = std::max(device_ns, each.launched_ns);
      if (device_ns > INT64_MIN && each.begin_ns - free_ns > kLongestLaunchNs &&
          before_ns[step] < total_ns[step] / kShare)
        begins[each.step] = each.begin_ns;
      before_ns[step] += each.end_ns - each.begin_ns;
    }
    device_ns = std::max(device_ns, each.end_ns);
  }
  return begins;
}

}  // namespace ridge::record
