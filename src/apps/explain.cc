// SPDX-License-Identifier: Apache-2.0
// ridge explain: what a step is made of, before anything runs: its passes, its graph, the cost of a
// node. Given an output folder, what a run found; or the list of all passes.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/explain_node.h"
#include "apps/machine_ceilings.h"
#include "apps/model_options.h"
#include "apps/pass_list.h"
#include "apps/subcommand.h"
#include "base/error.h"
#include "base/printable.h"
#include "base/units.h"
#include "graph/text_form.h"
#include "ops/registry.h"
#include "record/summary_file.h"

namespace ridge::apps {
namespace {

struct ExplainOptions {
  ModelOptions model;
  LevelOptions level;
  MachineOptions machine;
  int64_t batch_size = 0;
  int64_t sequence = 0;
  int64_t micro_batches = 1;
  bool graph = false;
  bool plain = false;
  std::string node;
  std::string op;
  std::string folder;
  bool passes = false;
  bool json = false;
};

// The step after each pass that is on, the ones before it included.
struct Rung {
  const passes::Pass* pass = nullptr;  // null: no pass but those that nothing runs without
  record::RunRecord planned;
};

class Explanation {
 public:
  Explanation(const ExplainOptions& options, const Command& app, const TerminalOptions& terminal)
      : o_(options), terminal_(terminal), choice_(choose_model(options.model)) {
    switches_ = switch_text(o_.level);
    selection_ = passes::Selection(o_.level.level, switches_);
    step_.batch_size = chosen_size(app, "--batch-size", o_.batch_size, choice_.batch_size);
    step_.sequence = chosen_size(app, "--seq-len", o_.sequence, choice_.sequence);
    step_.micro_batches = chosen_size(app, "--micro-batches", o_.micro_batches, 1);
    backend_ = make_backend(o_.machine, selection_);
  }

  void run() {
    if (!o_.graph && o_.node.empty() && o_.op.empty()) return overview();
    train::TrainingStep step = build(selection_);
    if (o_.graph) {
      for (const train::StepGraph& each : step.graphs)
        fmt::print("{}{}", heading(each),
                   print(each.graph, {.origins = !o_.plain, .scopes = true}));
      return;
    }
    ceilings_ = machine_ceilings(o_.machine, selection_.has("tf32"), terminal_);
    if (o_.op.empty()) return show_node(step, value_id(o_.node));
    for (const train::StepGraph& each : step.graphs)
      fmt::print("{}{}", step.graphs.size() > 1 ? heading(each) : "",
                 explain_op(each.graph, ops::table().at(o_.op), *backend_, ceilings_, terminal_));
  }

 private:
  static std::string heading(const train::StepGraph& each) {
    return fmt::format("# {}, run {} time(s) a step\n", each.name, each.repeat);
  }

  // Graphs number their values apart: a name may stand for a node in each. Where none makes it, the
  // last one's Error says what it is.
  void show_node(const train::TrainingStep& step, ValueId value) const {
    std::string text;
    for (const train::StepGraph& each : step.graphs) {
      bool is_last_chance = text.empty() && &each == &step.graphs.back();
      if (!is_last_chance && !makes(each.graph, value)) continue;
      if (step.graphs.size() > 1) text += heading(each);
      text += explain_node(each.graph, value, *backend_, ceilings_);
    }
    fmt::print("{}", text);
  }

  train::TrainingStep build(const passes::Selection& selection) const {
    return train::build_step(choice_.config, step_, selection, ops::table(), *backend_);
  }

  record::RunRecord plan(const passes::Selection& selection) const {
    measure::TrainingExperiment e;
    e.setting = make_setting(choice_.name, o_.machine, selection, switches_);
    e.config = choice_.config;
    e.step = step_;
    return measure::planned_training(e, build(selection), *backend_, &ceilings_);
  }

  // Passes are added in the order of the pipeline; each
  // rung is the whole step, gradient and update included.
  std::vector<Rung> climb() const {
    const passes::Selection baseline("baseline", "");
    std::vector<const passes::Pass*> added;
    for (const passes::Pass* pass : passes::pipeline(backend_->passes()))
      if (selection_.has(pass->name) && !baseline.has(pass->name)) added.push_back(pass);
    std::vector<Rung> rungs{{nullptr, plan(baseline)}};
    std::string on;
    Progress progress("costing", static_cast<int64_t>(added.size()), "passes", terminal_);
    for (const passes::Pass* pass : added) {
      on += (on.empty() ? "+" : ",+") + std::string(pass->name);
      rungs.push_back({pass, plan(passes::Selection("baseline", on))});
      progress.tick(1, pass->name);
    }
    return rungs;
  }

