// SPDX-License-Identifier: Apache-2.0
// ridge bench module: one module of any configuration, in the forms in which it can run. Not a subcommand.
#include "apps/bench_module.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "apps/bench_run.h"
#include "base/error.h"
#include "base/printable.h"
#include "base/units.h"
#include "bench/module_trial.h"
#include "models/known_shapes.h"

namespace ridge::apps {
namespace {

struct BenchModuleOptions {
  std::string module;
  std::string config = "gemma3-270m";
  std::string phases = "prefill";
  std::string batch_sizes = "1";
  std::string lengths = "512";
  std::string contexts;
  std::string dtype = "bf16";
  std::string forms = "all";
  std::string bytes = "ridge";
  int64_t layer = 0;
  BenchRunOptions run;
};

std::vector<bench::ModulePhase> parse_phases(const std::string& text) {
  std::vector<bench::ModulePhase> phases;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string each = text.substr(begin, end - begin);
    const std::optional<bench::ModulePhase> phase = bench::parse_phase(each);
    if (!phase)
      throw usage_error("[phase] expected some of train, prefill, decode, got {}", printable(each));
    phases.push_back(*phase);
    begin = end + 1;
  }
  return phases;
}

class ModuleBench {
 public:
  ModuleBench(const BenchModuleOptions& o, const Command& app) : o_(o) {
    const std::optional<models::Module> module = models::parse_module(o.module);
    if (!module)
      throw usage_error("[module] expected one of {}, got {}", models::kModuleNames,
                        printable(o.module));
    module_ = *module;
    config_ = models::config_by_name(o.config);
    type_ = bench::parse_trial_type(o.dtype);
    bench::check_bytes_name(o.bytes);
    const std::vector<int64_t> batches = parse_sizes(o.batch_sizes, "batch-size"),
                               lengths = parse_sizes(o.lengths, "seq-len");
    const std::vector<int64_t> contexts =
        o.contexts.empty() ? lengths : parse_sizes(o.contexts, "context");
    bool has_context = false;
    for (bench::ModulePhase phase : parse_phases(o.phases)) {
      const bool decodes = phase == bench::ModulePhase::kDecode;
      has_context = has_context || decodes;
      for (int64_t batch : batches)
        for (int64_t length : decodes ? contexts : lengths)
          requests_.push_back({module_, phase, batch, length, o.layer, type_});
    }
    app.refuse_unused({{!has_context, "without --phase decode", {"--context"}}});
    if (std::ssize(requests_) > bench::kMostPoints)
      throw usage_error("[bench] expected at most {} points, got {}", bench::kMostPoints,
                        requests_.size());
    for (const bench::ModuleRequest& each : requests_) bench::build_module(config_, each);
  }

  void run(const AppContext& context) {
    const bool on_gpu = o_.run.hardware == "this" ? chosen_device(o_.run.machine) == "cuda" : true;
    const std::vector<bench::ModuleForm> forms = bench::choose_forms(o_.forms, on_gpu);
    BenchRun run(o_.run, context, type_.is_tf32);
    record::BenchRecord bench;
    bench.kind = "module";
    bench.name =
        fmt::format("{} of {}", o_.module, config_.name.empty() ? o_.config : config_.name);
    bench.dtype = type_.name;
    bench.bytes = o_.bytes;
    for (const bench::ModuleForm& each : forms)
      bench.notes.push_back(fmt::format("{}: {}.", each.name, each.summary));
    Progress progress(o_.module, std::ssize(requests_) * std::ssize(forms), "points",
                      context.terminal);
    for (const bench::ModuleRequest& request : requests_) {
      const size_t first = bench.points.size();
      for (const bench::ModuleForm& form : forms) {
        if (run.is_stopped()) break;
        record::BenchPoint point = measure(run, request, form);
        if (run.is_stopped()) break;
        progress.tick(1, fmt::format("{} {}", form.name, record::str(point.extents)));
        bench.points.push_back(std::move(point));
      }
      add_savings(bench, first);
    }
    progress.hide();
    bench.swept = swept();
    run.finish(std::move(bench));
  }

