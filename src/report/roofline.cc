// SPDX-License-Identifier: Apache-2.0
// Finds the roof of each op.
#include "report/tables.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "record/operation_table.h"

namespace ridge::report {
namespace {

constexpr int kBar = 16;  // columns

std::vector<record::OperationRow> arithmetic(const record::RunRecord& run,
                                             const cost::Ceilings* ceilings,
                                             size_t most) {
  std::vector<record::OperationRow> rows = table_by_op(run.step, ceilings).rows;
  std::erase_if(rows, [](const record::OperationRow& row) {
    return !(row.intensity() > 0) || !(row.flops_per_ns() > 0);
  });
  if (rows.size() > most) rows.resize(most);
  return rows;
}

// The bandwidths, memory's first, and the rates of arithmetic, GEMMs' first. The vector rate is
// among them if it bounds one of the rows.
std::string roofs_text(const cost::Ceilings& c,
                       DType dtype,
                       const std::vector<record::OperationRow>& rows) {
  std::string text = "roofs: memory " + format_rate(c.memory_bytes_per_ns() * 1e9, "B/s");
  for (const cost::MemoryLevel& level : c.levels)
    if (level.name != "memory" && level.copy_bytes_per_ns > 1.5 * c.memory_bytes_per_ns())
      text += ", " + level.name + " " + format_rate(level.copy_bytes_per_ns * 1e9, "B/s");
  const auto add_rate = [&](const cost::Roof& roof) {
    text += ", " + roof.name + " " + format_rate(roof.flops_per_ns * 1e9, "FLOP/s");
  };
  add_rate(cost::gemm_roof(c, dtype));
  const cost::Roof vector = cost::vector_roof(c);
  if (std::any_of(rows.begin(), rows.end(), [&](const record::OperationRow& row) {
        return cost::roof(c, dtype, row.work, row.bytes()).name == vector.name;
      }))
    add_rate(vector);
  return text;
}

}  // namespace

std::string roofline(const record::LabRecord& lab,
                     const record::RunRecord& run,
                     const TerminalOptions& options,
                     size_t most) {
  if (!lab.ceilings)
    return fmt::format(
        "No roofline: the machine's ceilings are unknown ({}).\n",
        is_of_another_program(run) ? "ridge import --hardware names it" : "run ridge machine");
  const cost::Ceilings& c = *lab.ceilings;
  const DType dtype = product_dtype(run.setting);
  const std::vector<record::OperationRow> rows = arithmetic(run, &c, most);
  Table table("<op | FLOP/B ?1 | rate ?2 | <roof | <share of roof");
  bool is_above = false;
  for (const record::OperationRow& row : rows) {
    const cost::Roof roof = cost::roof(c, dtype, row.work, row.bytes());
    const double rate = row.flops_per_ns(), share = rate / roof.flops_per_ns;
    table.add({terminal_safe(row.key), fmt::format("{:.3g}", row.intensity()),
               format_rate(rate * 1e9, "FLOP/s"), roof.name,
               fmt::format("{:3.0f}% {}", 100 * share, text_bar(share, kBar))});
    is_above = is_above || share > 1;
  }
  std::string text =
      wrap_lines(roofs_text(c, dtype, rows), options.columns) + "\n" + table.text(options);
  if (is_above) text += wrap_lines(fmt::format("warning: {}", kOverRoof), options.columns);
  return text;
}

}  // namespace ridge::report