  void overview() {
    ceilings_ = machine_ceilings(o_.machine, selection_.has("tf32"), terminal_);
    std::vector<Rung> rungs = climb();
    if (o_.json) return print_json(rungs);
    record::RunRecord& whole = rungs.back().planned;
    // The rungs are spelled as switches on the first level
    whole.setting.level = selection_.level();
    whole.setting.switches = switches_;
    fmt::print("{}: {} parameters, {} tokens a step\n", terminal_safe(whole.setting.str()),
               format_integer(whole.parameters), format_integer(whole.setting.tokens()));
    fmt::print("on: {}\n\n{}", selection_.str(), rung_table(rungs).text(terminal_));
    fmt::print(
        "\nmodel FLOPs a step {} ({} MACs), the same in every row; executed {}; compulsory bytes "
        "{}\n",
        format_count(static_cast<double>(whole.model.step().flops)),
        format_count(static_cast<double>(whole.model.step().macs)),
        format_count(static_cast<double>(whole.executed.flops)),
        format_bytes(whole.compulsory_bytes));
    fmt::print("Each row is the whole step with the passes up to it; ceilings: {}.\n",
               terminal_safe(ceilings_.source));
    list_the_rest();
  }

  void list_the_rest() const {
    fmt::print("\noff (--pass +NAME turns one on):\n");
    for (const passes::Pass* pass : passes::pipeline(backend_->passes()))
      if (!selection_.has(pass->name)) fmt::print("  {:<28} {}\n", pass->name, pass->summary);
    fmt::print("\nMore: --passes, --graph, --op matmul, --node %12 (a value of the graph)\n");
  }

  Table rung_table(const std::vector<Rung>& rungs) const {
    Table table({{"pass", Align::kLeft},
                 {"calls", Align::kRight},
                 {"FLOPs", Align::kRight},
                 {"bytes", Align::kRight},
                 {"memory", Align::kRight},
                 {"predicted", Align::kRight},
                 {"change", Align::kRight},
                 {"what it does", Align::kLeft}});
    double before = 0;
    for (const Rung& rung : rungs) {
      const record::RunRecord& r = rung.planned;
      table.add({rung.pass == nullptr ? "(baseline)" : std::string(rung.pass->name),
                 format_integer(r.launches), format_count(static_cast<double>(r.executed.flops)),
                 format_bytes(r.planned_bytes), format_bytes(r.memory.owned_bytes),
                 format_ns(r.predicted_ns),
                 before > 0 ? fmt::format("{:+.1f}%", 100 * (r.predicted_ns / before - 1)) : "",
                 rung.pass == nullptr ? std::string(passes::levels()[0].summary)
                                      : what_it_does(*rung.pass)});
      before = r.predicted_ns;
    }
    return table;
  }

  static std::string what_it_does(const passes::Pass& pass) {
    std::string text(pass.summary);
    return pass.trade.empty() ? text : fmt::format("{} (trades: {})", text, pass.trade);
  }

  static void print_json(const std::vector<Rung>& rungs) {
    auto json = nlohmann::ordered_json::array();
    for (const Rung& rung : rungs) {
      const record::RunRecord& r = rung.planned;
      json.push_back({{"pass", rung.pass == nullptr ? "" : rung.pass->name},
                      {"kernel_calls", r.launches},
                      {"executed_flops", r.executed.flops},
                      {"model_flops", r.model.step().flops},
                      {"planned_bytes", r.planned_bytes},
                      {"owned_bytes", r.memory.owned_bytes},
                      {"predicted_ns", r.predicted_ns}});
    }
    fmt::print("{}\n", json.dump(2));
  }

  // "%12" or "12".
  static ValueId value_id(std::string_view text) {
    std::string_view digits = text.starts_with('%') ? text.substr(1) : text;
    ValueId id = kNoValue;
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), id);
    if (error != std::errc() || end != digits.data() + digits.size())
      throw usage_error("[node] expected a value of the graph such as %12, got {}",
                        printable(text));
    return id;
  }

  const ExplainOptions& o_;
  const TerminalOptions& terminal_;
  ModelChoice choice_;
  std::string switches_;
  passes::Selection selection_{"baseline", ""};
  train::StepOptions step_;
  std::unique_ptr<backends::Backend> backend_;
  cost::Ceilings ceilings_;
};

std::string run_text(const record::SummaryRun& run, const TerminalOptions& options) {
  Table table({{run.setting.str() + ": op", Align::kLeft},
               {"calls", Align::kRight},
               {"time", Align::kRight},
               {"share", Align::kRight},
               {"rate", Align::kRight},
               {"traffic", Align::kRight},
               {"bound", Align::kLeft},
               {"could gain", Align::kRight}});
  for (const record::SummaryOperation& op : run.by_op) {
    // What the step would gain if this op ran as fast as the ceilings allow.
    double gain = op.predicted_ns > 0 ? std::max(0.0, op.time_ns - op.predicted_ns) : 0;
    table.add({terminal_safe(op.key), format_integer(op.calls), format_ns(op.time_ns),
               fmt::format("{:.1f}%", 100 * op.share),
               op.flops_per_s > 0 ? format_rate(op.flops_per_s, "FLOP/s") : "-",
               format_rate(op.bytes_per_s, "B/s"), terminal_safe(op.bound), format_ns(gain)});
  }
  return "\n" + table.text(options);
}

