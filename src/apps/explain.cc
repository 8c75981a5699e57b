// SPDX-License-Identifier: Apache-2.0
// ridge explain: shows the passes of a step, its graph and the cost of its nodes before anything
// runs. Also shows the results in an output folder, or the list of all passes.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/explain_folder.h"
#include "apps/explain_node.h"
#include "apps/machine_ceilings.h"
#include "apps/model_options.h"
#include "apps/pass_list.h"
#include "apps/quantized_table.h"
#include "apps/subcommand.h"
#include "backends/cpu/isa.h"
#include "base/error.h"
#include "base/printable.h"
#include "base/units.h"
#include "graph/text_form.h"
#include "ops/registry.h"
#include "planning/step_plan.h"
#include "report/brief_report.h"
#include "report/json_text.h"

namespace ridge::apps {
namespace {

struct ExplainOptions {
  TrainingOptions training;
  bool graph = false;
  bool plain = false;
  std::string node;
  std::string op;
  std::string folder;
  bool passes = false;
  bool json = false;
  bool verbose = false;
};

// The step after a pass and all passes before it.
struct Rung {
  const passes::Pass* pass = nullptr;  // null: only the passes that every step needs
  record::RunRecord planned;
};

class Explanation {
 public:
  Explanation(const ExplainOptions& options, const Command& app, const TerminalOptions& terminal)
      : o_(options),
        terminal_(terminal),
        choice_(options.training, app),
        backend_(make_backend(options.training.machine, choice_.selection)) {
    expect_effect(choice_.switches, passes::Serves::kTraining, *backend_);
  }

  void run() {
    if (!o_.graph && o_.node.empty() && o_.op.empty()) return overview();
    train::TrainingStep step = build(choice_.selection);
    if (o_.graph) {
      for (const train::StepGraph& each : step.graphs)
        fmt::print("{}{}", heading(each),
                   print(each.graph, {.origins = !o_.plain, .scopes = true}));
      return;
    }
    find_ceilings();
    if (o_.op.empty()) return show_node(step, value_id(o_.node));
    for (const train::StepGraph& each : step.graphs)
      fmt::print("{}{}", step.graphs.size() > 1 ? heading(each) : "",
                 ExplainedGraph(each.graph, *backend_, ceilings_)
                     .op_text(ops::table().at(o_.op), terminal_));
  }

 private:
  static std::string heading(const train::StepGraph& each) {
    return fmt::format("# {}: {} run(s) per step\n", each.name, each.repeat);
  }

  void find_ceilings() {
    ceilings_ = machine_ceilings(o_.training.machine, choice_.selection.has("tf32"), terminal_);
  }

  // Each graph numbers its values, so several graphs may have a value of this number.
  void show_node(const train::TrainingStep& step, ValueId value) const {
    std::string text;
    size_t values = 0;
    for (const train::StepGraph& each : step.graphs) {
      values = std::max(values, each.graph.values.size());
      if (!has_value(each.graph, value)) continue;
      if (step.graphs.size() > 1) text += heading(each);
      text += ExplainedGraph(each.graph, *backend_, ceilings_).value_text(value);
    }
    if (text.empty())
      throw usage_error("[node] expected a value from %0 to %{}, got %{}", values - 1, value);
    print_lines(text);
  }

  train::TrainingStep build(const passes::Selection& selection) const {
    return train::build_step(choice_.model.config, choice_.step, selection, ops::table(),
                             *backend_);
  }

  record::RunRecord plan(const passes::Selection& selection) const {
    measure::TrainingExperiment e =
        make_experiment(choice_.model, o_.training.machine, selection, choice_.switches);
    e.step = choice_.step;
    return planning::plan_step(e, *backend_, &ceilings_);
  }

  // Adds passes in the order of the pipeline. Each rung is the whole step with gradient and update.
  std::vector<Rung> climb() const {
    const passes::Selection baseline("baseline", "");
    std::vector<const passes::Pass*> added;
    for (const passes::Pass* pass : passes::pipeline(backend_->passes()))
      if (choice_.selection.has(pass->name) && !baseline.has(pass->name)) added.push_back(pass);
    std::vector<Rung> rungs{{nullptr, plan(baseline)}};
    std::string on;
    Progress progress("costing", static_cast<int64_t>(added.size()), "passes", terminal_);
    for (const passes::Pass* pass : added) {
      on += (on.empty() ? "+" : ",+") + choice_.selection.spelling(pass->name);
      rungs.push_back({pass, plan(passes::Selection("baseline", on))});
      progress.tick(1, pass->name);
    }
    return rungs;
  }

