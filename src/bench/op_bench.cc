// SPDX-License-Identifier: Apache-2.0
// Checks what is asked and measures each point.
#include "bench/op_bench.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "bench/module_trial.h"
#include "bench/op_trial.h"
#include "bench/unfused_bytes.h"
#include "ops/registry.h"
#include "passes/level_options.h"

namespace ridge::bench {
namespace {

constexpr const char* kLibrary = "library";

// The implementations that are asked for, with the library of GEMMs under its general name.
std::string with_library(const OpBenchOptions& o) {
  std::string names = o.implementation;
  if (const size_t at = names.find(o.library); at != names.npos)
    names.replace(at, o.library.size(), kLibrary);
  return names;
}

// Says why an op can be faster than its limit.
std::string faster_note(const cost::Ceilings& ceilings) {
  if (ceilings.disturbed())
    return fmt::format(
        "faster: than the limit, because other programs used {:.0f}% of the machine while the ceilings "
        "were measured, so they are too low; ridge machine --remeasure measures them again.",
        100 * ceilings.others_share);
  return "faster: than the limit, which is no exact one: bandwidths are interpolated between the working sets for which they were "
         "measured.";
}

}  // namespace

OpBench::OpBench(const OpBenchOptions& o, const OpShape& shape) : o_(o), shape_(shape) {
  type_ = parse_trial_type(o.dtype, o.is_gpu_sheet);
  implementations_ =
      choose_implementations(shape, type_, o.tune ? std::string("tuned") : with_library(o));
  for (Implementation& each : implementations_)
    if (each.name == kLibrary) each.name = o.library;
  if (o.is_causal && !shape.has_causal)
    throw usage_error("[causal] --causal has no effect on {}", shape.name);
  layout_ = shape.layouts.empty() ? "" : shape.layouts.front();
  if (!o.layout.empty()) {
    if (shape.layouts.size() < 2) throw usage_error("[layout] {} has one layout alone", shape.name);
    if (std::find(shape.layouts.begin(), shape.layouts.end(), o.layout) == shape.layouts.end())
      throw usage_error("[layout] expected {} for {}, got {}", fmt::join(shape.layouts, ", "),
                        shape.name, printable(o.layout));
    layout_ = o.layout;
  }
  std::vector<Sweep> sweeps;
  for (const std::string& text : o.sweeps)
    for (Sweep& each : parse_sweeps(text, "sweep")) sweeps.push_back(std::move(each));
  const record::Extents fixed =
      o.shape.empty() ? record::Extents() : parse_extents(o.shape, "shape");
  points_ = points(shape.letters, fixed, sweeps);
  swept_ = swept_letter(sweeps);
  check_bytes_name(o.bytes);
  if (o.fits && swept_.empty())
    throw usage_error("[fit] expected one --sweep, got {}", sweeps.empty() ? "none" : "several");
  for (const record::Extents& each : points_) shape_.build(request(each, implementations_.front()));
}

record::BenchRecord OpBench::run(TrialRunner& runner, const PointListener& listener) const {
  record::BenchRecord bench;
  bench.kind = "op";
  bench.name = shape_.name;
  bench.formula = ops::table().at(shape_.op).formula;
  bench.dtype = type_.name;
  bench.bytes = o_.bytes;
  if (o_.is_gpu_sheet && o_.dtype == "fp16") bench.notes.emplace_back(kSheetFp16Note);
  bench.swept = swept_;
  for (const Letter& each : shape_.letters)
    if (each.name == swept_) bench.axis = each.meaning;
  for (const record::Extents& each : points_)
    for (const Implementation& form : implementations_)
      for (bool backward : {false, true}) {
        if (runner.is_stopped() || (backward && !o_.is_backward)) continue;
        record::BenchPoint point = measure(runner, each, form, backward);
        if (runner.is_stopped()) continue;
        listener(backward ? 0 : 1, record::str(each));
        bench.points.push_back(std::move(point));
      }
  if (!swept_.empty()) bench.cliffs = record::find_cliffs(bench.points, swept_);
  if (o_.fits) bench.fits = record::fit_laws(bench.points, swept_);
  return bench;
}

record::BenchPoint OpBench::measure(TrialRunner& runner,
                                    const record::Extents& extents,
                                    const Implementation& form,
                                    bool backward) const {
  TrialSetting setting;
  setting.selection = passes::Selection(
      "baseline",
      form.switches + (type_.is_tf32 ? (form.switches.empty() ? "+tf32" : ",+tf32") : ""));
  setting.is_backward = backward;
  // With a limit, the allocation is what fails.
  if (o_.limits_memory) setting.memory_bytes = std::numeric_limits<int64_t>::max() / 2;
  const TrialGraph trial = shape_.build(request(extents, form));
  record::BenchPoint point = runner.point(trial, setting);
  point.name = shape_.name;
  // The usual window is none.
  for (const auto& each : extents)
    if (each.second < kMostExtent) point.extents.push_back(each);
  point.dtype = type_.name;
  if (implementations_.size() > 1 || !o_.implementation.empty() ||
      shape_.implementations.size() > 1)
    point.form = form.name;
  if (o_.is_backward) point.phase = backward ? "forward+backward" : "forward";
  if (o_.bytes == "ridge" || backward) return point;
  point.unfused_bytes = unfused_bytes(trial.graph);
  limit_by_unfused_bytes(runner.ceilings(), type_.weights, point);
  return point;
}

OpCaseBench::OpCaseBench(const std::string& op, const OpBenchOptions& o)
    : op_(ops::table().at(op)),
      dtype_(o.dtype),
      selection_("baseline",
                 passes::switch_text({.switches = o.tune ? "+tune_gemm" : "", .dtype = o.dtype})) {
  if (op_.kind == OpKind::kView)
    throw usage_error("[bench] '{}' is a view, which runs no kernel", op);
  if (o.tune && &op_ != &ops::matmul_op())
    throw usage_error("[tune] --tune has no effect on {}; it chooses algorithms of matmul",
                      op_.name);
}

std::vector<Case> OpCaseBench::cases(TrialRunner& runner) const {
  const DType dtype = selection_.activations();
  std::vector<Case> cases;
  if (op_.cases != nullptr)
    for (const Case& each : op_.cases()) cases.push_back(cast_case(each, dtype));
  for (Case& each : preset_cases(op_, dtype, runner.backend(selection_)))
    cases.push_back(std::move(each));
  for (Case& each : quantized_cases(op_)) cases.push_back(std::move(each));
  if (cases.empty())
    throw usage_error("[bench] '{}' has no test cases, and no preset uses it", op_.name);
  return cases;
}

record::BenchRecord OpCaseBench::run(const std::vector<Case>& cases,
                                     TrialRunner& runner,
                                     const PointListener& listener) const {
  record::BenchRecord bench;
  bench.kind = "op";
  bench.name = op_.name;
  bench.formula = op_.formula;
  bench.dtype = dtype_;
  for (const Case& each : cases) {
    if (runner.is_stopped()) break;
    record::BenchPoint point = run_trial(op_, each, runner.backend(selection_), runner.ceilings());
    point.dtype = dtype_;
    bench.points.push_back(std::move(point));
    listener(1, each.name);
  }
  bench.notes.push_back(
      "The limit is the longest of the multiplications at their peak, the other arithmetic at its rate, and the bytes at the "
      "bandwidth of the memory that holds them. Each run uses the same operands, so small ones stay in a cache.");
  if (std::any_of(bench.points.begin(), bench.points.end(),
                  [](const auto& each) { return each.is_measured() && !each.limit_share(); }))
    bench.notes.push_back(faster_note(runner.ceilings()));
  return bench;
}

}  // namespace ridge::bench
