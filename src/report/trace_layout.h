// SPDX-License-Identifier: Apache-2.0
// Lays a run's timeline out as the slices of a trace, in whole nanoseconds: what the host did, and
// the kernels on streams. Slices of a stream never overlap, those of the host nest, and none is
// empty. It writes nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "record/run_record.h"

namespace ridge::report {

struct Slice {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
};

struct HostSlice {
  enum class Kind { kAnnotation, kOperation, kCall };
  Kind kind = Kind::kAnnotation;
  std::string name;
  Slice at;
  const record::NodeRecord* node = nullptr;  // for an operation that is one node
  int64_t id = 0;                            // a call has that of its operation
  int64_t correlation = 0;                   // a call's; its kernels have the same
};

struct KernelSlice {
  const record::NodeRecord* node = nullptr;
  const record::DeviceKernel* kernel = nullptr;  // null: the device has no such records
  Slice at;
  int stream = 0;
  int64_t id = 0;           // the operation's that launched it
  int64_t correlation = 0;  // the call's that launched it; 0: unknown
  const std::string& name() const { return kernel == nullptr ? node->op : kernel->name; }
};

struct TraceLayout {
  Slice step;
  std::vector<HostSlice> host;       // by begin; an outer slice comes before its inner ones
  std::vector<KernelSlice> kernels;  // each run's in the order of their begin
};

// The stream of kernels that do not overlap others; kernels that do are on the next streams.
inline constexpr int kFirstStream = 7;

// The slices refer to the record. The numbers of launches begin after `launches_before`, and the
// times at `begin_ns`.
TraceLayout lay_out(const record::RunRecord& run,
                    int64_t launches_before = 0,
                    int64_t begin_ns = 0);

}  // namespace ridge::report