  void overview() {
    find_ceilings();
    std::vector<Rung> rungs = climb();
    if (o_.json) return print_json(rungs);
    record::RunRecord& whole = rungs.back().planned;
    // Rungs are switches on the first level; the title should name the requested level.
    whole.setting.level = choice_.selection.level();
    whole.setting.switches = choice_.switches;
    print_lines(fmt::format("{}: {} parameters, {} tokens per step",
                            terminal_safe(whole.setting.str()), format_integer(whole.parameters),
                            format_integer(whole.setting.tokens())));
    if (o_.verbose) print_lines("passes on: " + passes_on());
    fmt::print("\n{}\n",
               rung_table(rungs).text(o_.verbose ? terminal_ : report::fitted(terminal_)));
    // Adapters are work that the rows before their pass do not have.
    const bool is_same_work = std::all_of(rungs.begin(), rungs.end(), [&](const Rung& each) {
      return each.planned.model.step() == whole.model.step();
    });
    print_lines(fmt::format(
        "Model FLOPs per step: {} ({} MACs){}. Executed FLOPs: {}. "
        "Compulsory bytes: {}.\n"
        "Each row is the whole step with all passes up to that row. Ceilings: {}.",
        format_count(static_cast<double>(whole.model.step().flops)),
        format_count(static_cast<double>(whole.model.step().macs)),
        is_same_work ? ", the same in every row" : " in the last row",
        format_count(static_cast<double>(whole.executed.flops)),
        format_bytes(whole.compulsory_bytes), terminal_safe(ceilings_.source, kLongestMessage)));
    list_the_rest();
  }

  std::string passes_on() const {
    std::string names = choice_.selection.str();
    for (size_t at = 0; (at = names.find(',', at)) != std::string::npos; at += 2)
      names.replace(at, 1, ", ");
    return names;
  }

  void print_lines(const std::string& text) const {
    fmt::print("{}", wrap_lines(text, terminal_.columns));
  }

  void list_the_rest() const {
    std::string names;
    if (o_.verbose) fmt::print("\nPasses that are off (--pass +NAME turns one on):\n");
    for (const passes::Pass* pass : passes::pipeline(backend_->passes())) {
      if (choice_.selection.has(pass->name)) continue;
      names += (names.empty() ? "" : ", ") + std::string(pass->name);
      if (o_.verbose)
        fmt::print("  {}\n{}", pass->name, wrap_lines(pass->summary, terminal_.columns, "    "));
    }
    if (!o_.verbose) print_lines("Passes that are off (--pass +NAME turns one on): " + names + ".");
    fmt::print("\n");
    print_lines(
        "See also: --passes, --graph, --op matmul, --node %12 (a "
        "value of the graph)");
  }

  // Whether a rung's graph costs what the one before costs.
  static bool is_idle(const record::RunRecord& before, const record::RunRecord& after) {
    return before.launches == after.launches && before.executed.flops == after.executed.flops &&
           before.planned_bytes == after.planned_bytes &&
           before.memory.owned_bytes == after.memory.owned_bytes &&
           before.predicted_ns == after.predicted_ns;
  }

