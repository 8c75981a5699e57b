// SPDX-License-Identifier: Apache-2.0
// ridge bench attention: the forms of attention by length, until the standard form fails to allocate. Not a subcommand.
#include "apps/bench_attention.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "apps/bench_run.h"
#include "apps/tuning_files.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/printable.h"
#include "base/units.h"
#include "bench/attention_choice.h"
#include "bench/op_shapes.h"

namespace ridge::apps {
namespace {

constexpr int64_t kLongest = int64_t{1} << 22;
constexpr int64_t kPageTokens = 16;

struct BenchAttentionOptions {
  int64_t batch = 1;
  int64_t heads = 16;
  int64_t kv_heads = 16;
  std::string head_sizes = "64";
  std::string lengths;
  std::string phases = "prefill";
  std::string dtypes = "fp32";
  std::string forms = "all";
  bool is_backward = false;
  double budget_s = 60;
  BenchRunOptions run;
};

// A way to attend, and in which phase.
struct Form {
  std::string_view name;
  std::string_view implementation;  // of the op
  bool decodes;
  bool is_paged;
};
constexpr std::array kForms = {
    Form{"standard", "standard", false, false},
    Form{"memory-efficient", "memory-efficient", false, false},
    Form{"flash", "flash", false, false},
    Form{"standard", "standard", true, false},
    Form{"flash", "paged", true, false},  // one kernel over one block a sequence
    Form{"paged", "paged", true, true}};

std::vector<std::string> words(const std::string& text) {
  std::vector<std::string> all;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    all.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return all;
}

std::vector<Form> choose_forms(const std::string& names, bool decodes) {
  std::vector<Form> chosen;
  const std::vector<std::string> asked = words(names);
  for (const std::string& each : asked)
    if (each != "all" &&
        std::none_of(kForms.begin(), kForms.end(), [&](const Form& f) { return f.name == each; }))
      throw usage_error(
          "[form] expected all or some of standard, memory-efficient, flash (and paged in decode), got {}",
          printable(each));
  for (const Form& each : kForms)
    if (each.decodes == decodes &&
        (names == "all" || std::count(asked.begin(), asked.end(), each.name) > 0))
      chosen.push_back(each);
  return chosen;
}

// Runs this program with other arguments; what it prints on stdout, and its exit code.
struct ChildOutput {
  int code = -1;
  std::string text;
};
ChildOutput run_child(std::vector<std::string> arguments) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw runtime_error("[attention] cannot make a pipe");
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  arguments.insert(arguments.begin(), "ridge");
  std::vector<char*> argv;
  for (std::string& each : arguments) argv.push_back(each.data());
  argv.push_back(nullptr);
  pid_t child = -1;
  const int fault =
      ::posix_spawn(&child, "/proc/self/exe", &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  ChildOutput output;
  std::array<char, 4096> part;
  for (ssize_t size; fault == 0 && (size = ::read(ends[0], part.data(), part.size())) > 0;)
    output.text.append(part.data(), static_cast<size_t>(size));
  ::close(ends[0]);
  if (fault != 0) throw runtime_error("[attention] cannot start a child of this program");
  int status = 0;
  ::waitpid(child, &status, 0);
  output.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return output;
}

class AttentionBench {
 public:
  AttentionBench(const BenchAttentionOptions& o, const AppContext& context)
      : o_(o), run_(o.run, context, false), progress_("attention", 0, "points", context.terminal) {
    bench_.kind = "attention";
    bench_.name =
        fmt::format("attention of {} heads, {} KV heads, batch {}", o.heads, o.kv_heads, o.batch);
    bench_.dtype = o.dtypes;
    bench_.swept = "t";
    left_ns_ = 1e9 * o.budget_s;
  }

  void run(const std::vector<int64_t>& lengths, bool goes_on) {
    const std::vector<int64_t> sizes = parse_sizes(o_.head_sizes, "head-size");
    for (const std::string& phase : words(o_.phases))
      for (const std::string& dtype : words(o_.dtypes))
        for (int64_t size : sizes) {
          const bool decodes = phase == "decode";
          const size_t first = bench_.points.size();
          for (const Form& form : choose_forms(o_.forms, decodes))
            measure_form(form, bench::parse_trial_type(dtype), size, lengths, goes_on && !decodes);
          add_winners(first, fmt::format("{}, {}, head size {}", phase, dtype, size));
          keep_choices(first, decodes, size, bench::parse_trial_type(dtype));
        }
    progress_.hide();
    run_.finish(std::move(bench_));
  }

 private:
  void measure_form(const Form& form,
                    const bench::TrialType& type,
                    int64_t size,
                    std::vector<int64_t> lengths,
                    bool goes_on) {
    bool has_failed = false;
    for (size_t i = 0; i < lengths.size() && !run_.is_stopped(); ++i) {
      bench_.points.push_back(measure(form, type, size, lengths[i], has_failed));
      if (run_.is_stopped()) bench_.points.pop_back();
      progress_.tick(1, fmt::format("{} {}", form.name, lengths[i]));
      // On until the matrix of scores does not fit.
      if (goes_on && form.name == "standard" && i + 1 == lengths.size() && !has_failed &&
          lengths[i] < kLongest && run_.is_on_this_machine() && !o_.run.runs_nothing())
        lengths.push_back(2 * lengths[i]);
    }
  }

