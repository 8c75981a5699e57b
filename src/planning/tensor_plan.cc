// SPDX-License-Identifier: Apache-2.0
// Plans the decode steps of all ranks.
#include "planning/tensor_plan.h"

#include "base/error.h"
#include "planning/phase_plan.h"
#include "planning/rank_plan.h"
#include "serve/bucket.h"

namespace ridge::planning {
namespace {

cost::ProgramGraph decode_step(const models::ModelFile& file,
                               const serve::PhaseSetup& e,
                               const passes::PassTarget& target,
                               int64_t rank) {
  const serve::SessionOptions options =
      serve::checked(serve::session_options(e, e.length), file.config());
  const models::InferenceShape shape =
      serve::bucket_shape(models::InferenceTask::kDecode, e.batch, e.length, e.batch, true,
                          serve::cache_of(options, file.config()));
  return cost::program_graph(
      "decode", serve::build_bucket(file, shape, e.selection, target, rank).graph, 1, target);
}

double flops(const cost::ProgramGraph& graph) {
  return static_cast<double>(cost::total(graph.costed->costs).work.flops);
}

}  // namespace

record::RankPlan plan_tensor_ranks(const models::ModelFile& file,
                                   const serve::PhaseSetup& setup,
                                   const passes::Selection& alone,
                                   const passes::PassTarget& target,
                                   const cost::Ceilings* ceilings,
                                   const SearchListener& listener) {
  record::RankPlan plan;
  plan.ranks = setup.selection.tensor_ranks();
  std::vector<std::string> texts;
  for (int64_t rank = 0; rank < plan.ranks; ++rank) {
    const cost::ProgramGraph step = decode_step(file, setup, target, rank);
    std::vector<plan::Collective> collectives;
    plan::append_collectives(step.name, step.graph(), collectives);
    texts.push_back(plan::collectives_text(collectives));
    for (const plan::Collective& each : collectives)
      if (rank == 0) plan.collectives.push_back(planned_collective(each, step.repeat, ceilings));
    plan.executed_flops += flops(step);
    listener("ranks", "ranks", fmt::format("rank {}", rank));
  }
  if (const std::string mismatch = plan::first_mismatch(texts); !mismatch.empty())
    throw usage_error("[ranks] expected every rank to run the same collectives; {}", mismatch);
  const record::PhasePlan phases = plan_phases(file, setup, target, ceilings);
  plan.record = phases.records.decode;
  plan.record.memory.owned_bytes = phases.owned_bytes;
  plan.model_flops = static_cast<double>(plan.record.model.step().flops);
  serve::PhaseSetup whole = setup;
  whole.selection = alone;
  plan.one_rank_flops = flops(decode_step(file, whole, target, 0));
  return plan;
}

}  // namespace ridge::planning
