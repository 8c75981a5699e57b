// SPDX-License-Identifier: Apache-2.0
// Plans the steps of all ranks.
#include "planning/rank_plan.h"

#include <utility>

#include "base/error.h"
#include "cost/predict.h"
#include "planning/stage_times.h"
#include "planning/step_plan.h"

namespace ridge::planning {

record::PlannedCollective planned_collective(const plan::Collective& each,
                                             int64_t repeat,
                                             const cost::Ceilings* ceilings) {
  record::PlannedCollective made;
  made.op = each.op, made.graph = each.graph, made.scope = each.scope;
  made.phase = each.phase, made.group = each.group, made.ranks = each.ranks;
  made.tensors = std::ssize(each.tensors);
  for (const Type& type : each.tensors)
    made.bytes += storage_bytes(type.dtype, type.shape.elements());
  made.sent_bytes = each.sent_bytes;
  made.repeat = repeat;
  if (ceilings != nullptr) made.predicted_ns = ceilings->link(each.ranks).ns(each.sent_bytes);
  return made;
}

namespace {

plan::RankLayout layout_of(const train::TrainingSetup& setup, int64_t ranks) {
  plan::RankLayout layout{1, setup.selection.number("train_tensor_parallel").value_or(1),
                          setup.step.shard.stages};
  if (ranks % layout.ranks() != 0)
    throw usage_error("[ranks] expected a multiple of the {} that share a model, got {}",
                      layout.ranks(), ranks);
  layout.data = ranks / layout.ranks();
  return layout;
}

// The micro-batches of a pipeline exchange the same, one after the other.
void add(record::PlannedCollective made,
         bool is_pipeline,
         std::vector<record::PlannedCollective>& all) {
  for (record::PlannedCollective& each : all)
    if (is_pipeline && each.op == made.op && each.graph == made.graph && each.scope == made.scope &&
        each.phase == made.phase && each.group == made.group && each.bytes == made.bytes) {
      each.repeat += made.repeat;
      return;
    }
  all.push_back(std::move(made));
}

// The FLOPs of one rank for the sequences of all, of which `batches` ranks have their own.
double flops_of_one_rank(train::TrainingSetup setup,
                         int64_t batches,
                         const passes::PassTarget& target) {
  setup.step.batch_size *= batches;
  setup.step.shard = {};
  std::string& switches = setup.setting.switches;
  switches += ",-data_parallel,-zero,-train_tensor_parallel,-sequence_parallel";
  setup.selection = passes::Selection(setup.selection.level(), switches);
  return static_cast<double>(plan_step(setup, target, nullptr).executed.flops);
}

}  // namespace

record::RankPlan plan_ranks(const train::TrainingSetup& given,
                            int64_t ranks,
                            const passes::PassTarget& target,
                            const cost::Ceilings* ceilings,
                            const SearchListener& listener) {
  record::RankPlan plan;
  plan.ranks = ranks;
  const plan::RankLayout layout = layout_of(given, ranks);
  plan.stages = layout.pipeline;
  std::vector<std::string> texts;
  std::vector<std::vector<StageEvent>> stages;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    train::TrainingSetup setup = given;
    setup.step.shard = {layout.data_rank(rank),   layout.data,    nullptr,
                        layout.tensor_rank(rank), layout.tensor,  nullptr,
                        layout.stage(rank),       layout.pipeline};
    const train::TrainingStep step = train::build_step(setup, target);
    if (ceilings != nullptr && layout.pipeline > 1 && rank % layout.of_stage() == 0)
      stages.push_back(stage_events(step, target, *ceilings));
    std::string& text = texts.emplace_back();
    for (const train::StepGraph& graph : step.graphs) {
      std::vector<plan::Collective> collectives;
      plan::append_collectives(graph.name, graph.graph, collectives);
      text += plan::collectives_text(collectives);
      for (const plan::Collective& each : collectives)
        if (rank == 0)
          add(planned_collective(each, graph.repeat, ceilings), layout.pipeline > 1,
              plan.collectives);
    }
    const record::RunRecord record = plan_step(setup, step, target, rank == 0 ? ceilings : nullptr);
    plan.executed_flops += static_cast<double>(record.executed.flops);
    if (layout.tensor_rank(rank) == 0)
      plan.model_flops += static_cast<double>(record.model.step().flops);
    if (rank == 0) {
      plan.record = record;
      plan.record.step.nodes.clear();
    }
    listener("ranks", "ranks", fmt::format("rank {}", rank));
  }
  if (const std::string mismatch = plan::first_mismatch(texts, layout); !mismatch.empty())
    throw usage_error("[ranks] expected every rank to run the same collectives; {}", mismatch);
  if (!stages.empty()) {
    const StageTimes times = simulate(stages);
    plan.step_ns = times.step_ns, plan.bubble_share = times.bubble_share();
  }
  plan.one_rank_flops = flops_of_one_rank(given, layout.data, target);
  return plan;
}

}  // namespace ridge::planning