  record::BenchPoint measure(const Form& form,
                             const bench::TrialType& type,
                             int64_t size,
                             int64_t length,
                             bool& has_failed) {
    const bench::AttentionCall call{form.decodes, o_.is_backward, o_.batch, o_.heads,
                                    o_.kv_heads,  size,           length,   type};
    const auto [trial, setting, request] =
        bench::attention_graph(call, form.implementation, form.is_paged ? kPageTokens : length);
    const bench::OpShape& op =
        *bench::find_op_shape(form.decodes ? "cached_attention" : "attention");
    record::BenchPoint point =
        bench::plan_trial(trial, setting, run_.target(setting.selection),
                          o_.run.is_counts ? nullptr : &run_.ceilings());
    const bool runs = run_.is_on_this_machine() && !o_.run.runs_nothing() && point.refused.empty();
    if (runs && has_failed)
      point.refused = "a shorter one failed to allocate";
    else if (runs && does_not_fit(point))
      point.refused = failure(op, request, setting.is_backward), has_failed = true;
    else if (runs && point.predicted_ns > left_ns_ / 8)
      point.refused = fmt::format("would take {}, and {} of the budget are left",
                                  format_ns(point.predicted_ns), format_ns(left_ns_));
    else if (runs)
      point = timed(trial, setting);
    point.name = "attention";
    point.extents = {{"t", length}, {"e", size}};
    point.form = form.name;
    point.phase = form.decodes ? "decode" : o_.is_backward ? "prefill and backward" : "prefill";
    point.dtype = type.name;
    return point;
  }

  record::BenchPoint timed(const bench::TrialGraph& trial, bench::TrialSetting setting) {
    const double begin = now_ns();
    record::BenchPoint point = run_.point(trial, setting);
    left_ns_ = std::max(0.0, left_ns_ - (now_ns() - begin));
    return point;
  }

  bool does_not_fit(const record::BenchPoint& point) {
    const int64_t left = run_.backend({"baseline", ""}).available_bytes();
    return left > 0 && point.owned_bytes > left - left / 8;
  }

  // A child that may allocate what is free now tries it; the parent goes on.
  std::string failure(const bench::OpShape& op, const bench::OpRequest& request, bool is_backward) {
    const int64_t left = run_.backend({"baseline", ""}).available_bytes();
    std::vector<std::string> line{"bench",
                                  "op",
                                  op.name,
                                  "--shape",
                                  record::str(request.extents),
                                  "--causal",
                                  "--implementation",
                                  request.implementation.name,
                                  "--dtype",
                                  request.type.name,
                                  "--memory-limit",
                                  std::to_string(left - left / 8),
                                  "--seconds",
                                  "0.001",
                                  "--json"};
    std::erase_if(line,
                  [&](const std::string& each) { return each == "--causal" && !op.has_causal; });
    if (is_backward) line.push_back("--backward");
    if (!o_.run.machine.device.empty())
      line.insert(line.end(), {"--device", o_.run.machine.device});
    if (o_.run.machine.threads > 0)
      line.insert(line.end(), {"--threads", std::to_string(o_.run.machine.threads)});
    const ChildOutput child = run_child(line);
    const nlohmann::json json = nlohmann::json::parse(child.text, nullptr, false);
    if (!json.is_discarded() && json.contains("cases") && !json["cases"].empty()) {
      const std::string refused = json["cases"].back().value("refused", "");
      if (!refused.empty()) return "fails to allocate: " + refused;
      return "took more memory than was planned to be free, and ran";
    }
    return fmt::format("fails to allocate: a child with {} ended with exit code {}",
                       format_bytes(left - left / 8), child.code);
  }

  // Which form wins at which lengths.
  void add_winners(size_t first, const std::string& where) {
    std::string text;
    std::set<int64_t> lengths;
    for (size_t i = first; i < bench_.points.size(); ++i)
      lengths.insert(bench_.points[i].extents[0].second);
    std::string last;
    for (int64_t length : lengths) {
      const record::BenchPoint* best = nullptr;
      int candidates = 0;
      for (size_t i = first; i < bench_.points.size(); ++i) {
        const record::BenchPoint& each = bench_.points[i];
        if (each.extents[0].second != length || !(each.ns() > 0) || !each.refused.empty()) continue;
        ++candidates;
        if (best == nullptr || each.ns() < best->ns()) best = &each;
      }
      if (best == nullptr || candidates < 2 || best->form == last) continue;
      text += fmt::format("{}{} from {}", text.empty() ? "" : ", ", best->form, length);
      last = best->form;
    }
    if (!text.empty()) bench_.notes.push_back(fmt::format("{}: the fastest is {}.", where, text));
  }

