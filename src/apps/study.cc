// SPDX-License-Identifier: Apache-2.0
// ridge study inference: prefill and decode of a model by technique, batch size, length and type, predicted and measured.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>

#include "apps/bench_run.h"
#include "apps/inference_options.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/printable.h"
#include "base/split.h"
#include "base/units.h"
#include "bench/extents.h"
#include "bench/inference_study.h"
#include "models/known_shapes.h"

namespace ridge::apps {
namespace {

struct StudyOptions {
  std::string model;
  std::string techniques = "all";
  std::string batch_sizes = "1,8";
  std::string lengths;
  std::string dtypes;
  std::string budget = "60s";
  BenchRunOptions run;
};

constexpr const char* kStored = "file";

// Whether the path has weights, not a configuration alone.
bool has_weights(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return false;
  const auto is_file_of_weights = [](const std::filesystem::path& file) {
    return file.extension() == ".gguf" || file.extension() == ".safetensors";
  };
  if (!std::filesystem::is_directory(path, error)) return is_file_of_weights(path);
  for (const auto& each : std::filesystem::directory_iterator(path, error))
    if (is_file_of_weights(each.path())) return true;
  return false;
}

models::ModelFile open(const std::string& model) {
  return has_weights(model) ? models::ModelFile::open(model)
                            : models::ModelFile::of_shape(models::config_by_name(model));
}

class InferenceStudy {
 public:
  InferenceStudy(const StudyOptions& o, const AppContext& context)
      : o_(o),
        file_(open(o.model)),
        on_gpu_(planning::is_gpu_plan(o.run.hardware, chosen_device(o.run.machine) == "cuda")),
        techniques_(bench::choose_techniques(o.techniques)),
        batches_(parse_sizes(o.batch_sizes, "batch-size")),
        lengths_(o.lengths.empty() ? usual_lengths() : parse_sizes(o.lengths, "seq-len")),
        dtypes_(split(o.dtypes.empty() ? file_.has_weights() ? kStored : "bf16" : o.dtypes)),
        left_ns_(parse_budget_ns(o.budget)) {
    check();
    run_.emplace(o.run, context, false);
    record_.kind = "study";
    record_.name = "inference of " + title();
    for (const std::string& each : dtypes_)
      record_.dtype += (record_.dtype.empty() ? "" : ",") + each;
    progress_.emplace("study", points() * 2, "points", context.terminal);
  }

  void run() {
    for (const std::string& dtype : dtypes_)
      for (int64_t length : lengths_)
        for (int64_t batch : batches_) {
          const size_t first = record_.points.size();
          for (const bench::Technique& technique : techniques_) {
            if (run_->is_stopped()) break;
            bench::PhasePoints points = measure(technique, dtype, batch, length);
            if (run_->is_stopped()) break;
            progress_->tick(2, fmt::format("{} {} x {}", technique.name, batch, length));
            add(std::move(points), technique, dtype);
          }
          bench::add_speedups(record_.points, first);
        }
    progress_->hide();
    finish();
  }

 private:
  int64_t points() const {
    return std::ssize(techniques_) * std::ssize(batches_) * std::ssize(lengths_) *
           std::ssize(dtypes_);
  }

  std::string title() const {
    return file_.config().name.empty() ? std::filesystem::path(o_.model).stem().string()
                                       : file_.config().name;
  }

  std::vector<int64_t> usual_lengths() const {
    const int64_t context = file_.config().context;
    return context <= 128 ? std::vector<int64_t>{context}
                          : std::vector<int64_t>{128, std::min<int64_t>(512, context)};
  }

  // Before anything is allocated.
  void check() const {
    if (points() > bench::kMostPoints)
      throw usage_error("[study] expected at most {} points, got {}", bench::kMostPoints, points());
    for (int64_t batch : batches_)
      if (batch > serve::kMostSlots)
        throw usage_error("[batch-size] expected at most {} sequences, got {}", serve::kMostSlots,
                          batch);
    for (int64_t length : lengths_)
      if (length > file_.config().context)
        throw usage_error("[seq-len] expected at most {} positions, the model's context, got {}",
                          file_.config().context, length);
    for (const std::string& each : dtypes_) {
      if (each == kStored && !file_.has_weights())
        throw usage_error("[dtype] expected some of fp32, bf16 for a configuration, got {}", each);
      if (each != "fp32" && each != "bf16" && each != kStored)
        throw usage_error("[dtype] expected some of fp32, bf16{}, got {}",
                          file_.has_weights() ? ", file" : "", printable(each));
    }
  }

  passes::Selection selection(const bench::Technique& technique, const std::string& dtype) const {
    std::string switches(technique.switches);
    // A GPU holds 16-bit weights in any case, and fp32 ones with --exact.
    if (!on_gpu_ && dtype != kStored) switches += dtype == "fp32" ? ",+store_f32" : ",+store_bf16";
    return serve::inference_selection({on_gpu_, dtype == "fp32", false},
                                      std::string(technique.level), switches);
  }

  bench::PhasePoints measure(const bench::Technique& technique,
                             const std::string& dtype,
                             int64_t batch,
                             int64_t length) {
    measure::InferenceExperiment e;
    e.selection = selection(technique, dtype);
    e.setting = make_setting(title(), o_.run.machine, e.selection, std::string(technique.switches));
    e.batch = batch;
    e.length = length;
    e.is_stopped = [this] { return run_->is_stopped(); };
    e = bench::with_technique(std::move(e), technique);
    const bool runs = run_->trials().runs();
    const int64_t free = runs ? run_->trials().backend(e.selection).available_bytes() : 0;
    bench::PhasePoints points = bench::plan_technique(file_, e, run_->trials().target(e.selection),
                                                      run_->trials().ceilings(), free - free / 8);
    if (runs && points.prefill.refused.empty()) time(e, points);
    return points;
  }

