// SPDX-License-Identifier: Apache-2.0
// Sums the rows of the table of ops by their roofs.
#include "record/roofline_verdict.h"

#include <algorithm>

#include "cost/predict.h"
#include "record/operation_table.h"

namespace ridge::record {

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
