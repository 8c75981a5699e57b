// SPDX-License-Identifier: Apache-2.0
// Formats figures with units.
#include "report/training_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/printable.h"
#include "base/units.h"

namespace ridge::report {
namespace {

// Why the step changed no weight; empty if it did.
std::string fate(const record::StepMetrics& step) {
  if (step.overflowed)
    return fmt::format("  skipped: gradients overflowed, loss scale now {}", step.loss_scale);
  return step.skipped ? "  skipped" : "";
}

std::string rates(const record::StepMetrics& step, bool shows_optimizer) {
  const std::string end =
      fmt::format("{:>8}  {:>8}", format_ns(step.step_ns), format_bytes(step.resident_bytes));
  if (!shows_optimizer) return fmt::format("{:8.2f} samples/s  {}", step.samples_per_s, end);
  const std::string norm =
      step.gradient_norm < 0 ? "" : fmt::format("norm {:.3f}  ", step.gradient_norm);
  return fmt::format("{}rate {:.2e}  {:>7} tokens/s  {}", norm, step.learning_rate,
                     format_count(step.tokens_per_s), end);
}

std::string one_line(std::string text) {
  for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 2)
    text.replace(at, 1, "\\n");
  return text;
}

std::string events_text(const record::RunRecord& run, const record::TrainingTotals& totals) {
  std::string text;
  if (!run.setting.exchange.empty())
    text += fmt::format("the ranks exchanged by {}\n", terminal_safe(run.setting.exchange));
  if (totals.packs_documents && totals.attended > 0)
    text += fmt::format(
        "attention stayed inside documents: {:.1f}% of the keys of whole rows; FLOPs and MFU "
        "count whole rows\n",
        100 * totals.attended);
  if (totals.skipped > 0) text += fmt::format("{} updates were skipped\n", totals.skipped);
  if (run.loss_scale > 0)
    text += fmt::format("loss scale {}; {} of {} steps were skipped because gradients overflowed\n",
                        run.loss_scale, run.overflows, run.losses.size());
  if (totals.waited_for_checkpoints_ns > 0)
    text += fmt::format("training waited {} for checkpoints\n",
                        format_ns(totals.waited_for_checkpoints_ns));
  return text;
}

}  // namespace

std::string step_line(const record::StepMetrics& step, bool shows_optimizer) {
  return fmt::format("step {:4}  loss {:.4f}  {}{}{}", step.step, step.loss,
                     rates(step, shows_optimizer), step.instrumented ? "  instrumented" : "",
                     fate(step));
}

std::string validation_line(const record::ValidationMetrics& validation) {
  return fmt::format("step {:4}  validation loss {:.4f}, perplexity {:.2f}", validation.step,
                     validation.loss, validation.perplexity());
}

std::string sample_line(const record::TrainingSample& sample) {
  const std::string text = sample.fault.empty() ? "sample  " + one_line(sample.prompt + sample.text)
                                                : "no sample: " + sample.fault;
  return fmt::format("step {:4}  {}", sample.step, terminal_safe(text, kLongestMessage));
}

std::string training_summary(const record::RunRecord& run,
                             const record::TrainingTotals& totals,
                             const TerminalOptions& options) {
  const Summary wall = run.wall();
  const std::string spread = wall.count < 2
                                 ? "one step"
                                 : fmt::format("median of {}; {:.0f}% interval {} - {}", wall.count,
                                               100 * std::min(wall.coverage, 0.95),
                                               format_ns(wall.low), format_ns(wall.high));
  const std::string figures = fmt::format(
      "{}: {} parameters, step {} ({}), {} samples/s, {} tokens/s\n"
      "model {} (2 FLOPs per MAC); {} kernel calls per step; owned memory {}, peak resident {}",
      terminal_safe(run.setting.str()), format_integer(run.parameters), format_ns(wall.median),
      spread, format_count(run.samples_per_s()), format_count(run.tokens_per_s()),
      format_rate(run.palm_flops_per_s(), "FLOP/s"), format_integer(run.launches),
      format_bytes(run.memory.owned_bytes), format_bytes(run.memory.after.peak_bytes));
  std::string phases;
  if (const record::StepRecord& step = run.step; !step.wall_samples_ns.empty())
    phases = fmt::format("kernels: forward {}, backward {}, optimizer {} (medians of {})\n",
                         format_ns(step.forward.median), format_ns(step.backward.median),
                         format_ns(step.optimizer.median),
                         counted(std::ssize(step.wall_samples_ns), "instrumented step"));
  // In a file the lines stay whole, for programs that read them.
  return fmt::format("mean loss {:.4f}\n{}{}{}", run.mean_loss(), events_text(run, totals), phases,
                     options.fit ? wrap_lines(figures, options.columns) : figures + "\n");
}

namespace {

std::string magnitude(double value) { return value == 0 ? "-" : fmt::format("{:.1e}", value); }

// Small shares show that there are some.
std::string share(const record::NumberRange& range, int64_t part) {
  const double percent = 100 * range.share(part);
  return part == 0 ? "0" : percent < 0.01 ? "<0.01%" : fmt::format("{:.2f}%", percent);
}

}  // namespace

std::string numerics_text(const record::NumericsRecord& record, const TerminalOptions& options) {
  Table table(
      "<numbers | <of | <type | count ?3 | least ?2 | rms ?4 | greatest | zero ?1 | "
      "subnormal ?5 | not finite ?6 | to 0 in fp16 | over fp16 | to 0 in bf16 ?7 | "
      "over bf16 ?8");
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