  // Points that would take more than the budget has left keep their prediction.
  void time(measure::InferenceExperiment& e, bench::PhasePoints& points) {
    constexpr double kLoadBytesPerNs = 1;  // weights are made up, or read and unpacked
    constexpr int64_t kLeast = 3;
    constexpr double kMostShare = 0.5;  // of the budget, for one point
    const double once = points.prefill.predicted_ns + points.decode.predicted_ns;
    const double needed =
        (kLeast + 2) * once + static_cast<double>(points.prefill.owned_bytes) / kLoadBytesPerNs;
    if (needed > kMostShare * left_ns_) {
      for (record::BenchPoint* each : {&points.prefill, &points.decode})
        each->refused = fmt::format("would take about {}, and {} of the budget are left",
                                    format_ns(needed), format_ns(left_ns_));
      return;
    }
    e.repeats = {kLeast, 40,
                 std::clamp(left_ns_ / static_cast<double>(4 * points_left()), 1e6, 5e8)};
    const double begin = now_ns();
    bench::time_technique(file_, e, run_->trials().backend(e.selection), run_->trials().ceilings(),
                          points);
    left_ns_ = std::max(0.0, left_ns_ - (now_ns() - begin));
  }

  int64_t points_left() const {
    return std::max<int64_t>(points() - std::ssize(record_.points) / 2, 1);
  }

  void add(bench::PhasePoints points, const bench::Technique& technique, const std::string& dtype) {
    for (record::BenchPoint* each : {&points.prefill, &points.decode}) {
      each->name = title();
      each->form = technique.name;
      each->dtype = dtype;
      each->published_ns = bench::published_ns(title(), technique.name, each->phase,
                                               each->extents[0].second, each->extents[1].second);
      record_.points.push_back(std::move(*each));
    }
  }

  void finish() {
    record_.notes.push_back(
        "prefill: all prompts of the batch; decode: one token for each sequence. Speed-ups are over the first technique, "
        "both measured or both predicted. Points that did not run are predicted.");
    for (const bench::Technique& each : techniques_)
      record_.notes.push_back(fmt::format("{}: {}.", each.name, each.summary));
    if (std::any_of(record_.points.begin(), record_.points.end(),
                    [](const record::BenchPoint& each) { return !each.published_ns.empty(); }))
      record_.notes.push_back(
          "Published times are of other machines: they show how much a technique gains there. docs/workbench.md has their "
          "sources.");
    const bool has_run = std::any_of(record_.points.begin(), record_.points.end(),
                                     [](const auto& each) { return each.refused.empty(); });
    const std::string refused =
        !has_run && !record_.points.empty() && record_.points[0].lacks_memory
            ? record_.points[0].refused
            : "";
    run_->print(std::move(record_));
    run_->end();
    if (!refused.empty()) throw memory_error("[study] {}", refused);
  }

  const StudyOptions& o_;
  models::ModelFile file_;
  bool on_gpu_;
  std::vector<bench::Technique> techniques_;
  std::vector<int64_t> batches_, lengths_;
  std::vector<std::string> dtypes_;
  double left_ns_;
  std::optional<BenchRun> run_;
  record::BenchRecord record_;
  std::optional<Progress> progress_;
};

std::string techniques_help() {
  std::string text = "Techniques:\n";
  for (const bench::Technique& each : bench::techniques())
    text += fmt::format("  {:<17} {}\n", each.name, each.summary);
  return text;
}

void add_study_inference(Command study, const AppContext& context) {
  auto o = std::make_shared<StudyOptions>();
  Command app = study.add_subcommand(
      "inference",
      "Compare techniques of prefill and decode, from a configuration alone or a model");
  app.add_option("MODEL", o->model,
                 models::known_shape_names() +
                     ", a config.json (these with random weights), or a model with weights")
      .required();
  app.add_option("--techniques", o->techniques, "all, or a list of those below, in this order")
      .show_default();
  app.add_option("--batch-size", o->batch_sizes, "numbers of sequences at a time")
      .numbers()
      .show_default();
  app.add_option(
         "--seq-len", o->lengths,
         "tokens of a prompt, and keys of a decode's context (default: 128,512, or less if the model's context is shorter)")
      .numbers();
  app.add_option(
      "--dtype", o->dtypes,
      "types to compare: fp32, bf16 and, of a model with weights, file (as it stores them); default: "
      "bf16 of a configuration, file of a model");
  app.add_option("--budget", o->budget,
                 "time for all measurements: 60s, 2m; points beyond it are predicted")
      .show_default();
  add_bench_place_options(app, o->run);
  app.footer(
      techniques_help() +
      "\nCtrl-C ends the study after the present point and prints what was measured.\n"
      "Examples:\n"
      "  ridge study inference tiny --batch-size 1,2 --seq-len 32 --budget 5s\n"
      "  ridge study inference llama-2-7b --batch-size 1,8,16 --seq-len 2048 --hardware h200\n"
      "  ridge study inference gemma3-270m --techniques eager,flash,tuned --plan --json");
  app.callback([o, app, &context] {
    check(o->run, app);
    InferenceStudy(*o, context).run();
  });
}

}  // namespace

void register_study(Command program, const AppContext& context) {
  Command app = program.add_subcommand("study", "Compare techniques over sizes of a model");
  app.require_subcommand();
  add_study_inference(app, context);
  app.footer("Examples:\n  ridge study inference tiny --batch-size 1 --seq-len 32 --budget 5s");
}

}  // namespace ridge::apps
