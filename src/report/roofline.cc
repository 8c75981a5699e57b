// SPDX-License-Identifier: Apache-2.0
// Draws the roofs and the points.
#include "report/roofline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/canvas.h"
#include "base/units.h"
#include "record/operation_table.h"
#include "report/tables.h"

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

// The machine's roofs: bandwidths, which are slanted, and rates of arithmetic, which are flat.
struct Roofs {
  struct Line {
    std::string label;
    double per_s = 0;  // bytes or FLOPs
  };
  std::vector<Line> bandwidths;  // memory first
  std::vector<Line> rates;       // GEMMs first

  double fastest_bytes_per_s() const {
    double fastest = 0;
    for (const Line& line : bandwidths) fastest = std::max(fastest, line.per_s);
    return fastest;
  }
};

// The vector rate is drawn if it bounds one of the rows.
Roofs roofs_over(const cost::Ceilings& c,
                 DType dtype,
                 const std::vector<record::OperationRow>& rows) {
  Roofs roofs;
  auto add_bandwidth = [&](const std::string& name, double bytes_per_ns) {
    roofs.bandwidths.push_back(
        {name + " " + format_rate(bytes_per_ns * 1e9, "B/s"), bytes_per_ns * 1e9});
  };
  auto add_rate = [&](const cost::Roof& roof) {
    roofs.rates.push_back({roof.name + " " + format_rate(roof.flops_per_ns * 1e9, "FLOP/s"),
                           roof.flops_per_ns * 1e9});
  };
  add_bandwidth("memory", c.memory_bytes_per_ns());
  for (const cost::MemoryLevel& level : c.levels)
    if (level.name != "memory" && level.copy_bytes_per_ns > 1.5 * c.memory_bytes_per_ns())
      add_bandwidth(level.name, level.copy_bytes_per_ns);
  add_rate(cost::gemm_roof(c, dtype));
  const cost::Roof vector = cost::vector_roof(c);
  if (std::any_of(rows.begin(), rows.end(), [&](const record::OperationRow& row) {
        return cost::roof(c, dtype, row.work, row.bytes()).name == vector.name;
      }))
    add_rate(vector);
  return roofs;
}

// Labels come last, so that they find places without points.
void draw_roofs(Canvas& canvas, const LogAxis& x, const Roofs& roofs) {
  const double peak = roofs.rates.front().per_s;
  for (const Roofs::Line& line : roofs.bandwidths)
    if (line.per_s * x.low < peak)  // otherwise the roof is left of the plot
      canvas.line(x.low, x.low * line.per_s, peak / line.per_s, peak);
  for (const Roofs::Line& line : roofs.rates)
    canvas.line(line.per_s / roofs.fastest_bytes_per_s(), line.per_s, x.high, line.per_s);
}

void label_roofs(Canvas& canvas, const LogAxis& x, const Roofs& roofs) {
  const double peak = roofs.rates.front().per_s;
  for (const Roofs::Line& line : roofs.rates) canvas.label(x.high, line.per_s * 1.6, line.label);
  for (const Roofs::Line& line : roofs.bandwidths) {
    const double meets = peak / line.per_s;
    if (meets <= x.low) continue;
    const double at = x.low * std::pow(meets / x.low, 0.25);
    canvas.label(at, at * line.per_s * 1.6, line.label);
  }
}

// Lists the roofs below the plot, because a full plot has no place for their labels.
std::string roofs_text(const Roofs& roofs, const TerminalOptions& options) {
  std::string text = "roofs: ";
  for (const std::vector<Roofs::Line>* lines : {&roofs.bandwidths, &roofs.rates})
    for (const Roofs::Line& line : *lines) text += (text.back() == ' ' ? "" : ", ") + line.label;
  return wrap_lines(text, options.columns);
}

}  // namespace

std::string roofline(const record::LabRecord& lab,
                     const record::RunRecord& run,
                     const TerminalOptions& options,
                     size_t most) {
  if (!lab.ceilings)
    return "No roofline: the machine's ceilings are unknown (run ridge machine).\n";
  const cost::Ceilings& c = *lab.ceilings;
  const DType dtype = product_dtype(run.setting);
  const std::vector<record::OperationRow> rows = points(run, &c, most);
  const Roofs roofs = roofs_over(c, dtype, rows);
  Extent x, y;
  x.take(roofs.rates.front().per_s / roofs.bandwidths.front().per_s);
  for (const Roofs::Line& line : roofs.rates) y.take(line.per_s);
  for (const record::OperationRow& row : rows) {
    x.take(row.intensity());
    y.take(row.flops_per_ns() * 1e9);
  }
  LogAxis x_axis{power_below(x.low), power_above(x.high * 1.5), "FLOPs per planned byte"};
  LogAxis y_axis{power_below(y.low), power_above(y.high * 1.5), "FLOP/s"};
  Canvas canvas(std::clamp(options.columns - kAxisColumns, 40, 100), kHeight, x_axis, y_axis);
  draw_roofs(canvas, x_axis, roofs);
  Table legend({{"", Align::kLeft},
                {"op", Align::kLeft},
                {"FLOP/B", Align::kRight, 1},
                {"rate", Align::kRight, 2},
                {"share of roof"},
                {"roof", Align::kLeft}});
  bool is_above = false;
  for (const record::OperationRow& row : rows) {
    const cost::Roof roof = cost::roof(c, dtype, row.work, row.bytes());
    const double rate = row.flops_per_ns(), share = rate / roof.flops_per_ns;
    legend.add({std::string(1, canvas.point(row.intensity(), rate * 1e9)), terminal_safe(row.key),
                fmt::format("{:.3g}", row.intensity()), format_rate(rate * 1e9, "FLOP/s"),
                fmt::format("{:.0f}%", 100 * share), roof.name});
    is_above = is_above || share > 1;
  }
  label_roofs(canvas, x_axis, roofs);
  std::string text = canvas.str(options) + roofs_text(roofs, options) + "\n" + legend.text(options);
  if (is_above) text += wrap_lines(fmt::format("warning: {}", kOverRoof), options.columns);
  return text;
}

}  // namespace ridge::report