  // What --attention auto takes where both of its forms were measured.
  void keep_choices(size_t first, bool decodes, int64_t size, const bench::TrialType& type) {
    std::map<int64_t, std::map<std::string, double>> times;  // by length and form
    for (size_t i = first; i < bench_.points.size(); ++i)
      if (bench_.points[i].is_measured())
        times[bench_.points[i].extents[0].second][bench_.points[i].form] =
            bench_.points[i].time.median;
    std::erase_if(times, [](const auto& each) {
      return !each.second.contains("flash") || !each.second.contains("standard") ||
             !std::has_single_bit(static_cast<uint64_t>(each.first));
    });
    if (times.empty()) return;
    bench::AttentionChoices choices = attention_choices(o_.run.machine);
    for (const auto& [length, ns] : times)
      choices.keep({decodes, o_.is_backward && !decodes, o_.batch, o_.heads, o_.kv_heads, size,
                    length, type},
                   ns.at("flash"), ns.at("standard"));
  }

  const BenchAttentionOptions& o_;
  BenchRun run_;
  Progress progress_;
  record::BenchRecord bench_;
  double left_ns_ = 0;
};

void run(const BenchAttentionOptions& o, const Command& app, const AppContext& context) {
  check(o.run, app);
  constexpr double kMostSeconds = 24 * 3600;
  if (!(o.budget_s > 0 && o.budget_s <= kMostSeconds))
    throw usage_error("[budget] expected more than 0 and at most {:g} seconds, got {:g}",
                      kMostSeconds, o.budget_s);
  for (const auto& [option, value] : {std::pair{"batch-size", o.batch}, std::pair{"heads", o.heads},
                                      std::pair{"kv-heads", o.kv_heads}})
    if (value < 1 || value > (1 << 20))
      throw usage_error("[{}] expected 1 to {}, got {}", option, 1 << 20, value);
  for (const std::string& each : words(o.phases))
    if (each != "prefill" && each != "decode")
      throw usage_error("[phase] expected some of prefill, decode, got {}", printable(each));
  for (const std::string& each : words(o.dtypes)) {
    const bench::TrialType type = bench::parse_trial_type(each);
    if (type.weights != type.activations || type.is_tf32)
      throw usage_error("[dtype] expected some of fp32, bf16, got {}", printable(each));
  }
  choose_forms(o.forms, false);
  std::vector<int64_t> lengths;
  if (o.lengths.empty())
    for (int64_t t = 256; t <= 32768; t *= 2) lengths.push_back(t);
  else
    lengths = parse_sizes(o.lengths, "seq-len");
  for (int64_t each : lengths)
    if (each > kLongest) throw usage_error("[seq-len] expected at most {}, got {}", kLongest, each);
  AttentionBench(o, context).run(lengths, o.lengths.empty());
}

}  // namespace

void add_bench_attention(Command bench, const AppContext& context) {
  auto o = std::make_shared<BenchAttentionOptions>();
  Command app = bench.add_subcommand("attention", "Compare the forms of attention by length");
  app.add_option("--batch-size", o->batch, "sequences").show_default();
  app.add_option("--heads", o->heads, "query heads").show_default();
  app.add_option("--kv-heads", o->kv_heads, "heads of keys and values").show_default();
  app.add_option("--head-size", o->head_sizes, "elements of a head").numbers().show_default();
  app.add_option(
         "--seq-len", o->lengths,
         "lengths (default: 256 to 32768 by factors of 2, and of the standard form on until it fails to allocate)")
      .numbers();
  app.add_option("--phase", o->phases, "some of prefill, decode").show_default();
  app.add_option("--dtype", o->dtypes, "some of fp32, bf16").show_default();
  app.add_option(
         "--form", o->forms,
         "all, or some of standard, memory-efficient, flash; in decode standard, flash, paged")
      .show_default();
  app.add_flag("--backward", o->is_backward, "prefill: forward and backward together");
  app.add_option("--budget", o->budget_s, "seconds for all points; those beyond it are predicted")
      .show_default();
  add_bench_run_options(app, o->run);
  app.footer(
      "standard keeps the T x T scores in memory; memory-efficient those of 256 queries at a time; flash none. paged reads a\n"
      "KV cache in blocks of 16 positions. Where the standard form needs more memory than is free, a child process that may\n"
      "allocate that much tries it and says how it failed. Where flash and standard were measured, --attention auto of train and\n"
      "generate takes the faster (ridge tune list).\n"
      "Examples:\n"
      "  ridge bench attention --heads 4 --kv-heads 2 --seq-len 64,128 --phase prefill,decode --seconds 0.01\n"
      "  ridge bench attention --head-size 64,128 --hardware h100 --dtype bf16 --format md");
  app.callback([o, app, &context] { run(*o, app, context); });
}

}  // namespace ridge::apps
