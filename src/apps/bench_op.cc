// SPDX-License-Identifier: Apache-2.0
// ridge bench op NAME: one op at any size, or on its test cases and the sizes of the presets.
// Not a subcommand.
#include "apps/bench_op.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <memory>
#include <optional>

#include "apps/bench_run.h"
#include "base/error.h"
#include "base/printable.h"
#include "base/units.h"
#include "bench/op_shapes.h"
#include "bench/op_trial.h"
#include "ops/registry.h"

namespace ridge::apps {
namespace {

struct BenchOpOptions {
  std::string op;
  std::string shape;
  std::vector<std::string> sweeps;
  std::string dtype = "fp32";
  std::string layout;
  std::string implementation;
  bool is_backward = false;
  bool is_causal = false;
  bool fits = false;
  bool tune = false;
  std::string memory_limit;
  BenchRunOptions run;
};

// From here on the process can allocate so much more; what does not fit fails to allocate.
void limit_memory(int64_t bytes) {
  int64_t pages = 0;  // proc(5): statm begins with the pages that are mapped
  std::ifstream("/proc/self/statm") >> pages;
  rlimit limit{};
  const rlim_t most = static_cast<rlim_t>(pages * ::sysconf(_SC_PAGESIZE) + bytes);
  if (::getrlimit(RLIMIT_AS, &limit) == 0 &&
      (limit.rlim_max == RLIM_INFINITY || most <= limit.rlim_max)) {
    limit.rlim_cur = most;
    if (::setrlimit(RLIMIT_AS, &limit) == 0) return;
  }
  throw runtime_error("[memory-limit] the system refuses a limit of {}", format_bytes(bytes));
}

// An op with letters: one point for each size and each implementation.
class ShapeBench {
 public:
  ShapeBench(const BenchOpOptions& o, const bench::OpShape& shape) : o_(o), shape_(shape) {
    type_ = bench::parse_trial_type(o.dtype);
    implementations_ = bench::choose_implementations(
        shape, type_, o.tune ? std::string("tuned") : with_library(o.implementation));
    for (bench::Implementation& each : implementations_)
      if (each.name == kLibrary) each.name = library_name();
    if (o.is_causal && !shape.has_causal)
      throw usage_error("[causal] --causal has no effect on {}", shape.name);
    layout_ = shape.layouts.empty() ? "" : shape.layouts.front();
    if (!o.layout.empty()) {
      if (shape.layouts.size() < 2)
        throw usage_error("[layout] {} has one layout alone", shape.name);
      if (std::find(shape.layouts.begin(), shape.layouts.end(), o.layout) == shape.layouts.end())
        throw usage_error("[layout] expected {} for {}, got {}", fmt::join(shape.layouts, ", "),
                          shape.name, printable(o.layout));
      layout_ = o.layout;
    }
    std::vector<bench::Sweep> sweeps;
    for (const std::string& text : o.sweeps)
      for (bench::Sweep& each : bench::parse_sweeps(text, "sweep"))
        sweeps.push_back(std::move(each));
    const record::Extents fixed =
        o.shape.empty() ? record::Extents() : bench::parse_extents(o.shape, "shape");
    points_ = bench::points(shape.letters, fixed, sweeps);
    swept_ = bench::swept_letter(sweeps);
    if ((o.fits) && swept_.empty())
      throw usage_error("[fit] expected one --sweep, got {}", sweeps.empty() ? "none" : "several");
    expect_possible();
  }

  void run(const AppContext& context) {
    BenchRun run(o_.run, context, type_.is_tf32);
    if (!o_.memory_limit.empty()) limit_memory(parse_bytes(o_.memory_limit, "memory-limit"));
    record::BenchRecord bench;
    bench.kind = "op";
    bench.name = shape_.name;
    bench.formula = ops::table().at(shape_.op).formula;
    bench.dtype = type_.name;
    bench.swept = swept_;
    const int64_t count = std::ssize(points_) * std::ssize(implementations_);
    Progress progress(shape_.name, count, "points", context.terminal);
    for (const record::Extents& each : points_)
      for (const bench::Implementation& form : implementations_)
        for (bool backward : {false, true}) {
          if (run.is_stopped() || (backward && !o_.is_backward)) continue;
          record::BenchPoint point = measure(run, each, form, backward);
          if (run.is_stopped()) continue;
          progress.tick(backward ? 0 : 1, record::str(each));
          bench.points.push_back(std::move(point));
        }
    progress.hide();
    if (!swept_.empty()) bench.cliffs = record::find_cliffs(bench.points, swept_);
    if (o_.fits) bench.fits = record::fit_laws(bench.points, swept_);
    run.finish(std::move(bench));
  }