 private:
  record::BenchPoint measure(BenchRun& run,
                             const bench::ModuleRequest& request,
                             const bench::ModuleForm& form) const {
    bench::TrialSetting setting;
    std::string switches(form.switches);
    if (type_.is_tf32) switches += switches.empty() ? "+tf32" : ",+tf32";
    setting.selection = passes::Selection(form.level, switches);
    setting.is_backward = request.phase == bench::ModulePhase::kTrain;
    record::BenchPoint point = run.point(bench::build_module(config_, request), setting);
    point.name = o_.module;
    point.extents = {{"b", request.batch},
                     {request.phase == bench::ModulePhase::kDecode ? "c" : "t", request.length}};
    point.form = form.name;
    point.phase = bench::name(request.phase);
    point.dtype = type_.name;
    point.unfused_bytes = bench::unfused_bytes(config_, request);
    return point;
  }

  // What each form saves over the first one, for the points from `first` on.
  void add_savings(record::BenchRecord& bench, size_t first) const {
    if (bench.points.size() < first + 2) return;
    const record::BenchPoint& base = bench.points[first];
    for (size_t i = first + 1; i < bench.points.size(); ++i) {
      const record::BenchPoint& each = bench.points[i];
      if (!(each.ns() > 0) || !(base.ns() > 0) || base.planned_bytes == 0) continue;
      bench.notes.push_back(fmt::format(
          "{} {}: {:.2f} times as fast as {}{}, {} for {} kernels, {:.0f}% of its bytes.",
          each.phase, each.form, base.ns() / each.ns(), base.form,
          each.is_measured() ? "" : " by prediction", each.launches, base.launches,
          100 * static_cast<double>(each.planned_bytes) / static_cast<double>(base.planned_bytes)));
    }
  }

  // The letter that a chart may have as its axis.
  std::string swept() const {
    bool batches = false, lengths = false, phases = false;
    for (const bench::ModuleRequest& each : requests_) {
      batches = batches || each.batch != requests_[0].batch;
      lengths = lengths || each.length != requests_[0].length;
      phases = phases || each.phase != requests_[0].phase;
    }
    if (phases || batches == lengths) return "";
    if (batches) return "b";
    return requests_[0].phase == bench::ModulePhase::kDecode ? "c" : "t";
  }

  const BenchModuleOptions& o_;
  models::Module module_{};
  models::ModelConfig config_;
  bench::TrialType type_;
  std::vector<bench::ModuleRequest> requests_;
};

std::string forms_help() {
  std::string text = "Forms:\n";
  for (const bench::ModuleForm& each : bench::module_forms())
    text += fmt::format("  {:<10} {}{}\n", each.name, each.summary, each.gpu_only ? " (GPUs)" : "");
  return text;
}

}  // namespace

void add_bench_module(Command bench, const AppContext& context) {
  auto o = std::make_shared<BenchModuleOptions>();
  Command app =
      bench.add_subcommand("module", "Time one module of a configuration, in several forms");
  app.add_option("MODULE", o->module, std::string(models::kModuleNames)).required();
  app.add_option("--config", o->config, models::known_shape_names() + ", or a config.json")
      .show_default();
  app.add_option("--phase", o->phases, "some of train (forward and backward), prefill, decode")
      .show_default();
  app.add_option("--batch-size", o->batch_sizes, "sequences at a time").numbers().show_default();
  app.add_option("--seq-len", o->lengths, "tokens of a sequence").numbers().show_default();
  app.add_option("--context", o->contexts, "decode: keys of a sequence (default: --seq-len)")
      .numbers();
  app.add_option("--layer", o->layer, "the layer: those with a window differ").show_default();
  app.add_option("--dtype", o->dtype,
                 "bf16, fp32, tf32, or a type of weights: fp16, q8_0, q4_k ...")
      .show_default();
  app.add_option("--form", o->forms, "all, or some of the forms below").show_default();
  std::string bytes_help = "ridge";
  for (const bench::BytesName& each : bench::unfused_bytes_names())
    bytes_help += fmt::format(", or {}: {}", each.name, each.summary);
  app.add_option("--bytes", o->bytes, bytes_help).show_default();
  add_bench_run_options(app, o->run);
  app.footer(
      forms_help() +
      "\nWeights are made up. --hardware and --plan count and predict without a run.\n"
      "Examples:\n"
      "  ridge bench module mlp --config gemma3-270m --phase prefill --batch-size 8 --seq-len 2048 --counts\n"
      "  ridge bench module mlp --config tiny --phase prefill,decode --batch-size 1,8 --seq-len 32\n"
      "  ridge bench module attention --config llama-2-70b --hardware h100 --phase decode --context 4096 --json");
  app.callback([o, app, &context] {
    check(o->run, app);
    ModuleBench(*o, app).run(context);
  });
}

}  // namespace ridge::apps
