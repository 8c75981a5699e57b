// SPDX-License-Identifier: Apache-2.0
// Plans the steps of all ranks.
#include "planning/rank_plan.h"

#include "base/error.h"
#include "cost/predict.h"
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
  const int64_t sharing = given.selection.number("train_tensor_parallel").value_or(1);
  if (ranks % sharing != 0)
    throw usage_error("[ranks] expected a multiple of the {} that share a model, got {}", sharing,
                      ranks);
  std::vector<std::string> texts;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    train::TrainingSetup setup = given;
    setup.step.shard = {rank / sharing, ranks / sharing, nullptr, rank % sharing, sharing};
    const train::TrainingStep step = train::build_step(setup, target);
    std::string& text = texts.emplace_back();
    for (const train::StepGraph& graph : step.graphs) {
      std::vector<plan::Collective> collectives;
      plan::append_collectives(graph.name, graph.graph, collectives);
      text += plan::collectives_text(collectives);
      for (const plan::Collective& each : collectives)
        if (rank == 0) plan.collectives.push_back(planned_collective(each, graph.repeat, ceilings));
    }
    const record::RunRecord record = plan_step(setup, step, target, rank == 0 ? ceilings : nullptr);
    plan.executed_flops += static_cast<double>(record.executed.flops);
    if (rank % sharing == 0) plan.model_flops += static_cast<double>(record.model.step().flops);
    if (rank == 0) {
      plan.record = record;
      plan.record.step.nodes.clear();
    }
    listener("ranks", "ranks", fmt::format("rank {}", rank));
  }
  if (const std::string mismatch = plan::first_mismatch(texts); !mismatch.empty())
    throw usage_error("[ranks] expected every rank to run the same collectives; {}", mismatch);
  plan.one_rank_flops = flops_of_one_rank(given, ranks / sharing, target);
  return plan;
}

}  // namespace ridge::planning