 private:
  static constexpr const char* kLibrary = "library";
  // The library of GEMMs by its name on the device.
  std::string library_name() const {
    const bool on_gpu = o_.run.hardware == "this" ? chosen_device(o_.run.machine) == "cuda"
                                                  : is_gpu_plan(o_.run.hardware, o_.run.machine);
    return on_gpu ? "cublas" : "onednn";
  }
  std::string with_library(std::string names) const {
    const std::string library = library_name();
    if (const size_t at = names.find(library); at != names.npos)
      names.replace(at, library.size(), kLibrary);
    return names;
  }

  bench::OpRequest request(const record::Extents& extents,
                           const bench::Implementation& form) const {
    return {extents, type_, o_.is_causal, layout_, form};
  }

  // All graphs are built once, so that a size that cannot be is refused before the first is run.
  void expect_possible() const {
    for (const record::Extents& each : points_)
      shape_.build(request(each, implementations_.front()));
  }

  record::BenchPoint measure(BenchRun& run,
                             const record::Extents& extents,
                             const bench::Implementation& form,
                             bool backward) const {
    bench::TrialSetting setting;
    setting.selection = passes::Selection(
        "baseline",
        form.switches + (type_.is_tf32 ? (form.switches.empty() ? "+tf32" : ",+tf32") : ""));
    setting.is_backward = backward;
    // With a limit, the allocation is what fails.
    if (!o_.memory_limit.empty()) setting.memory_bytes = std::numeric_limits<int64_t>::max() / 2;
    record::BenchPoint point = run.point(shape_.build(request(extents, form)), setting);
    point.name = shape_.name;
    // The usual window is none.
    for (const auto& each : extents)
      if (each.second < bench::kMostExtent) point.extents.push_back(each);
    point.dtype = type_.name;
    if (implementations_.size() > 1 || !o_.implementation.empty() ||
        shape_.implementations.size() > 1)
      point.form = form.name;
    if (o_.is_backward) point.phase = backward ? "forward+backward" : "forward";
    return point;
  }

