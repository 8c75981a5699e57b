// SPDX-License-Identifier: Apache-2.0
// Measures each form at each length, as far as memory and the budget allow.
#include "bench/attention_bench.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/clock.h"
#include "base/error.h"
#include "base/printable.h"
#include "base/split.h"
#include "base/units.h"
#include "bench/extents.h"
#include "bench/module_trial.h"

namespace ridge::bench {
namespace {

constexpr int64_t kPageTokens = 16;

struct ChildOutput {
  int code = -1;
  std::string text;  // on stdout
};

ChildOutput run_child(std::vector<std::string> arguments) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw runtime_error("[attention] cannot make a pipe");
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
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

// Runs `ridge bench op` with these arguments and --memory-limit in a child of this program, which
// may allocate only what is free, and says how it failed to allocate.
std::string failure_of_child(std::vector<std::string> arguments, int64_t limit_bytes) {
  arguments.insert(arguments.begin(), {"ridge", "bench", "op"});
  arguments.insert(arguments.end(),
                   {"--memory-limit", std::to_string(limit_bytes), "--seconds", "0.001", "--json"});
  const ChildOutput child = run_child(std::move(arguments));
  const nlohmann::json json = nlohmann::json::parse(child.text, nullptr, false);
  if (!json.is_discarded() && json.contains("cases") && !json["cases"].empty()) {
    const std::string refused = json["cases"].back().value("refused", "");
    if (!refused.empty()) return "fails to allocate: " + refused;
    return "took more memory than was planned to be free, and ran";
  }
  return fmt::format("fails to allocate: a child with {} ended with exit code {}",
                     format_bytes(limit_bytes), child.code);
}

// A machine on which nothing runs here refuses what its sheet says it cannot hold. Courses print
// decimal units.
void refuse_unfit(const TrialRunner& runner, record::BenchPoint& point) {
  const cost::Machine& machine = runner.ceilings().machine;
  if (runner.runs() || machine.memory_bytes == 0 || point.owned_bytes <= machine.memory_bytes)
    return;
  point.refused = fmt::format("needs {:.1f} GB of the {:.1f} GB of {}",
                              static_cast<double>(point.owned_bytes) / 1e9,
                              static_cast<double>(machine.memory_bytes) / 1e9, machine.device);
  point.lacks_memory = true;
  point.predicted_ns = point.limit_ns = 0;
}

// Notes what flash attention gains over the standard form at each length where both have a time, of
// the points from `first` on.
void add_gains(record::BenchRecord& bench, size_t first) {
  std::map<int64_t, std::map<std::string, const record::BenchPoint*>> by_length;
  for (size_t i = first; i < bench.points.size(); ++i)
    if (const record::BenchPoint& each = bench.points[i]; each.ns() > 0 && each.refused.empty())
      by_length[each.extents[0].second][each.form] = &each;
  std::string text;
  for (const auto& [length, forms] : by_length) {
    if (!forms.contains("standard") || !forms.contains("flash")) continue;
    const record::BenchPoint &standard = *forms.at("standard"), &flash = *forms.at("flash");
    if (standard.is_measured() != flash.is_measured() || flash.owned_bytes == 0) continue;
    if (text.empty())
      text = fmt::format("{}, {}, head size {}, flash over standard, time and memory:", flash.phase,
                         flash.dtype, flash.extents[1].second);
    else
      text += ",";
    text += fmt::format(
        " {:.2f} and {:.2f} times less at {}", standard.ns() / flash.ns(),
        static_cast<double>(standard.owned_bytes) / static_cast<double>(flash.owned_bytes), length);
  }
  if (!text.empty()) bench.notes.push_back(text + ".");
}

}  // namespace

std::vector<std::string> child_arguments(const OpShape& op,
                                         const OpRequest& request,
                                         const AttentionBenchOptions& options) {
  std::vector<std::string> line{op.name, "--shape", record::str(request.extents)};
  if (op.has_causal && request.is_causal) line.emplace_back("--causal");
  line.insert(line.end(),
              {"--implementation", request.implementation.name, "--dtype", request.type.name});
  if (options.is_backward && op.name == "attention") line.emplace_back("--backward");
  const backends::MachineOptions& machine = options.machine;
  if (!machine.device.empty()) line.insert(line.end(), {"--device", machine.device});
  if (machine.threads > 0) line.insert(line.end(), {"--threads", std::to_string(machine.threads)});
  return line;
}

// A way to attend, and in which phase.
struct AttentionBench::Form {
  std::string_view name;
  std::string_view implementation;  // the op's name of it
  bool decodes;
  bool is_paged;
};

struct AttentionBench::Case {
  bool decodes = false;
  TrialType type;
  int64_t head_size = 64;
};

std::vector<AttentionBench::Form> AttentionBench::chosen_forms(bool decodes) const {
  static constexpr std::array kForms = {
      Form{"standard", "standard", false, false},
      Form{"memory-efficient", "memory-efficient", false, false},
      Form{"flash", "flash", false, false},
      Form{"standard", "standard", true, false},
      Form{"flash", "paged", true, false},  // one kernel over one block a sequence
      Form{"paged", "paged", true, true}};
  const std::vector<std::string> asked = split(o_.forms);
  for (const std::string& each : asked)
    if (each != "all" &&
        std::none_of(kForms.begin(), kForms.end(), [&](const Form& f) { return f.name == each; }))
      throw usage_error(
          "[form] expected all or some of standard, memory-efficient, flash (and paged in decode), got {}",
          printable(each));
  std::vector<Form> chosen;
  for (const Form& each : kForms)
    if (each.decodes == decodes &&
        (o_.forms == "all" || std::count(asked.begin(), asked.end(), each.name) > 0))
      chosen.push_back(each);
  return chosen;
}

AttentionBench::AttentionBench(const AttentionBenchOptions& o)
    : o_(o), head_sizes_(parse_sizes(o.head_sizes, "head-size")), left_ns_(1e9 * o.budget_s) {
  constexpr double kMostSeconds = 24 * 3600;
  if (!(o.budget_s > 0 && o.budget_s <= kMostSeconds))
    throw usage_error("[budget] expected more than 0 and at most {:g} seconds, got {:g}",
                      kMostSeconds, o.budget_s);
  if (!o.lengths.empty()) lengths_ = parse_sizes(o.lengths, "seq-len");
  for (int64_t t = 256; o.lengths.empty() && t <= 32768; t *= 2) lengths_.push_back(t);
  for (const auto& [option, value] : {std::pair{"batch-size", o.batch}, std::pair{"heads", o.heads},
                                      std::pair{"kv-heads", o.kv_heads}})
    if (value < 1 || value > (1 << 20))
      throw usage_error("[{}] expected 1 to {}, got {}", option, 1 << 20, value);
  for (const std::string& each : split(o.phases))
    if (each != "prefill" && each != "decode")
      throw usage_error("[phase] expected some of prefill, decode, got {}", printable(each));
  for (const std::string& each : split(o.dtypes)) {
    const TrialType type = parse_trial_type(each, o.is_gpu_sheet);
    if (type.weights != type.activations || type.is_tf32)
      throw usage_error("[dtype] expected some of fp32, bf16, fp16, got {}", printable(each));
  }
  check_bytes_name(o.bytes);
  chosen_forms(false);
  for (int64_t each : lengths_)
    if (each > kLongestAttention)
      throw usage_error("[seq-len] expected at most {}, got {}", kLongestAttention, each);
  bench_.kind = "attention";
  bench_.name = fmt::format("attention of {} heads, {} KV heads, batch {}{}", o.heads, o.kv_heads,
                            o.batch, o.is_causal ? "" : ", no mask");
  bench_.bytes = o.bytes;
  bench_.dtype = o.dtypes;
  if (o.is_gpu_sheet && o.dtypes.find("fp16") != std::string::npos)
    bench_.notes.emplace_back(kSheetFp16Note);
  bench_.swept = "t";
  bench_.axis = "tokens of a sequence";
}

record::BenchRecord AttentionBench::run(TrialRunner& runner, const PointListener& listener) {
  runner_ = &runner;
  listener_ = &listener;
  for (const std::string& phase : split(o_.phases))
    for (const std::string& dtype : split(o_.dtypes))
      for (int64_t size : head_sizes_) {
        const Case at{phase == "decode", parse_trial_type(dtype, o_.is_gpu_sheet), size};
        const size_t first = bench_.points.size();
        for (const Form& form : chosen_forms(at.decodes)) measure_form(form, at);
        add_winners(first, at);
        if (o_.bytes == "ridge") add_gains(bench_, first);  // the same bytes have the same limit
        keep_choices(first, at);
      }
  return std::move(bench_);
}

void AttentionBench::measure_form(const Form& form, const Case& at) {
  std::vector<int64_t> lengths = lengths_;
  bool has_failed = false;
  for (size_t i = 0; i < lengths.size() && !runner_->is_stopped(); ++i) {
    record::BenchPoint point = measure(form, at, lengths[i], has_failed);
    if (!runner_->is_stopped()) bench_.points.push_back(std::move(point));
    (*listener_)(1, fmt::format("{} {}", form.name, lengths[i]));
    const bool is_last = i + 1 == lengths.size();
    if (o_.lengths.empty() && !at.decodes && form.name == "standard" && is_last && !has_failed &&
        lengths[i] < kLongestAttention && runner_->runs())
      lengths.push_back(2 * lengths[i]);
  }
}

AttentionCall AttentionBench::call(const Case& at, int64_t length) const {
  return {at.decodes,   o_.is_backward, o_.batch, o_.heads,    o_.kv_heads,
          at.head_size, length,         at.type,  o_.is_causal};
}

record::BenchPoint AttentionBench::measure(const Form& form,
                                           const Case& at,
                                           int64_t length,
                                           bool& has_failed) {
  const AttentionTrialGraph graph =
      attention_graph(call(at, length), form.implementation, form.is_paged ? kPageTokens : length);
  record::BenchPoint point = runner_->plan(graph.trial, graph.setting);
  const bool runs = runner_->runs() && point.refused.empty();
  if (runs && has_failed)
    point.refused = "a shorter one failed to allocate";
  else if (const int64_t left = runs ? free_bytes() : 0; left > 0 && point.owned_bytes > left)
    point.refused =
        failure(*find_op_shape(at.decodes ? "cached_attention" : "attention"), graph.request),
    has_failed = true;
  else if (runs && point.predicted_ns > left_ns_ / 8)
    point.refused = fmt::format("would take {}, and {} of the budget are left",
                                format_ns(point.predicted_ns), format_ns(left_ns_));
  else if (runs)
    point = timed(graph);
  point.name = "attention";
  point.extents = {{"t", length}, {"e", at.head_size}};
  point.form = form.name;
  point.phase = at.decodes ? "decode" : o_.is_backward ? "prefill and backward" : "prefill";
  point.dtype = at.type.name;
  point.unfused_bytes =
      three_pass_softmax_bytes({o_.batch, o_.heads, at.decodes ? 1 : length, length, at.head_size},
                               storage_bytes(at.type.activations, 1));
  if (o_.bytes != "ridge") limit_by_unfused_bytes(runner_->ceilings(), at.type.activations, point);
  refuse_unfit(*runner_, point);
  return point;
}

record::BenchPoint AttentionBench::timed(const AttentionTrialGraph& graph) {
  const double begin = now_ns();
  record::BenchPoint point = runner_->point(graph.trial, graph.setting);
  left_ns_ = std::max(0.0, left_ns_ - (now_ns() - begin));
  return point;
}

// An eighth stays for other programs. 0: unknown.
int64_t AttentionBench::free_bytes() {
  const int64_t left = runner_->backend({"baseline", ""}).available_bytes();
  return left - left / 8;
}

// A child that may allocate what is free now tries it; the parent goes on.
std::string AttentionBench::failure(const OpShape& op, const OpRequest& request) {
  return failure_of_child(child_arguments(op, request, o_), free_bytes());
}

// Notes which form wins at which lengths.
void AttentionBench::add_winners(size_t first, const Case& at) {
  std::map<int64_t, std::vector<const record::BenchPoint*>> by_length;
  for (size_t i = first; i < bench_.points.size(); ++i) {
    const record::BenchPoint& each = bench_.points[i];
    if (each.ns() > 0 && each.refused.empty()) by_length[each.extents[0].second].push_back(&each);
  }
  std::string text, last;
  for (const auto& [length, points] : by_length) {
    const record::BenchPoint& best = **std::ranges::min_element(
        points, {}, [](const record::BenchPoint* each) { return each->ns(); });
    if (points.size() < 2 || best.form == last) continue;
    text += fmt::format("{}{} from {}", text.empty() ? "" : ", ", best.form, length);
    last = best.form;
  }
  if (!text.empty())
    bench_.notes.push_back(fmt::format("{}, {}, head size {}: the fastest is {}.",
                                       at.decodes ? "decode" : "prefill", at.type.name,
                                       at.head_size, text));
}

void AttentionBench::keep_choices(size_t first, const Case& at) const {
  std::map<int64_t, std::map<std::string, double>> times;  // by length and form
  for (size_t i = first; i < bench_.points.size(); ++i)
    if (bench_.points[i].is_measured())
      times[bench_.points[i].extents[0].second][bench_.points[i].form] =
          bench_.points[i].time.median;
  for (const auto& [length, ns] : times) {
    if (!at.decodes && !o_.is_causal) return;  // models attend causally
    if (!ns.contains("flash") || !ns.contains("standard") ||
        !std::has_single_bit(static_cast<uint64_t>(length)))
      continue;
    AttentionCall kept = call(at, length);
    kept.is_backward = o_.is_backward && !at.decodes;
    attention_choices(o_.machine).keep(kept, ns.at("flash"), ns.at("standard"));
  }
}

}  // namespace ridge::bench
