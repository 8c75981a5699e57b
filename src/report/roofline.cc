// SPDX-License-Identifier: Apache-2.0
// Draws the roofs and the points.
#include "report/roofline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/canvas.h"
#include "base/units.h"
#include "record/operation_table.h"

namespace ridge::report {
namespace {

constexpr int kHeight = 18;
constexpr int kAxisColumns = 14;  // columns of the canvas outside the plot, for its ticks

double power_below(double value) { return std::pow(10.0, std::floor(std::log10(value))); }
double power_above(double value) { return std::pow(10.0, std::ceil(std::log10(value))); }

std::vector<record::OperationRow> points(const record::RunRecord& run,
                                         const cost::Ceilings* ceilings,
                                         size_t most) {
  std::vector<record::OperationRow> rows = table_by_op(run.step, ceilings).rows;
  std::erase_if(rows, [](const record::OperationRow& row) {
    return !(row.intensity() > 0) || !(row.flops_per_ns() > 0);
  });
  if (rows.size() > most) rows.resize(most);
  return rows;
}

struct Extent {
  double low = 0, high = 0;
  void take(double value) {
    low = low > 0 ? std::min(low, value) : value;
    high = std::max(high, value);
  }
};

// Draws a slanted roof from the left edge to the flat roof, with its name along it.
void draw_roof(Canvas& canvas,
               double left,
               double bytes_per_s,
               double peak,
               const std::string& label) {
  double meets = peak / bytes_per_s;
  if (meets <= left) return;
  canvas.line(left, left * bytes_per_s, meets, peak);
  double at = left * std::pow(meets / left, 0.25);
  canvas.text(at, at * bytes_per_s * 1.6, label);
}

std::string legend(char letter,
                   const record::OperationRow& row,
                   const cost::Ceilings& ceilings,
                   DType dtype) {
  double roof = cost::attainable_flops_per_ns(ceilings, dtype, row.intensity());
  return fmt::format("  {} {:<32} {:>8.3g} FLOP/B  {:>13}  {:>5.0f}% of the memory roofline, {}\n",
                     letter, terminal_safe(row.key), row.intensity(),
                     format_rate(row.flops_per_ns() * 1e9, "FLOP/s"),
                     100 * row.flops_per_ns() / roof, name(row.bound));
}

// Lists the roofs below the plot, because points may hide their names in it.
std::string roofs_text(const cost::Ceilings& ceilings, double memory) {
  std::string text = "  roofs: memory " + format_rate(memory, "B/s");
  for (const cost::MemoryLevel& level : ceilings.levels)
    if (level.name != "memory")
      text += fmt::format(", {} {}", level.name, format_rate(level.copy_bytes_per_ns * 1e9, "B/s"));
  return text + "\n";
}

}  // namespace

std::string roofline(const record::LabRecord& lab,
                     const record::RunRecord& run,
                     const TerminalOptions& options,
                     size_t most) {
  if (!lab.ceilings)
    return "No roofline: the machine's ceilings are unknown (run ridge machine).\n";
  const cost::Ceilings& c = *lab.ceilings;
  DType dtype = product_dtype(run.setting);
  std::vector<record::OperationRow> rows = points(run, &c, most);
  double peak = c.peak_flops_per_ns(dtype) * 1e9, memory = c.memory_bytes_per_ns() * 1e9;
  Extent x, y;
  x.take(peak / memory);
  y.take(peak);
  for (const record::OperationRow& row : rows) {
    x.take(row.intensity());
    y.take(row.flops_per_ns() * 1e9);
  }
  LogAxis x_axis{power_below(x.low), power_above(x.high * 1.5), "FLOPs per planned byte"};
  LogAxis y_axis{power_below(y.low), power_above(y.high * 1.5), "FLOP/s"};
  Canvas canvas(std::clamp(options.columns - kAxisColumns, 40, 100), kHeight, x_axis, y_axis);
  draw_roof(canvas, x_axis.low, memory, peak, "memory " + format_rate(memory, "B/s"));
  for (const cost::MemoryLevel& level : c.levels)
    if (level.name != "memory" && level.copy_bytes_per_ns > 1.5 * c.memory_bytes_per_ns())
      draw_roof(canvas, x_axis.low, level.copy_bytes_per_ns * 1e9, peak, level.name);
  canvas.line(peak / memory / 100, peak, x_axis.high, peak);
  canvas.text(x_axis.high, peak * 1.6,
              fmt::format("{} GEMM {}", name(dtype), format_rate(peak, "FLOP/s")));
  std::string legends;
  bool is_above = false;
  for (const record::OperationRow& row : rows) {
    legends += legend(canvas.point(row.intensity(), row.flops_per_ns() * 1e9), row, c, dtype);
    is_above =
        is_above || row.flops_per_ns() > cost::attainable_flops_per_ns(c, dtype, row.intensity());
  }
  if (is_above)
    legends +=
        "warning: over 100% means that operands came from a cache; the roof is memory bandwidth\n";
  return canvas.str(options) + roofs_text(c, memory) + legends;
}

}  // namespace ridge::report
