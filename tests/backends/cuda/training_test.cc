// SPDX-License-Identifier: Apache-2.0
// The published training run on a GPU at each level, replayed as a graph and not, in fp32, TF32 and
// bf16. Also that two runs have the same bits, and the kernel times inside a replay.
#include <gtest/gtest.h>

#include <bit>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>

#include "backends/cpu/cpu_backend.h"
#include "backends/cuda/cuda_backend.h"
#include "base/random.h"
#include "cost/ceilings.h"
#include "cost/hardware.h"
#include "measure/whole_run.h"
#include "planning/step_plan.h"
#include "train/small_run.h"
#include "train/step.h"
#include "train/synthetic_data.h"
#include "train/token_batches.h"
#include "train/trainer.h"
#include "train/training_loop.h"

namespace ridge::train {
namespace {

constexpr int kWarmup = 5;
constexpr int kSteps = 20;
constexpr double kFourDecimals = 5e-5;
constexpr double kStep0 = 7.0185, kStep10 = 6.9978, kMean = 6.9556;

struct GpuRun {
  explicit GpuRun(const std::string& level,
                  const std::string& switches = "",
                  const char* preset = "small")
      : selection(level, switches),
        backend(backends::cuda::make_cuda_backend({selection.has("tf32"), selection.has("capture"),
                                                   selection.has("branches"), false, ""})) {
    const models::Preset& p = models::preset(preset);
    StepOptions options;
    options.batch_size = p.batch_size;
    options.sequence = p.sequence;
    trainer = std::make_unique<Trainer>(StepSetup{p.config, options, selection}, *backend);
    data = {p.config.vocabulary, p.sequence, kSyntheticSeed};
  }
  std::vector<double> losses(int64_t steps) {
    std::vector<double> all;
    run_loop(*trainer, data, 0, steps,
             [&](int64_t, const StepResult& result) { all.push_back(result.loss); });
    return all;
  }
  StepResult profiled_step() { return trainer->step(read_step(data, trainer->options()), true); }
  passes::Selection selection;
  std::unique_ptr<backends::Backend> backend;
  std::unique_ptr<Trainer> trainer;
  SyntheticData data{2, 1, kSyntheticSeed};
};

void expect_published(const std::vector<double>& losses, double tolerance) {
  EXPECT_NEAR(losses[kWarmup], kStep0, tolerance);
  EXPECT_NEAR(losses[kWarmup + 10], kStep10, tolerance);
  EXPECT_NEAR(std::accumulate(losses.begin() + kWarmup, losses.end(), 0.0) / kSteps, kMean,
              tolerance);
}

// Documents of 1 to 200 tokens, packed into rows of 512.
TokenBatches packed_documents() {
  std::vector<int32_t> ids;
  std::vector<int64_t> starts;
  Random random(5);
  while (ids.size() < 20'000) {
    starts.push_back(std::ssize(ids));
    for (uint64_t left = 1 + random.below(200); left > 0; --left)
      ids.push_back(static_cast<int32_t>(random.below(1000)));
  }
  std::vector<WeightedData> data;
  data.push_back({text::TokenSet::of_ids(std::move(ids), 1000, "documents", std::move(starts)), 1});
  return {std::move(data), 512, 1000, 3, models::Packing::kDocuments};
}

std::vector<double> packed_losses(const passes::Selection& selection, backends::Backend& backend) {
  const models::Preset& p = models::preset("small");
  StepOptions options;
  options.batch_size = 2;
  options.sequence = 512;
  options.packing = models::Packing::kDocuments;
  Trainer trainer({p.config, options, selection}, backend);
  TokenBatches batches = packed_documents();
  std::vector<double> losses;
  run_loop(trainer, batches, 0, 3,
           [&](int64_t, const StepResult& result) { losses.push_back(result.loss); });
  return losses;
}

TEST(GpuPacking, LossesAreThoseOfTheCpu) {
  backends::cpu::CpuOptions cpu;
  const auto reference = backends::cpu::make_cpu_backend(cpu);
  const std::vector<double> want = packed_losses(passes::Selection("baseline", ""), *reference);
  for (const char* level : {"baseline", "fused", "kernels", "compiled"})
    for (const auto& [dtype, tolerance] :
         {std::pair{"", 1e-4}, {"+tf32", 2e-3}, {"+autocast_bf16", 1e-2}}) {
      const passes::Selection selection(level, dtype);
      const auto backend = backends::cuda::make_cuda_backend(
          {selection.has("tf32"), selection.has("capture"), selection.has("branches"), false, ""});
      const std::vector<double> got = packed_losses(selection, *backend);
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < got.size(); ++i)
        EXPECT_NEAR(got[i], want[i], tolerance) << level << " " << dtype << " step " << i;
    }
}

// Branches do not help if the GEMMs fill the GPU.
TEST(GpuBranches, AreForShortProducts) {
  passes::Selection selection("compiled", "+autocast_bf16");
  auto backend = backends::cuda::make_cuda_backend({false, true, true, false, ""});
  for (const auto& [name, expected] : {std::pair{"small", true}, {"medium", false}}) {
    const models::Preset& p = models::preset(name);
    StepOptions options;
    options.batch_size = p.batch_size;
    options.sequence = p.sequence;
    TrainingStep step = build_step({p.config, options, selection}, *backend);
    EXPECT_EQ(backend->branch_slack(step.graphs[0].graph).any(), expected) << name;
  }
}

TEST(GpuLaunchRate, MattersWhereTheHostMakesEachLaunch) {
  cost::Ceilings ceilings = cost::ceilings_of(*cost::find_hardware("h100"));
  ceilings.stream_launch_ns = 1000;
  for (bool capture : {false, true}) {
    auto backend = backends::cuda::make_cuda_backend({false, capture, false, false, ""});
    measure::LaunchRate rate(*backend, &ceilings);
    EXPECT_EQ(rate.matters(), !capture);
    rate.sample();
    EXPECT_EQ(rate.samples().size(), capture ? 0u : 1u);
    for (double sample : rate.samples()) EXPECT_GT(sample, 0);
  }
}

measure::TrainingExperiment tiny_experiment(int64_t steps) {
  measure::TrainingExperiment e;
  e.setting.level = "baseline";
  e.selection = passes::Selection("baseline", "");
  const models::Preset& p = models::preset("tiny");
  e.config = p.config;
  e.step.batch_size = 2;
  e.step.sequence = 16;
  e.warmup_steps = 1;
  e.steps = steps;
  return e;
}

// Launches take longer than everything else, also at the rate of a fast host, so that they
// determine the predicted step.
TEST(GpuLaunchRate, ScalesThePredictedStep) {
  cost::Ceilings ceilings = cost::ceilings_of(*cost::find_hardware("h100"));
  ceilings.stream_launch_ns = 1e6;
  ceilings.launch_ns = 1;
  ceilings.round_ns = ceilings.empty_step_ns = 0;
  const measure::TrainingExperiment e = tiny_experiment(8);
  auto backend = backends::cuda::make_cuda_backend({false, false, false, false, ""});
  const record::RunRecord run = measure::measure_training(e, *backend, &ceilings);
  EXPECT_EQ(run.launch_rate_samples.size(), 9u);  // before, after and at all steps but 1
  const record::RunRecord planned = planning::plan_step(e, *backend, &ceilings);
  EXPECT_NEAR(run.predicted_ns * run.launch_rate().median / planned.predicted_ns, 1, 0.01);
}

// Recording slows a step down: one step in sixteen is instrumented, one to eight in all, each next
// to a plain one.
TEST(GpuSampling, FollowsTheLengthOfTheRun) {
  for (auto [steps, expected] :
       {std::pair<int64_t, std::string>{6, "pi"}, {50, "piippi"}, {200, "piippiippiippiip"}}) {
    auto backend = backends::cuda::make_cuda_backend({false, true, false, false, ""});
    std::string kinds;
    measure::measure_training(tiny_experiment(steps), *backend, nullptr,
                              [&](const train::StepEvent& event) {
                                if (event.index >= 0) kinds += event.instrumented ? 'i' : 'p';
                              });
    expected.resize(static_cast<size_t>(steps), 'p');
    EXPECT_EQ(kinds, expected);
  }
}

class GpuTraining : public testing::TestWithParam<const char*> {};

TEST_P(GpuTraining, MatchesThePublishedRun) {
  for (const char* capture : {"-capture", "+capture"}) {
    SCOPED_TRACE(capture);
    expect_published(GpuRun(GetParam(), capture).losses(kWarmup + kSteps), kFourDecimals);
    for (const char* dtype : {",+tf32", ",+autocast_bf16"}) {
      SCOPED_TRACE(dtype);
      expect_published(GpuRun(GetParam(), std::string(capture) + dtype).losses(kWarmup + kSteps),
                       0.02);
    }
  }
}

// Concurrent branches change when kernels run, but not their results.
TEST_P(GpuTraining, IsTheSameTwice) {
  for (const char* switches :
       {"+capture", "+capture,+tf32", "+capture,+autocast_bf16", "-capture,+autocast_bf16"}) {
    std::vector<double> first = GpuRun(GetParam(), switches).losses(100);
    std::vector<double> second = GpuRun(GetParam(), switches).losses(100);
    for (size_t i = 0; i < first.size(); ++i)
      ASSERT_EQ(std::bit_cast<uint64_t>(first[i]), std::bit_cast<uint64_t>(second[i]))
          << switches << ", step " << i;
  }
}

// Every launch that the plan counts is profiled, with and without a replay. The only additional
// kernels are those that cuBLAS needs for one GEMM.
TEST_P(GpuTraining, EveryKernelIsTimed) {
  for (const char* capture : {"-capture", "+capture"}) {
    SCOPED_TRACE(capture);
    GpuRun run(GetParam(), capture);
    run.losses(3);
    // After it profiled once and rested, the instrument profiles again.
    run.profiled_step();
    run.backend->instrument()->rest();
    run.losses(2);
    record::ProfiledRun profile = run.profiled_step().profiles[0];
    if (!profile.caveat.empty()) GTEST_SKIP() << profile.caveat;
    const cost::CostedGraph& costed = *run.trainer->program().graph(0).costed;
    std::map<NodeId, int> seen;
    for (const record::Span& span : profile.spans) ++seen[span.node];
    for (size_t i = 0; i < costed.graph.nodes.size(); ++i) {
      const std::string& op = costed.graph.nodes[i].op->name;
      int64_t planned = costed.costs[i].launches, kernels = seen[static_cast<NodeId>(i)];
      if (op == "matmul" && planned > 0)
        EXPECT_GE(kernels, planned) << op;
      else
        EXPECT_EQ(kernels, planned) << op;
    }
    EXPECT_EQ(profile.dropped, 0);
    EXPECT_LE(profile.spans.back().end_ns, profile.wall_ns);
  }
}

// The curve falls from ln 1000 to 1.2 in 1,000 steps, by about 0.012 per step at its steepest. In
// bf16, each GEMM rounds its operands to 8 bits and adds in fp32; master weights and moments stay
// fp32. So a run lags or leads by some steps, but does not reach another level. Twenty steps either
// way bound the difference of one step's loss by 0.26, and of means over 100 steps, in which that
// noise averages out, by 0.05.
TEST(GpuLongTraining, KeepsToTheCurveOfFp32InBf16) {
  constexpr int kLong = 1000, kWindow = 100;
  std::vector<double> exact = GpuRun("compiled").losses(kLong),
                      narrow = GpuRun("compiled", "+autocast_bf16").losses(kLong);
  for (int first = 0; first < kLong; first += kWindow) {
    double difference = 0;
    for (int i = first; i < first + kWindow; ++i) {
      EXPECT_NEAR(narrow[static_cast<size_t>(i)], exact[static_cast<size_t>(i)], 0.26)
          << "step " << i;
      difference += narrow[static_cast<size_t>(i)] - exact[static_cast<size_t>(i)];
    }
    EXPECT_NEAR(difference / kWindow, 0, 0.05) << "from step " << first;
  }
}

INSTANTIATE_TEST_SUITE_P(Levels,
                         GpuTraining,
                         testing::Values("baseline", "fused", "kernels", "compiled"),
                         [](const auto& each) { return std::string(each.param); });

}  // namespace
}  // namespace ridge::train