  // Without --verbose, passes that change no cost are named in the last row.
  Table rung_table(const std::vector<Rung>& rungs) const {
    Table table({{"pass", Align::kLeft},
                 {"calls"},
                 {"FLOPs", Align::kRight, 1},
                 {"bytes", Align::kRight, 3},
                 {"memory", Align::kRight, 2},
                 {"predicted"},
                 {"change"},
                 {"what it does", Align::kLeft, 4}});
    double before = 0;
    int64_t idle = 0;
    for (size_t i = 0; i < rungs.size(); ++i) {
      const Rung& rung = rungs[i];
      const record::RunRecord& r = rung.planned;
      if (!o_.verbose && i > 0 && is_idle(rungs[i - 1].planned, r)) {
        ++idle;
        continue;
      }
      table.add({rung.pass == nullptr ? "(baseline)" : std::string(rung.pass->name),
                 format_integer(r.launches), format_count(static_cast<double>(r.executed.flops)),
                 format_bytes(r.planned_bytes), format_bytes(r.memory.owned_bytes),
                 format_ns(r.predicted_ns),
                 before > 0 ? fmt::format("{:+.1f}%", 100 * (r.predicted_ns / before - 1)) : "",
                 rung.pass == nullptr ? std::string(passes::levels()[0].summary)
                                      : std::string(rung.pass->summary)});
      before = r.predicted_ns;
    }
    if (idle > 0)
      table.add({fmt::format("({} without effect)", idle), "", "", "", "", "", "",
                 "change no cost of this step (--verbose names them)"});
    return table;
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
    fmt::print("{}", report::json_text(json));
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
  TrainingChoice choice_;
  std::unique_ptr<backends::Backend> backend_;
  cost::Ceilings ceilings_;
};

}  // namespace

void register_explain(Command program, const AppContext& context) {
  auto o = std::make_shared<ExplainOptions>();
  Command app = program.add_subcommand(
      "explain", "Show a step's passes, graph and costs, or the results of a run");
  Option folder = app.add_option(
      "DIR", o->folder,
      "show the results in this output folder of ridge lab, infer-lab, train or import");
  add_training_options(app, o->training);
  add_micro_batch_option(app, o->training);
  add_tuning_options(app, o->training);
  Option graph = app.add_flag("--graph", o->graph, "print the graph after all passes as text");
  app.add_flag("--plain", o->plain, "with --graph: omit the origins of nodes");
  Option op = app.add_option("--op", o->op, "show the cost formula of an op and its nodes");
  Option node = app.add_option(
      "--node", o->node, "show the cost of the node that produces a value (%12), or its readers");
  Option passes = app.add_flag("--passes", o->passes,
                               "list all passes in order, with backend, purpose and level of each");
  Option json = app.add_flag("--json", o->json,
                             "print the passes, their costs, or the results in DIR, as JSON");
  app.add_verbose_flag(o->verbose).excludes(json);
  // The questions exclude each other. Graphs, ops and nodes have no JSON form.
  Option questions[] = {folder, graph, op, node};
  for (Option other : questions) passes.excludes(other);
  for (size_t i = 0; i < std::size(questions); ++i)
    for (size_t j = 0; j < i; ++j) questions[i].excludes(questions[j]);
  for (Option other : {graph, op, node}) json.excludes(other);
  app.footer(
      "Examples:\n"
      "  ridge explain                           cost of a step after each pass\n"
      "  ridge explain --passes                  all passes, and the levels that add them\n"
      "  ridge explain --preset tiny --level fused --graph\n"
      "  ridge explain --op flash_attention      its formula and its nodes in the step\n"
      "  ridge explain --op quantized_matmul     how the CPU chooses the kernels of quantized weights\n"
      "  ridge explain --node %12                the node that computes %12, or its readers\n"
      "  ridge explain lab-out                   results of a finished run\n"
      "  ridge explain lab-out --json            the same for programs");
  app.callback([o, app, &context] {
    app.refuse_unused(
        {{.is_chosen = !o->folder.empty(),
          .name = "on a folder of results",
          .used = {"DIR", "--json", "--verbose"}},
         {.is_chosen = o->passes, .name = "with --passes", .used = {"--passes", "--json"}},
         {!o->graph, "without --graph", {"--plain"}},
         {o->graph || !o->op.empty() || !o->node.empty(),
          "with --graph, --op or --node",
          {"--verbose"}}});
    if (o->passes)
      fmt::print("{}", o->json ? pass_list_json() : pass_list_text(context.terminal.columns));
    else if (!o->op.empty() && &ops::table().at(o->op) == &ops::quantized_matmul_op()) {
      backends::cpu::set_isa(o->training.machine.isa);
      fmt::print("{}", quantized_table_text(backends::cpu::quantized_isa(), context.terminal));
    } else if (o->folder.empty())
      Explanation(*o, app, context.terminal).run();
    else
      explain_folder(o->folder, {o->json, o->verbose}, context.terminal);
  });
}

}  // namespace ridge::apps
