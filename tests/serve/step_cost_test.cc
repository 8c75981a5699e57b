// SPDX-License-Identifier: Apache-2.0
// The cost of steps against the counts of the whole graph and against closed forms, and that shares
// add up.
#include "serve/step_cost.h"

#include "ops/registry.h"
#include "serve/real_model.h"

namespace ridge::serve {
namespace {

class StepCostTest : public testing::TestWithParam<const char*> {
 protected:
  static constexpr int64_t kSlots = 4, kChunk = 8;
  StepCostTest() : file_(models::ModelFile::open(data_folder() + GetParam())) {}

  models::InferenceShape shape(int64_t tokens, int64_t context) const {
    const models::CacheShape cache = models::cache_shape(
        {.slots = kSlots, .capacity = 192, .window = file_.config().window, .chunk = kChunk});
    return {models::InferenceTask::kPrefill, tokens, context, true, cache};
  }
  LinearWork model() const {
    return model_work(
        models::build_inference_graph(file_.config(), ops::table(), shape(6, 64), file_.lookup())
            .graph);
  }
  cost::ProgramGraph costed(const models::InferenceShape& shape) const {
    const passes::Selection selection("compiled", "-tune_gemm");
    return cost::program_graph("step", build_bucket(file_, shape, selection, cpu_backend()).graph,
                               1, cpu_backend());
  }

  models::ModelFile file_;
};

// One token for each slot, and each attends to all keys that the graph allows: nothing is padding,
// so the counts are those of the graph.
TEST_P(StepCostTest, OfAFullStepIsThatOfItsGraph) {
  const LinearWork work = model();
  const int64_t context = 64;
  const cost::ProgramGraph graph = costed(shape(kSlots, context));
  const BucketCost cost(work, *graph.costed);
  StepCost sum;
  for (const StepCost& each :
       cost.share(std::vector<PartExtent>(kSlots, {.begin = context - 1, .tokens = 1})))
    sum += each;
  const cost::NodeCost whole = cost::total(graph.costed->costs);
  EXPECT_EQ(sum.executed_flops, whole.work.flops);
  EXPECT_EQ(sum.read_bytes, whole.read_bytes);
  EXPECT_EQ(sum.written_bytes, whole.written_bytes);
  EXPECT_EQ(sum.model, cost::model_totals(graph.graph()).forward);
  EXPECT_EQ(sum.needed_bytes,
            cost::parameter_bytes(*graph.costed) +
                kSlots * models::seen_bytes(file_.config(), context, DType::kF32));
}

// Whatever shares the step, and however a prompt is cut, the model's work on a sequence is the
// same.
TEST_P(StepCostTest, OfTheModelIsThatOfTheSequence) {
  const LinearWork work = model();
  const cost::ProgramGraph small = costed(shape(8, 64)), large = costed(shape(16, 192));
  const BucketCost a(work, *small.costed), b(work, *large.costed);
  const StepCost whole = a.share(std::vector<PartExtent>{{0, 8, true}})[0];
  StepCost cut = b.share(std::vector<PartExtent>{{30, 5, true}, {0, 3, false}})[1];
  for (int64_t p = 3; p < 8; ++p)
    cut += b.share(std::vector<PartExtent>{{p, 1, p == 7}, {100, 9, false}})[0];
  EXPECT_EQ(cut.model, whole.model);
  // 2 MACs per key, head and element, in each layer.
  const models::ModelConfig& c = file_.config();
  const Work near = b.share(std::vector<PartExtent>{{0, 1, true}})[0].model,
             far = b.share(std::vector<PartExtent>{{1, 1, true}})[0].model;
  EXPECT_EQ(far.macs - near.macs, 2 * c.layers * c.heads * c.head_size);
}

TEST_P(StepCostTest, SharesAddUp) {
  const LinearWork work = model();
  const cost::ProgramGraph graph = costed(shape(16, 192));
  const BucketCost cost(work, *graph.costed);
  const auto sum_of = [&](const std::vector<PartExtent>& parts) {
    StepCost sum;
    for (const StepCost& each : cost.share(parts)) sum += each;
    return sum;
  };
  // The same tokens at the same positions, in two parts and in one; and a part that samples nothing
  // changes nothing for the kernels.
  const StepCost one = sum_of({{0, 13, true}}), silent = sum_of({{0, 13, false}});
  EXPECT_EQ(one.executed_flops, silent.executed_flops);
  EXPECT_EQ(one.read_bytes, silent.read_bytes);
  const StepCost three = sum_of({{0, 13, true}, {0, 1, true}, {0, 1, false}});
  EXPECT_EQ(three.written_bytes, one.written_bytes);
  // Two more pairs of a token and its own key, in all layers.
  const StepCost first = sum_of({{0, 1, true}}), second = sum_of({{1, 1, true}});
  EXPECT_EQ(three.executed_flops - one.executed_flops,
            2 * (second.executed_flops - first.executed_flops));
  EXPECT_EQ(three.read_bytes - one.read_bytes, 2 * (second.read_bytes - first.read_bytes));
}

INSTANTIATE_TEST_SUITE_P(All,
                         StepCostTest,
                         testing::Values("llama_fp32", "gemma3_bf16", "qwen2_fp32", "qwen3_bf16"));

}  // namespace
}  // namespace ridge::serve
