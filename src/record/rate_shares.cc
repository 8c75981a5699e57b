// SPDX-License-Identifier: Apache-2.0
// Shares are least time / time, so amounts of several types add up.
#include "record/rate_shares.h"

#include <algorithm>

namespace ridge::record {
namespace {

std::string multiply_reason(const RateShares& shares, const cost::Ceilings& ceilings) {
  if (shares.of_multiply > 1)
    return "the measured rate of multiplications is too low; measure it again with ridge machine "
           "--remeasure";
  if (!(shares.of_theoretical > 1)) return "";
  return ceilings.is_measured()
             ? "the clock was higher than when it was measured, or the cores are wider than the "
               "table of core widths says"
             : "the data sheet's rate is exceeded";
}

}  // namespace

RateShares rate_shares(const RatedWork& work, const cost::Ceilings& ceilings) {
  RateShares shares;
  if (!(work.ns > 0)) return shares;
  const auto bytes = static_cast<double>(work.amounts.all_weight_bytes() + work.cache_bytes);
  shares.ops_per_ns = 2 * static_cast<double>(work.amounts.all_macs()) / work.ns;
  shares.of_theoretical = cost::theoretical_multiply_ns(work.amounts, ceilings) / work.ns;
  shares.of_multiply = cost::multiply_only_ns(work.amounts, ceilings) / work.ns;
  shares.bytes_per_ns = bytes / work.ns;
  const double reads = ceilings.mbu_reference().per_ns;
  if (reads > 0) shares.of_reads = shares.bytes_per_ns / reads;
  shares.of_read_and_unpack =
      cost::read_and_unpack_ns(work.amounts, work.cache_bytes, ceilings) / work.ns;
  if (const double unpack_ns = cost::unpack_only_ns(work.amounts, ceilings); unpack_ns > 0)
    shares.unpack_bytes_per_ns = static_cast<double>(work.amounts.all_weight_bytes()) / unpack_ns;
  shares.multiply_reason = multiply_reason(shares, ceilings);
  shares.read_reason = over_memory_reason(std::max(shares.of_reads, shares.of_read_and_unpack),
                                          work.weight_bytes, ceilings);
  return shares;
}

RateShares rate_shares(const RunRecord& run, const cost::Ceilings& ceilings) {
  return rate_shares({run.amounts, run.cache_bytes, run.weight_bytes, run.step_ns()}, ceilings);
}

}  // namespace ridge::record
