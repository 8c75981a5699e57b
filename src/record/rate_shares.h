// SPDX-License-Identifier: Apache-2.0
// The shares that a prefill or a decode reaches of the rates that its machine cannot exceed
// (cost/rate_limits.h), and why a share is over 100%.
#pragma once

#include <string>

#include "cost/rate_limits.h"
#include "record/run_record.h"

namespace ridge::record {

// All of them 0 if unknown.
struct RateShares {
  double ops_per_ns = 0;      // 2 x executed MACs over the time
  double of_theoretical = 0;  // the time of these MACs at the theoretical rate, over the time
  double of_multiply = 0;     // the same at the rate of loops that only multiply
  double bytes_per_ns = 0;    // weights and attended KV entries, over the time
  double of_reads = 0;        // MBU: share of the read bandwidth of memory
  // Share of the slower of reading and unpacking each weight; and the rate of unpacking alone.
  double of_read_and_unpack = 0;
  double unpack_bytes_per_ns = 0;
  // Why a share of multiplications, or of reading, is over 100%; empty if none is.
  std::string multiply_reason, read_reason;
};

struct PhaseShares {
  bool is_decode = false;
  RateShares shares;
};

// Work that took `ns`. It reads its weights as often as `amounts` has them, and `cache_bytes` of
// keys and values. `weight_bytes` is the size of the weights: whether they lie in a cache.
struct RatedWork {
  cost::TypedAmounts amounts;
  int64_t cache_bytes = 0;
  int64_t weight_bytes = 0;
  double ns = 0;
};

RateShares rate_shares(const RatedWork& work, const cost::Ceilings& ceilings);
// Rates a run's step; all 0 if it has no time.
RateShares rate_shares(const RunRecord& run, const cost::Ceilings& ceilings);

inline constexpr const char* kMultiplyShareConvention =
    "2 x executed MACs over the time, as a share of what each type's multiplications allow: "
    "theoretical (width of the cores x clock), and measured by loops that only multiply";
inline constexpr const char* kReadShareConvention =
    "the bytes of MBU as a share of what the slower of two rates allows for each type of weight: the "
    "read bandwidth of memory, and a measured loop that only unpacks";

}  // namespace ridge::record
