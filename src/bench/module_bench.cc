// SPDX-License-Identifier: Apache-2.0
// Checks what is asked, measures each form, and compares the forms.
#include "bench/module_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/printable.h"
#include "base/split.h"
#include "bench/extents.h"
#include "models/known_shapes.h"

namespace ridge::bench {
namespace {

std::vector<ModulePhase> parse_phases(const std::string& text) {
  std::vector<ModulePhase> phases;
  for (const std::string& each : split(text)) {
    const std::optional<ModulePhase> phase = parse_phase(each);
    if (!phase)
      throw usage_error("[phase] expected some of train, prefill, decode, uncached-decode, got {}",
                        printable(each));
    phases.push_back(*phase);
  }
  return phases;
}

// Notes how much each form saves over the first one, for the points from `first` on.
void add_savings(record::BenchRecord& bench, size_t first) {
  if (bench.points.size() < first + 2) return;
  const record::BenchPoint& base = bench.points[first];
  for (size_t i = first + 1; i < bench.points.size(); ++i) {
    const record::BenchPoint& each = bench.points[i];
    if (!(each.ns() > 0) || !(base.ns() > 0) || base.planned_bytes == 0) continue;
    bench.notes.push_back(fmt::format(
        "{} {}: {:.2f} times as fast as {}{}, {} for {} kernels, {:.0f}% of its bytes.", each.phase,
        each.form, base.ns() / each.ns(), base.form, each.is_measured() ? "" : " by prediction",
        each.launches, base.launches,
        100 * static_cast<double>(each.planned_bytes) / static_cast<double>(base.planned_bytes)));
  }
}

}  // namespace

ModuleBench::ModuleBench(const ModuleBenchOptions& o, bool on_gpu)
    : o_(o), forms_(choose_forms(o.forms, on_gpu)) {
  const std::optional<models::Module> module = models::parse_module(o.module);
  if (!module)
    throw usage_error("[module] expected one of {}, got {}", models::kModuleNames,
                      printable(o.module));
  config_ = models::config_by_name(o.config);
  type_ = parse_trial_type(o.dtype, o.is_gpu_sheet);
  check_bytes_name(o.bytes);
  const std::vector<int64_t> batches = parse_sizes(o.batch_sizes, "batch-size"),
                             lengths = parse_sizes(o.lengths, "seq-len"),
                             contexts =
                                 o.contexts.empty() ? lengths : parse_sizes(o.contexts, "context");
  for (ModulePhase phase : parse_phases(o.phases)) {
    const bool decodes = is_decode(phase);
    for (int64_t batch : batches)
      for (int64_t length : decodes ? contexts : lengths)
        requests_.push_back({*module, phase, batch, length, o.layer, type_});
  }
  if (std::ssize(requests_) > kMostPoints)
    throw usage_error("[bench] expected at most {} points, got {}", kMostPoints, requests_.size());
  for (const ModuleRequest& each : requests_) {
    build_module(config_, each);
    if (o.bytes != "ridge" && !unfused_bytes(config_, each))
      throw usage_error(
          "[bytes] expected mlp or attention in prefill or decode, and no weights in blocks, with --bytes {}, got {}",
          o.bytes, printable(o.module));
  }
}

bool ModuleBench::decodes() const {
  return std::ranges::any_of(requests_,
                             [](const ModuleRequest& each) { return is_decode(each.phase); });
}

record::BenchRecord ModuleBench::run(TrialRunner& runner, const PointListener& listener) const {
  record::BenchRecord bench;
  bench.kind = "module";
  bench.name = fmt::format("{} of {}", o_.module, config_.name.empty() ? o_.config : config_.name);
  bench.dtype = type_.name;
  bench.bytes = o_.bytes;
  if (o_.is_gpu_sheet && o_.dtype == "fp16") bench.notes.emplace_back(kSheetFp16Note);
  for (const ModuleForm& each : forms_)
    bench.notes.push_back(fmt::format("{}: {}.", each.name, each.summary));
  for (const ModuleRequest& request : requests_) {
    const size_t first = bench.points.size();
    for (const ModuleForm& form : forms_) {
      if (runner.is_stopped()) break;
      record::BenchPoint point = measure(runner, request, form);
      if (runner.is_stopped()) break;
      listener(1, fmt::format("{} {}", form.name, record::str(point.extents)));
      bench.points.push_back(std::move(point));
    }
    add_savings(bench, first);
  }
  bench.swept = swept();
  bench.axis = bench.swept == "b"   ? "sequences at a time"
               : bench.swept == "c" ? "keys of a sequence in the cache"
               : bench.swept == "t" ? "tokens of a sequence"
                                    : "";
  return bench;
}

record::BenchPoint ModuleBench::measure(TrialRunner& runner,
                                        const ModuleRequest& request,
                                        const ModuleForm& form) const {
  TrialSetting setting;
  std::string switches(form.switches);
  if (type_.is_tf32) switches += switches.empty() ? "+tf32" : ",+tf32";
  setting.selection = passes::Selection(form.level, switches);
  setting.is_backward = request.phase == ModulePhase::kTrain;
  record::BenchPoint point = runner.point(build_module(config_, request), setting);
  point.name = o_.module;
  point.extents = {{"b", request.batch}, {is_decode(request.phase) ? "c" : "t", request.length}};
  point.form = form.name;
  point.phase = name(request.phase);
  point.dtype = type_.name;
  point.unfused_bytes = unfused_bytes(config_, request);
  if (o_.bytes != "ridge") limit_by_unfused_bytes(runner.ceilings(), type_.weights, point);
  return point;
}

// The letter that a chart may have as its axis.
std::string ModuleBench::swept() const {
  bool batches = false, lengths = false, phases = false;
  for (const ModuleRequest& each : requests_) {
    batches = batches || each.batch != requests_[0].batch;
    lengths = lengths || each.length != requests_[0].length;
    phases = phases || each.phase != requests_[0].phase;
  }
  if (phases || batches == lengths) return "";
  if (batches) return "b";
  return is_decode(requests_[0].phase) ? "c" : "t";
}

}  // namespace ridge::bench
