// SPDX-License-Identifier: Apache-2.0
// One row per class of tensors.
#include "report/numerics_report.h"

#include <fmt/format.h>

namespace ridge::report {
namespace {

std::string magnitude(double value) { return value == 0 ? "-" : fmt::format("{:.1e}", value); }

// Small shares show that there are some.
std::string share(const record::NumberRange& range, int64_t part) {
  const double percent = 100 * range.share(part);
  return part == 0 ? "0" : percent < 0.01 ? "<0.01%" : fmt::format("{:.2f}%", percent);
}

}  // namespace

std::string numerics_text(const record::NumericsRecord& record, const TerminalOptions& options) {
  Table table({{"numbers", Align::kLeft},
               {"of", Align::kLeft},
               {"type", Align::kLeft},
               {"count", Align::kRight, 3},
               {"least", Align::kRight, 2},
               {"rms", Align::kRight, 4},
               {"greatest"},
               {"zero", Align::kRight, 1},
               {"subnormal", Align::kRight, 5},
               {"not finite", Align::kRight, 6},
               {"to 0 in fp16"},
               {"over fp16"},
               {"to 0 in bf16", Align::kRight, 7},
               {"over bf16", Align::kRight, 8}});
  std::string kind;
  for (const record::NumericsRow& row : record.rows) {
    const record::NumberRange& r = row.range;
    if (row.kind != kind && !kind.empty()) table.add_rule();
    table.add({row.kind == kind ? "" : row.kind, row.scope, row.dtype, fmt::format("{}", r.count),
               magnitude(r.least), magnitude(r.rms()), magnitude(r.greatest), share(r, r.zeros),
               share(r, r.subnormals), share(r, r.not_finite), share(r, r.f16_underflows),
               share(r, r.f16_overflows), share(r, r.bf16_underflows), share(r, r.bf16_overflows)});
    kind = row.kind;
  }
  std::string text = fmt::format("numbers of step {}", record.step);
  if (record.loss_scale > 0)
    text += fmt::format("; gradients are those of the loss times {}", record.loss_scale);
  return text + "\n" + table.text(options);
}

Json to_json(const record::NumericsRecord& record) {
  Json json = {{"step", record.step}, {"loss_scale", nullptr}, {"rows", value_json(record.rows)}};
  if (record.loss_scale > 0) json["loss_scale"] = record.loss_scale;
  return json;
}

}  // namespace ridge::report
