// SPDX-License-Identifier: Apache-2.0
// Compares the rates of ops with the peaks of GEMMs and of memory.
#include "record/beaten_ceilings.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/units.h"
#include "cost/predict.h"
#include "record/operation_table.h"

namespace ridge::record {
namespace {

constexpr double kLeastShare = 0.01;  // shorter ops of a step are mostly noise

struct OpAmounts {
  int64_t ns = 0;
  double flops = 0;  // MACs alone count
  double bytes = 0;  // without the part that a cache can hold

  double per_ns(double amount) const { return ratio(amount, ns); }
};

std::map<std::string, OpAmounts> amounts_by_op(const StepRecord& step, int64_t cache_bytes) {
  std::map<std::string, OpAmounts> ops;
  for (const NodeRecord& node : step.nodes) {
    OpAmounts& op = ops[node.op];
    op.ns += node.exclusive_ns;
    op.flops += 2 * static_cast<double>(node.work.macs);
    const int64_t beyond =
        node.read_bytes + node.written_bytes - std::max<int64_t>(node.calls, 1) * cache_bytes;
    op.bytes += static_cast<double>(std::max<int64_t>(beyond, 0));
  }
  std::erase_if(ops, [&](const auto& each) {
    return static_cast<double>(each.second.ns) < kLeastShare * static_cast<double>(step.wall_ns);
  });
  return ops;
}

double fastest_memory(const cost::Ceilings& ceilings) {
  return std::max(ceilings.memory_reads_per_ns(), ceilings.memory_bytes_per_ns());
}

std::vector<BeatenCeiling> beaten_of(std::vector<BeatenCeiling> reached) {
  std::erase_if(reached, [](const BeatenCeiling& each) {
    return each.reached_per_ns <= kCeilingSlack * each.ceiling_per_ns;
  });
  return reached;
}

}  // namespace

std::string BeatenCeiling::str() const {
  const char* unit = is_memory ? "B/s" : "FLOP/s";
  const std::string what =
      is_memory ? "memory's bandwidth" : fmt::format("the {} peak", name(dtype));
  return fmt::format("{} reached {}, above {} of {}", op, format_rate(1e9 * reached_per_ns, unit),
                     what, format_rate(1e9 * ceiling_per_ns, unit));
}

std::vector<BeatenCeiling> beaten_ceilings(const StepRecord& step,
                                           DType dtype,
                                           const cost::Ceilings& ceilings) {
  if (!ceilings.is_measured()) return {};
  BeatenCeiling gemms{"", dtype, false, 0, ceilings.peak_flops_per_ns(dtype)},
      memory{"", dtype, true, 0, fastest_memory(ceilings)};
  auto raise = [](BeatenCeiling& ceiling, const std::string& op, double per_ns) {
    if (per_ns <= ceiling.reached_per_ns) return;
    ceiling.op = op;
    ceiling.reached_per_ns = per_ns;
  };
  for (const auto& [op, amounts] : amounts_by_op(step, ceilings.last_cache_bytes())) {
    raise(gemms, op, amounts.per_ns(amounts.flops));
    raise(memory, op, amounts.per_ns(amounts.bytes));
  }
  return beaten_of({gemms, memory});
}

std::vector<BeatenCeiling> beaten_ceilings(const std::string& name,
                                           const RatedWork& work,
                                           const cost::Ceilings& ceilings) {
  if (!ceilings.is_measured() || !(work.ns > 0) || work.weight_bytes <= 0) return {};
  // Each run reads all weights once, of which the last cache may hold a part.
  const int64_t weights = work.amounts.all_weight_bytes();
  const double runs = static_cast<double>(weights) / static_cast<double>(work.weight_bytes);
  const double beyond = static_cast<double>(weights + work.cache_bytes) -
                        runs * static_cast<double>(ceilings.last_cache_bytes());
  std::vector<BeatenCeiling> reached{
      {name, DType::kF32, true, beyond / work.ns, fastest_memory(ceilings)}};
  if (work.amounts.macs.size() == 1) {
    const auto& [dtype, macs] = *work.amounts.macs.begin();
    if (ceilings.product(dtype).dtype == dtype)
      reached.push_back({name, dtype, false, 2 * static_cast<double>(macs) / work.ns,
                         ceilings.peak_flops_per_ns(dtype)});
  }
  return beaten_of(std::move(reached));
}

cost::Ceilings raised(cost::Ceilings ceilings, std::span<const BeatenCeiling> beaten) {
  for (const BeatenCeiling& each : beaten) {
    auto raise = [&](double& per_ns) { per_ns = std::max(per_ns, each.reached_per_ns); };
    if (each.is_memory) {
      auto raise_both = [&](auto& rates) {
        raise(rates.read_bytes_per_ns);
        raise(rates.copy_bytes_per_ns);
      };
      // Caches are at least as fast as memory.
      for (cost::BandwidthPoint& point : ceilings.bandwidth) raise_both(point);
      for (cost::MemoryLevel& level : ceilings.levels) raise_both(level);
      continue;
    }
    for (cost::ProductRates& rates : ceilings.products)
      if (&rates == &ceilings.product(each.dtype)) raise(rates.peak_flops_per_ns);
  }
  return ceilings;
}

RooflineVerdict roofline_verdict(const StepRecord& step,
                                 DType dtype,
                                 const cost::Ceilings& ceilings) {
  RooflineVerdict verdict;
  for (const OperationRow& row : table_by_op(step, &ceilings).rows) {
    if (row.exclusive_ns <= 0 || (row.work.flops <= 0 && row.bytes() <= 0)) continue;
    const cost::Roof roof = row.work.flops > 0 ? cost::roof(ceilings, dtype, row.work, row.bytes())
                                               : cost::Roof{"memory", 0};
    const bool is_memory = roof.name == "memory";
    const double per_ns = is_memory ? ceilings.memory_bytes_per_ns() : roof.flops_per_ns;
    if (!(per_ns > 0)) continue;
    const double amount = static_cast<double>(is_memory ? row.bytes() : row.work.flops);
    const double least_ns = amount / per_ns;
    auto found = std::ranges::find(verdict.roofs, roof.name, &RoofTime::roof);
    if (found == verdict.roofs.end())
      found = verdict.roofs.insert(found, {roof.name, is_memory, per_ns, 0, 0});
    found->time_ns += row.exclusive_ns;
    found->least_ns += least_ns;
    verdict.time_ns += row.exclusive_ns;
    verdict.least_ns += least_ns;
    if (const double beyond = static_cast<double>(row.exclusive_ns) - least_ns;
        beyond > verdict.worst_ns) {
      verdict.worst = row.key;
      verdict.worst_ns = beyond;
    }
  }
  std::ranges::stable_sort(verdict.roofs, std::ranges::greater(), &RoofTime::time_ns);
  return verdict;
}

}  // namespace ridge::record
