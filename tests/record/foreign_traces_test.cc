// SPDX-License-Identifier: Apache-2.0
// Traces that others recorded, against the counts that other tools made of them. They lie beside
// the project, and tests of what is not there are skipped.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>
#include <string>

#include "files/json.h"
#include "record/foreign_files.h"
#include "record/import/imported_ranks.h"
#include "record/trace_text.h"
#include "test_paths.h"

namespace ridge::record {
namespace {

using Json = nlohmann::json;

Imported import_of(const std::string& name, const std::string& capture = "") {
  Imported imported;
  imported.trace = read_trace(foreign_traces() / (name + ".json.gz"));
  if (!capture.empty())
    join_capture(imported.trace, read_trace(foreign_traces() / (capture + ".json.gz")));
  imported.steps = imported_steps(imported.trace);
  imported.run = imported_run(imported.trace, imported.steps, nullptr);
  return imported;
}

// MACs by family of operations.
std::map<std::string, int64_t> macs(const RunRecord& run) {
  std::map<std::string, int64_t> sums;
  for (const NodeRecord& node : run.step.nodes) {
    if (node.work.macs == 0) continue;
    std::string family = node.op.substr(0, node.op.find("_backward"));
    if (family == "attention") family = "flash_attention";
    sums[family] += node.work.macs;
  }
  return sums;
}

double attributed(const Imported& imported) {
  return imported.steps.attribution.attributed_share();
}

class H200Trace : public testing::TestWithParam<const char*> {};

// The counter has products, convolution and attention; recurrent networks and experts follow from
// their forward pass, once for the values and twice for the gradients.
TEST_P(H200Trace, HasTheFlopsThatPyTorchCounts) {
  SKIP_WITHOUT_TRACES();
  const std::string name = GetParam();
  const Json fact = files::read_json(foreign_traces() / "h200/facts.json").at(name);
  int64_t counted = 0;
  for (const auto& [op, flops] : fact.at("flops_per_step").items())
    if (!(name.starts_with("llama") && op == "aten.bmm")) counted += flops.get<int64_t>();
  if (const Json& more = fact.at("by_hand"); !more.is_null())
    for (const char* part : {"lstm_forward_macs", "expert_forward_macs"})
      if (more.contains(part)) counted += 6 * more.at(part).get<int64_t>();
  // The counter ran on eager attention, whose backward pass has 4 products and flash attention's 5.
  if (name.starts_with("llama")) {
    const auto scores = fact.at("flops_per_step").at("aten.bmm").get<int64_t>();
    counted += name.find("prefill") == std::string::npos ? scores / 6 * 7 : scores;
  }
  const Imported imported = import_of("h200/" + name);
  int64_t found = 0;
  for (const auto& [family, each] : macs(imported.run)) found += 2 * each;
  EXPECT_NEAR(static_cast<double>(found), static_cast<double>(counted),
              1e-3 * static_cast<double>(counted));
  EXPECT_GT(attributed(imported), 0.98);
}
INSTANTIATE_TEST_SUITE_P(All,
                         H200Trace,
                         testing::Values("resnet50_fp32",
                                         "lstm_fp32",
                                         "llama_bf16_compiled",
                                         "llama_bf16_eager",
                                         "llama_prefill_bf16",
                                         "mixtral_bf16_eager",
                                         "t5_amp_eager",
                                         "sdpa_cudnn_attention",
                                         "sdpa_math"),
                         [](const auto& each) { return std::string(each.param); });

TEST(ForeignTraces, StepsAreAsLongAsTheirAnnotations) {
  SKIP_WITHOUT_TRACES();
  const Json facts = files::read_json(foreign_traces() / "h200/facts.json");
  for (const auto& [name, fact] : facts.items()) {
    const Imported imported = import_of("h200/" + name);
    const auto expected = fact.at("step_annotations_us").get<std::vector<double>>();
    ASSERT_EQ(imported.run.plain_wall_ns.size(), expected.size()) << name;
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(imported.run.plain_wall_ns[i], 1000 * expected[i], 1e-3 * 1000 * expected[i])
          << name;
  }
}

TEST(ForeignTraces, WithoutShapesThereIsNoClaim) {
  SKIP_WITHOUT_TRACES();
  for (const char* name :
       {"gpt2_no_shapes", "llama_bf16_compiled_no_shapes", "llama_prefill_cuda_graph"}) {
    const Imported imported = import_of(std::string("h200/") + name);
    EXPECT_EQ(imported.run.executed, Work()) << name;
    EXPECT_EQ(imported.run.setting.batch_size, 0) << name;
    EXPECT_FALSE(imported.steps.attribution.has_shapes) << name;
    EXPECT_GT(attributed(imported), 0.98) << name;
  }
}

// A third of its kernels were launched before the trace began.
TEST(ForeignTraces, WorkOfAnEarlierStepIsNotOfThisOne) {
  SKIP_WITHOUT_TRACES();
  const Imported imported = import_of("h100_qwen1.5_0.5b");
  EXPECT_NEAR(imported.run.plain_wall_ns.at(0), 34.9e6, 0.349e6);
  double time_ns = 0;
  for (const NodeRecord& node : imported.run.step.nodes)
    if (node.op == "matmul") time_ns += static_cast<double>(node.time_ns);
  const double rate = 2.0 * static_cast<double>(macs(imported.run).at("matmul")) / time_ns;
  EXPECT_NEAR(rate, 612'700, 6127);  // FLOPs per ns
  EXPECT_EQ(imported.steps.attribution.outside_kernels, 509);
  EXPECT_EQ(imported.run.setting.batch_size, 16);
  EXPECT_EQ(imported.run.setting.sequence, 559);
}

// GFLOP by TraceLens. It counts the gradient of the first convolution's input too, which nobody
// needs and no kernel computes; half of a causal attention's scores, where Ridge counts the square.
TEST(ForeignTraces, HaveTheFlopsThatTraceLensCounts) {
  SKIP_WITHOUT_TRACES();
  auto giga = [](const Imported& imported, const std::string& family) {
    return 2e-9 * static_cast<double>(macs(imported.run)[family]);
  };
  const Imported resnet = import_of("mi300_resnet_recompute");
  constexpr double kFirst = 2.36027904;
  EXPECT_NEAR(giga(resnet, "convolution"), (210.547 + 217.627) / 3 - kFirst, 0.01);
  const Imported vit = import_of("mi300_vit");
  EXPECT_NEAR(giga(vit, "convolution"), 0.925, 0.001);
  EXPECT_NEAR(giga(vit, "matmul"), 133.927, 1.3);
  EXPECT_NEAR(giga(vit, "flash_attention"), 5.723, 0.001);
  const Imported sglang = import_of("sglang_qwen3_8b_prefill_decode");
  EXPECT_NEAR(giga(sglang, "matmul"), 213392.645, 1);
  EXPECT_NEAR(giga(sglang, "flash_attention") / 2, 4638.565, 1);
  // The device finished another batch first, for 493 ms without a record.
  EXPECT_NEAR(sglang.run.plain_wall_ns.at(0), 494.0e6, 0.1e6);
  EXPECT_LT(static_cast<double>(sglang.run.step.idle_ns), 0.01 * sglang.run.plain_wall_ns.at(0));
  EXPECT_EQ(sglang.run.setting.str(), "sglang_qwen3_8b_prefill_decode prefill eager 15x1024 bf16");
  for (const Imported* each : {&resnet, &vit, &sglang}) EXPECT_GT(attributed(*each), 0.98);
}

TEST(ForeignTraces, ReplayedGraphsAreTheOperationsOfTheirCapture) {
  SKIP_WITHOUT_TRACES();
  const Imported imported = import_of("mi300_vllm_decode_graph", "mi300_vllm_decode_capture");
  std::map<std::string, int64_t> found = macs(imported.run);
  EXPECT_NEAR(2e-9 * static_cast<double>(found["matmul"]), 77.981, 0.78);
  EXPECT_NEAR(2e-9 * static_cast<double>(found["flash_attention"]), 21.661, 0.01);
  // The experts have 5888 and 2944 columns. TraceLens takes the width of the tokens, 3072, for
  // both, and so counts 173.947 GFLOP.
  constexpr int64_t kExperts = int64_t{24} * 32 * 4 * (3072 * 5888 + 2944 * 3072);
  EXPECT_EQ(found["experts"], kExperts);
  EXPECT_NEAR(2e-9 * static_cast<double>(kExperts), 173.947, 0.05 * 173.947);
  EXPECT_GT(attributed(imported), 0.98);
  EXPECT_EQ(imported.run.setting.str(), "mi300_vllm_decode_graph decode graph 32x1 bf16");
  EXPECT_NEAR(imported.run.plain_wall_ns.at(0), 10.74e6, 0.01e6);
}

// Rank 1 sleeps before each of its three steps, so rank 0 waits for it.
TEST(ForeignTraces, ARankThatIsLateMakesTheOtherWait) {
  SKIP_WITHOUT_TRACES();
  std::vector<Imported> ranks;
  for (const char* name : {"h200/ddp_rank0", "h200/ddp_rank1"}) ranks.push_back(import_of(name));
  const std::vector<ImportedSteps> steps = {ranks[0].steps, ranks[1].steps};
  const std::vector<RankTimes> times = exchange_record(steps).ranks;
  EXPECT_GT(times[0].waiting_ns, 3'000'000);
  EXPECT_LT(times[1].waiting_ns, times[0].waiting_ns / 10);
  // Its sleep is a kernel.
  for (const Imported& rank : ranks) EXPECT_GT(attributed(rank), 0.98);
}

}  // namespace
}  // namespace ridge::record
