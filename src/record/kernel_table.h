// SPDX-License-Identifier: Apache-2.0
// The kernels of a profiled step by name, as profilers list them. Tables by op and scope are in
// operation_table.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "record/run_record.h"

namespace ridge::record {

// The kernels of one name in the step with the median wall time. Where the device has no records of
// its kernels, as on a CPU, a kernel has the name of its op.
struct KernelRow {
  std::string name;
  std::string op;  // "matmul", or "matmul, add" where several ops use it
  int64_t calls = 0;
  double total_ns = 0, least_ns = 0, most_ns = 0;
  double share = 0;  // part of the time of all kernels

  double mean_ns() const { return ratio(total_ns, calls); }
};

// Those with the longest total first.
std::vector<KernelRow> kernel_rows(const StepRecord& step);

}  // namespace ridge::record
