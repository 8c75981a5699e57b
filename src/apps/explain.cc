// SPDX-License-Identifier: Apache-2.0
// ridge explain: shows the passes of a step, its graph and the cost of its nodes before anything
// runs. Also shows the results in an output folder, or the list of all passes.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "apps/model_options.h"
#include "apps/subcommand.h"
#include "apps/this_machine.h"
#include "backends/cpu/isa.h"
#include "ops/registry.h"
#include "planning/explain_text.h"
#include "planning/step_plan.h"
#include "record/rank_ring.h"
#include "report/command_text.h"
#include "report/exchange_text.h"
#include "report/rank_files.h"

namespace ridge::apps {
namespace {

struct ExplainOptions {
  TrainingOptions training;
  bool graph = false;
  bool plain = false;
  std::string node;
  std::string op;
  std::string folder;
  std::string hang;
  bool passes = false;
  bool json = false;
  bool verbose = false;
};

void explain_passes(const ExplainOptions& o,
                    const train::TrainingSetup& setup,
                    const backends::Backend& backend,
                    const cost::Ceilings& ceilings,
                    const TerminalOptions& terminal) {
  std::vector<record::PassCost> costs;
  {
    const auto added = std::ssize(planning::added_passes(setup.selection, backend));
    Progress progress("costing", added, "passes", terminal);
    costs = planning::pass_costs(setup, backend, ceilings,
                                 [&](std::string_view pass) { progress.tick(1, pass); });
  }
  if (o.json) return fmt::print("{}", report::json_text(report::pass_costs_json(costs)));
  const std::string heading = planning::passes_heading(setup, costs.back().planned, o.verbose);
  fmt::print(
      "{}\n{}{}\n{}", wrap_lines(heading, terminal.columns),
      report::pass_costs_text(costs, ceilings.source, o.verbose, terminal),
      planning::passes_off_text(setup.selection, backend.passes(), o.verbose, terminal.columns),
      wrap_lines("See also: --passes, --graph, --op matmul, --node %12 (a value of the graph)",
                 terminal.columns));
}

void explain_hang(const ExplainOptions& o, const TerminalOptions& terminal) {
  const record::Hang hang = record::find_hang(record::read_rings(o.hang));
  if (o.json) return fmt::print("{}", report::json_text(record::hang_json(hang)));
  report::Table table(
      "<rank | <host ?2 | process ?3 | <state | <arrived | waited | <collective ?1");
  for (const record::RankAtHang& each : hang.ranks)
    table.add({std::to_string(each.rank.rank), terminal_safe(each.rank.host),
               std::to_string(each.rank.process), terminal_safe(each.rank.state),
               each.has_arrived ? "yes" : "no", fmt::format("{:.1f} s", each.waited_s),
               fmt::format("{}: {}", each.own.number, terminal_safe(each.own.str()))});
  fmt::print("{}{}", wrap_lines(terminal_safe(hang.str(), kLongestMessage), terminal.columns),
             table.text(terminal));
}

void explain_folder(const ExplainOptions& o, const TerminalOptions& terminal) {
  const record::SummaryFile summary = record::read_summary(o.folder);
  const auto exchange = report::read_exchange(std::filesystem::path(o.folder));
  if (o.json)
    return fmt::print(
        "{}", report::json_text(report::add_ranks(exchange, report::summary_json(summary))));
  fmt::print("{}", report::summary_text(summary, o.verbose, terminal));
  if (exchange) fmt::print("\n{}", report::exchange_text(*exchange, terminal));
}

void explain_step(const ExplainOptions& o, const Command& app, const TerminalOptions& terminal) {
  const TrainingChoice choice = choose_training(o.training, app);
  const auto backend = make_backend(o.training.machine, choice.selection);
  expect_effect(choice.switches, passes::Serves::kTraining, *backend);
  const train::TrainingSetup setup = choice.setup(o.training.machine);
  auto ceilings = [&] {
    return machine_ceilings(o.training.machine,
                            {.tf32 = choice.selection.has("tf32"), .has_inference = false},
                            terminal);
  };
  if (!o.graph && o.node.empty() && o.op.empty())
    return explain_passes(o, setup, *backend, ceilings(), terminal);
  train::TrainingStep step = train::build_step(setup, *backend);
  if (o.graph) return fmt::print("{}", planning::graphs_text(step, !o.plain));
  const cost::Ceilings found = ceilings();
  const planning::PricedStep priced{std::move(step), *backend, found};
  fmt::print("{}", o.node.empty()
                       ? planning::op_text(priced, o.op, terminal)
                       : wrap_lines(planning::value_text(priced, o.node), terminal.columns));
}

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
  Option op = app.add_option(
      "--op", o->op, "show the cost formula of this op (matmul, rms_norm ...) and its nodes");
  Option node = app.add_option(
      "--node", o->node, "show the cost of the node that produces a value (%12), or its readers");
  Option passes = app.add_flag("--passes", o->passes,
                               "list all passes in order, with backend, purpose and level of each");
  Option hang = app.add_option("--hang", o->hang,
                               "compare the last collectives of each rank, which a run that failed "
                               "left in this folder, and name the first mismatch");
  Option json = app.add_flag(
      "--json", o->json, "print the passes, their costs, the hang, or the results in DIR, as JSON");
  app.add_verbose_flag(o->verbose).excludes(json);
  // The questions exclude each other. Graphs, ops and nodes have no JSON form.
  Option questions[] = {folder, graph, op, node, hang};
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
      "  ridge explain lab-out --json            the same for programs\n"
      "  ridge explain --hang log                which rank kept the others waiting, and where");
  app.callback([o, app, &context] {
    app.refuse_unused(
        {{.is_chosen = !o->folder.empty(),
          .name = "on a folder of results",
          .used = {"DIR", "--json", "--verbose"}},
         {.is_chosen = !o->hang.empty(), .name = "with --hang", .used = {"--hang", "--json"}},
         {.is_chosen = o->passes, .name = "with --passes", .used = {"--passes", "--json"}},
         {!o->graph, "without --graph", {"--plain"}},
         {o->graph || !o->op.empty() || !o->node.empty(),
          "with --graph, --op or --node",
          {"--verbose"}}});
    if (!o->hang.empty())
      explain_hang(*o, context.terminal);
    else if (o->passes)
      fmt::print("{}", o->json ? planning::pass_list_json()
                               : planning::pass_list_text(context.terminal.columns));
    else if (!o->op.empty() && &ops::table().at(o->op) == &ops::quantized_matmul_op()) {
      backends::cpu::set_isa(o->training.machine.isa);
      fmt::print("{}",
                 planning::quantized_table_text(backends::cpu::quantized_isa(), context.terminal));
    } else if (o->folder.empty()) {
      explain_step(*o, app, context.terminal);
    } else {
      explain_folder(*o, context.terminal);
    }
  });
}

}  // namespace ridge::apps