void explain_folder(const std::string& folder, const TerminalOptions& options) {
  record::SummaryFile summary = record::read_summary(folder);
  fmt::print("{} on {}, {}\n\n", terminal_safe(summary.command), terminal_safe(summary.device),
             terminal_safe(summary.finished_at));
  Table table({{"run", Align::kLeft},
               {"step", Align::kRight},
               {"95% interval", Align::kRight},
               {"predicted", Align::kRight},
               {"speed-up", Align::kRight},
               {"calls", Align::kRight},
               {"tokens/s", Align::kRight},
               {"MFU", Align::kRight},
               {"memory", Align::kRight},
               {"mean loss", Align::kRight},
               {"agrees", Align::kLeft}});
  for (const record::SummaryRun& run : summary.runs)
    table.add({terminal_safe(run.setting.str()), format_ns(run.step.median),
               fmt::format("{} - {}", format_ns(run.step.low), format_ns(run.step.high)),
               format_ns(run.predicted_ns), fmt::format("{:.2f}x", run.speed_up),
               format_integer(run.kernel_calls), format_count(run.tokens_per_s),
               fmt::format("{:.1f}%", 100 * run.mfu), format_bytes(run.measured_peak_bytes),
               run.mean_loss ? fmt::format("{:.4f}", *run.mean_loss) : "-",
               !run.mean_loss     ? "-"
               : run.losses_agree ? "yes"
                                  : "NO"});
  fmt::print("{}", table.text(options));
  for (const record::SummaryRun& run : summary.runs)
    if (!run.by_op.empty()) fmt::print("{}", run_text(run, options));
  for (const record::SummaryAdvice& advice : summary.advice)
    fmt::print("\nadvice: {} ({}), predicted {:+.1f}%: {}\n", terminal_safe(advice.title),
               terminal_safe(advice.command), 100 * advice.gain, terminal_safe(advice.reason));
  for (const std::string& warning : summary.warnings)
    fmt::print("warning: {}\n", terminal_safe(warning));
}

}  // namespace

void register_explain(Command program, const AppContext& context) {
  auto o = std::make_shared<ExplainOptions>();
  Command app = program.add_subcommand(
      "explain", "Show a step's passes, graph and costs, or what a run found");
  Option folder =
      app.add_option("DIR", o->folder, "an output folder of ridge lab or ridge train, to analyse");
  add_model_options(app, o->model);
  app.add_option("--batch-size", o->batch_size,
                 "sequences of a micro-batch (default: the preset's)");
  app.add_option("--seq-len", o->sequence, "tokens a sequence (default: the preset's)");
  app.add_option("--micro-batches", o->micro_batches, "micro-batches a step").show_default();
  Option graph =
      app.add_flag("--graph", o->graph, "print the graph as text, as the passes leave it");
  app.add_flag("--plain", o->plain, "with --graph: leave out provenance");
  Option op =
      app.add_option("--op", o->op, "the cost formula of an op, and its nodes in this step");
  Option node = app.add_option("--node", o->node,
                               "one node's cost with its formula, by the value that it makes: %12");
  Option passes = app.add_flag("--passes", o->passes,
                               "list all passes in order: what they do, for whom, at which level");
  Option json = app.add_flag("--json", o->json, "print the passes and their costs as JSON");
  // One question at a time. The list of passes is told as JSON too.
  Option questions[] = {folder, graph, op, node, json};
  for (Option other : {folder, graph, op, node}) passes.excludes(other);
  for (size_t i = 0; i < std::size(questions); ++i)
    for (size_t j = 0; j < i; ++j) questions[i].excludes(questions[j]);
  add_level_options(app, o->level);
  add_machine_options(app, o->machine);
  app.footer(
      "Examples:\n"
      "  ridge explain                               what each pass of level compiled changes in a "
      "step\n"
      "  ridge explain --passes                      all passes, and the levels that add them\n"
      "  ridge explain --preset tiny --level fused --graph\n"
      "  ridge explain --op flash_attention          its formula and the nodes of the step\n"
      "  ridge explain lab-out                       the analysis of a finished run");
  app.callback([o, app, &context] {
    if (o->passes)
      fmt::print("{}", o->json ? pass_list_json() : pass_list_text(context.terminal.columns));
    else if (o->folder.empty())
      Explanation(*o, app, context.terminal).run();
    else
      explain_folder(o->folder, context.terminal);
  });
}

}  // namespace ridge::apps