  const BenchOpOptions& o_;
  const bench::OpShape& shape_;
  bench::TrialType type_;
  std::vector<bench::Implementation> implementations_;
  std::string layout_;
  std::vector<record::Extents> points_;
  std::string swept_;
};

// Why an op can be faster than its limit.
std::string faster_note(const cost::Ceilings& ceilings) {
  if (ceilings.disturbed())
    return fmt::format(
        "faster: than the limit, because other programs used {:.0f}% of the cores while the ceilings "
        "were measured, so they are too low; ridge machine --remeasure measures them again.",
        100 * ceilings.others_share);
  return "faster: than the limit, which is no exact one: bandwidths are interpolated between the working sets for which they were "
         "measured.";
}

// The op's test cases and its calls in the presets.
void run_cases(const BenchOpOptions& o, const AppContext& context) {
  LevelOptions level;
  level.dtype = o.dtype;
  if (o.tune) level.switches = "+tune_gemm";
  const passes::Selection selection("baseline", switch_text(level));
  const DType dtype = selection.activations();
  const Op& op = ops::table().at(o.op);
  if (op.kind == OpKind::kView)
    throw usage_error("[bench] '{}' is a view, which runs no kernel", o.op);
  if (o.tune && &op != &ops::matmul_op())
    throw usage_error("[tune] --tune has no effect on {}; it chooses algorithms of matmul",
                      op.name);
  if (o.run.hardware != "this" || o.run.runs_nothing())
    throw usage_error(
        "[shape] expected --shape or --sweep with {}, as `ridge bench op matmul --shape n=1024`",
        o.run.is_counts         ? "--counts"
        : o.run.is_planned_only ? "--plan"
                                : "--hardware");
  BenchRun run(o.run, context, selection.has("tf32"));
  backends::Backend& backend = run.backend(selection);
  std::vector<Case> cases;
  if (op.cases != nullptr)
    for (const Case& each : op.cases()) cases.push_back(bench::cast_case(each, dtype));
  for (Case& each : bench::preset_cases(op, dtype, backend)) cases.push_back(std::move(each));
  for (Case& each : bench::stored_cases(op)) cases.push_back(std::move(each));
  if (cases.empty())
    throw usage_error("[bench] '{}' has no test cases, and no preset uses it", o.op);
  record::BenchRecord bench;
  bench.kind = "op";
  bench.name = op.name;
  bench.formula = op.formula;
  bench.dtype = o.dtype;
  Progress progress(o.op, static_cast<int64_t>(cases.size()), "cases", context.terminal);
  for (const Case& each : cases) {
    if (run.is_stopped()) break;
    record::BenchPoint point = bench::run_trial(op, each, backend, run.ceilings());
    point.dtype = o.dtype;
    bench.points.push_back(std::move(point));
    progress.tick(1, each.name);
  }
  progress.hide();
  bench.notes.push_back(
      "The limit is the longest of the multiplications at their peak, the other arithmetic at its rate, and the bytes at the "
      "bandwidth of the memory that holds them. Each run uses the same operands, so small ones stay in a cache.");
  if (std::any_of(bench.points.begin(), bench.points.end(),
                  [](const auto& each) { return each.is_measured() && !each.limit_share(); }))
    bench.notes.push_back(faster_note(run.ceilings()));
  run.finish(std::move(bench));
}

std::string letters_help() {
  std::string text = "Letters, with their meaning and usual extent:\n";
  for (const bench::OpShape& each : bench::op_shapes()) {
    if (each.name == "add") {
      text +=
          "  add, mul, exp, silu, gelu_tanh and all other pointwise ops: n (elements, 1048576)\n";
      break;
    }
    record::Extents seen;
    std::vector<bench::Letter> letters = each.letters;
    std::erase_if(letters, [](const bench::Letter& l) { return l.usual == bench::kMostExtent; });
    text += wrap_lines(fmt::format("  {}: {}{}", each.name, bench::describe(letters),
                                   letters.size() < each.letters.size() ? ", w (window)" : ""),
                       100);
  }
  return text;
}

void run(const BenchOpOptions& o, const Command& app, const AppContext& context) {
  check(o.run, app);
  const bool has_size = !o.shape.empty() || !o.sweeps.empty();
  app.refuse_unused({{!has_size,
                      "without --shape or --sweep",
                      {"--backward", "--layout", "--implementation", "--causal", "--fit", "--cold",
                       "--warm", "--seconds"}},
                     {o.tune, "with --tune", {"--implementation"}}});
  if (!has_size) return run_cases(o, context);
  const bench::OpShape* shape = bench::find_op_shape(o.op);
  if (shape == nullptr) {
    ops::table().at(o.op);  // an unknown op is refused by its name
    throw usage_error(
        "[shape] expected one of {}, got {}, whose test cases `ridge bench op {}` times",
        bench::op_shape_names(), o.op, o.op);
  }
  if (o.tune && shape->op != "matmul")
    throw usage_error("[tune] --tune has no effect on {}; it chooses algorithms of matmul", o.op);
  ShapeBench(o, *shape).run(context);
}

}  // namespace

void add_bench_op(Command bench, const AppContext& context) {
  auto o = std::make_shared<BenchOpOptions>();
  Command app = bench.add_subcommand(
      "op", "Time an op at any size, or on its test cases and the sizes of the presets");
  app.add_option("NAME", o->op, "an op: matmul, softmax, rms_norm ...").required();
  app.add_option("--shape", o->shape, "extents by the op's letters: n=1024,k=1024,m=1024");
  app.add_option(
         "--sweep", o->sweeps,
         "extents that vary: n=256:4096*2 (times 2), n=1:9+2 (plus 2), n=1,8,64 (a list), n=k=m=... "
         "(several letters together); each further sweep is combined with those before")
      .one_value();
  app.add_option(
         "--dtype", o->dtype,
         "fp32, tf32 (a GPU rounds the fp32 inputs of GEMMs to TF32) or bf16; for the weights of GEMMs and "
         "tables also fp16, q8_0, q4_k and the other types of GGUF files")
      .show_default();
  app.add_option(
      "--layout", o->layout,
      "of matmul nt (the usual x W^T), nn, tn or tt; of copy rows or transposed; of reduce_sum rows or "
      "columns; of glu silu or gelu_tanh; of rope halves or interleaved");
  app.add_option("--implementation", o->implementation,
                 "all, or a list of the ways in which Ridge runs the op, such as flash,standard");
  app.add_flag("--causal", o->is_causal, "attention: each token attends to those before it");
  app.add_flag("--backward", o->is_backward, "time forward and backward together, too");
  app.add_flag("--fit", o->fits, "fit time = a x size^b to the sweep");
  app.add_flag("--tune", o->tune,
               "for matmul: choose the library's GEMM algorithm by timing, as level compiled does");
  app.add_option(
      "--memory-limit", o->memory_limit,
      "limit the memory of this process, such as 4GiB: what does not fit then fails to allocate");
  add_bench_run_options(app, o->run);
  app.footer(
      letters_help() +
      "\nCtrl-C ends a sweep after the present point and prints what was measured.\n"
      "Examples:\n"
      "  ridge bench op softmax\n"
      "  ridge bench op matmul --shape n=256,k=256,m=256 --dtype bf16 --device cpu --threads 1 --json\n"
      "  ridge bench op matmul --sweep n=k=m=64:256*2 --fit --format md\n"
      "  ridge bench op matmul --sweep n=k=m=512:8192*2 --counts\n"
      "  ridge bench op attention --shape b=1,h=16,k=4,t=4096,e=128 --causal --hardware a6000 --dtype bf16\n"
      "  ridge bench op attention --shape h=2,k=2,t=128 --causal --implementation all --backward\n"
      "  ridge bench op gemv --shape k=1024,m=1024 --dtype q8_0 --cold");
  app.callback([o, app, &context] { run(*o, app, context); });
}

}  // namespace ridge::apps
