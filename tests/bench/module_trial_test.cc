// SPDX-License-Identifier: Apache-2.0
// Modules alone: the lab notebook's figures, the counts of each form, and that each of them runs.
#include "bench/module_trial.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "cost/made_up_ceilings.h"
#include "models/known_shapes.h"
#include "ops/registry.h"
#include "train/small_run.h"

namespace ridge::bench {
namespace {

const models::ModelConfig& gemma() { return *models::find_known_shape("gemma3-270m"); }

record::BenchPoint planned(const models::ModelConfig& config,
                           const ModuleRequest& request,
                           const ModuleForm& form) {
  auto backend = train::cpu_backend(1);
  TrialSetting setting;
  setting.selection = passes::Selection(form.level, form.switches);
  setting.is_backward = request.phase == ModulePhase::kTrain;
  return plan_trial(build_module(config, request), setting, *backend, nullptr);
}

const ModuleForm& form(std::string_view name) {
  for (const ModuleForm& each : module_forms())
    if (each.name == name) return each;
  throw InternalError("no such form");
}

// FLOPs and bytes by the notebook's own formulas, for bf16.
struct NotebookMlp {
  int64_t flops, bytes;
  NotebookMlp(int64_t tokens, int64_t d, int64_t f)
      : flops(6 * tokens * d * f + 9 * tokens * f),
        bytes(2 * (tokens * d + d * f + tokens * f) * 2 + 4 * tokens * f + 6 * tokens * f +
              2 * (tokens * f + d * f + tokens * d)) {}
};

TEST(ModuleTrial, HasTheNotebooksFigures) {
  const TrialType bf16 = parse_trial_type("bf16");
  const ModuleRequest prefill{models::Module::kMlp, ModulePhase::kPrefill, 8, 2048, 0, bf16},
      decode{models::Module::kMlp, ModulePhase::kDecode, 8, 2048, 0, bf16};
  const record::BenchPoint whole = planned(gemma(), prefill, form("eager")),
                           one = planned(gemma(), decode, form("eager"));
  EXPECT_EQ(whole.work.flops, 129'151'008'768);
  const auto intensity = [&](const record::BenchPoint& point, const ModuleRequest& request) {
    return static_cast<double>(point.work.flops) /
           static_cast<double>(*unfused_bytes(gemma(), request));
  };
  EXPECT_NEAR(intensity(whole, prefill), 212.54, 0.005);
  EXPECT_NEAR(intensity(one, decode), 7.731, 0.0005);
  for (int64_t batch : {1, 3, 32})
    for (int64_t length : {1, 100, 777}) {
      ModuleRequest request = prefill;
      request.batch = batch;
      request.length = length;
      const NotebookMlp want(batch * length, 640, 2048);
      EXPECT_EQ(*unfused_bytes(gemma(), request), want.bytes);
      for (const ModuleForm& each : choose_forms("all", false))
        EXPECT_EQ(planned(gemma(), request, each).work.flops, want.flops) << each.name;
    }
}

// Right of the A6000's ridge points, 50.39 in fp32 and 201.56 in bf16, and left of both.
TEST(ModuleTrial, LimitsByTheNotebooksBytes) {
  cost::Ceilings a6000 = cost::made_up_ceilings({{int64_t{1} << 36, 768, 768}}, 154.8e3);
  const TrialType bf16 = parse_trial_type("bf16");
  for (const auto& [phase, bound] : {std::pair{ModulePhase::kPrefill, cost::Bound::kCompute},
                                     std::pair{ModulePhase::kDecode, cost::Bound::kMemory}}) {
    const ModuleRequest request{models::Module::kMlp, phase, 8, 2048, 0, bf16};
    record::BenchPoint point = planned(gemma(), request, form("eager"));
    point.unfused_bytes = unfused_bytes(gemma(), request);
    point.predicted_ns = 1;
    limit_by_unfused_bytes(a6000, DType::kF32, point);
    EXPECT_EQ(point.bound, bound);
    EXPECT_NEAR(point.limit_ns,
                bound == cost::Bound::kCompute ? static_cast<double>(point.work.flops) / 154.8e3
                                               : static_cast<double>(*point.unfused_bytes) / 768,
                1e-6 * point.limit_ns);
  }
}

// The notebook's MLP: two products, GELU, product of both, and a product; its FLOPs stay.
TEST(ModuleTrial, GeluIsOneKernelAmongFive) {
  const ModuleRequest request{models::Module::kMlp,    ModulePhase::kPrefill, 1, 128, 0,
                              parse_trial_type("bf16")};
  const ModuleForm library = choose_forms("eager-library", false).at(0);
  const record::BenchPoint point = planned(gemma(), request, library);
  EXPECT_EQ(point.launches, 5);
  EXPECT_EQ(point.kernels.at("gelu_tanh"), 1);
  EXPECT_EQ(point.kernels.at("matmul"), 3);
  EXPECT_EQ(point.work.flops, planned(gemma(), request, form("eager")).work.flops);
  for (const ModuleForm& each : choose_forms("all", true)) EXPECT_NE(each.name, library.name);
}

// 4 (2 B H Lq E + 2 B H Lkv E + 7 B H Lq Lkv) in fp32.
TEST(ModuleTrial, CountsSevenPassesOfAttention) {
  EXPECT_EQ(three_pass_softmax_bytes({1, 4, 173, 256, 128}, 4),
            4 * (2 * 4 * 173 * 128 + 2 * 4 * 256 * 128 + 7 * 4 * 173 * 256));
}

// Eight kernels of the GELU, the product with up, and three GEMMs; fused, gate and up are one GEMM.
TEST(ModuleTrial, CountsTheKernelsOfEachForm) {
  const ModuleRequest request{models::Module::kMlp,    ModulePhase::kPrefill, 1, 16, 0,
                              parse_trial_type("bf16")};
  EXPECT_EQ(planned(gemma(), request, form("eager")).launches, 12);
  EXPECT_EQ(planned(gemma(), request, form("generated")).launches, 4);
  const record::BenchPoint fused = planned(gemma(), request, form("fused"));
  EXPECT_EQ(fused.kernels, (std::map<std::string, int64_t>{{"glu", 1}, {"matmul", 2}}));
  // Unfused GELU and product: 3 GEMMs and 5 passes over [N,F]; eager, the GELU alone makes 18.
  const int64_t n = 16, d = 640, f = 2048;
  EXPECT_EQ(planned(gemma(), request, form("eager")).planned_bytes,
            *unfused_bytes(gemma(), request) + 2 * 16 * n * f);
  EXPECT_EQ(fused.compulsory_bytes, 2 * (2 * n * d + 3 * d * f));
}

// The regions of a profile: projections and norms by their names, in their part of the layer.
TEST(ModuleTrial, NamesTheRegionsOfALayer) {
  ModuleRequest request;
  request.module = models::Module::kLayer;
  std::set<std::string> scopes;
  for (const Node& node : build_module(gemma(), request).graph.nodes) scopes.insert(node.scope);
  for (const char* region :
       {"layer/attention/q_proj", "layer/attention/k_proj", "layer/attention/v_proj",
        "layer/attention/o_proj", "layer/attention/q_norm", "layer/mlp/gate_proj",
        "layer/mlp/up_proj", "layer/mlp/down_proj", "layer/attention/input_layernorm", "layer/mlp"})
    EXPECT_TRUE(scopes.contains(region)) << region;
}

// Keys and values of 8 x 4096 earlier tokens: 2 x 640 x 256 MACs each, in every form.
TEST(ModuleTrial, ProjectsKeysAndValuesAgainWithoutACache) {
  for (const models::Module module : {models::Module::kAttention, models::Module::kLayer})
    for (const char* name : {"eager", "fused"}) {
      ModuleRequest request{module, ModulePhase::kDecode, 8, 4097, 5, parse_trial_type("bf16")};
      const record::BenchPoint cached = planned(gemma(), request, form(name));
      request.phase = ModulePhase::kUncachedDecode;
      const record::BenchPoint uncached = planned(gemma(), request, form(name));
      EXPECT_EQ(uncached.launches, cached.launches + 2);
      EXPECT_EQ(uncached.work.macs - cached.work.macs, int64_t{8} * 4096 * 2 * 640 * 256);
    }
}

TEST(ModuleTrial, RunsEveryModuleInEveryPhaseAndForm) {
  auto backend = train::cpu_backend(1);
  cost::Ceilings ceilings = cost::made_up_ceilings({{1, 1, 1}, {1 << 30, 1, 1}}, 1);
  models::ModelConfig small = gemma();
  small.vocabulary = 64, small.hidden = 32, small.feed_forward = 48, small.head_size = 16;
  small.window = 8;
  for (const models::ModelConfig& config : {models::preset("tiny").config, small})
    for (const char* module : {"mlp", "attention", "norm", "layer", "embedding", "head"})
      for (ModulePhase phase : {ModulePhase::kTrain, ModulePhase::kPrefill, ModulePhase::kDecode,
                                ModulePhase::kUncachedDecode})
        for (const char* dtype : {"fp32", "bf16", "q8_0"})
          for (const ModuleForm& each : choose_forms("all", false)) {
            const bool is_window = config.is_window(0);
            SCOPED_TRACE(
                fmt::format("{} {} {} {} {}", config.name, module, name(phase), dtype, each.name));
            const bool is_stored = std::string_view(dtype) == "q8_0";
            // Weights in blocks have no gradient, and head sizes of 16 no whole block of 32.
            if (is_stored && (phase == ModulePhase::kTrain || is_window)) continue;
            if (phase == ModulePhase::kUncachedDecode &&
                (is_stored ||
                 (module != std::string("attention") && module != std::string("layer"))))
              continue;
            const ModuleRequest request{*models::parse_module(module), phase, 2, 12, 0,
                                        parse_trial_type(dtype)};
            TrialSetting setting;
            setting.selection = passes::Selection(each.level, each.switches);
            setting.is_backward = phase == ModulePhase::kTrain;
            setting.budget_ns = 1;
            const record::BenchPoint point =
                run_trial(build_module(config, request), setting, *backend, &ceilings);
            EXPECT_EQ(point.refused, "");
            EXPECT_GT(point.time.median, 0);
          }
}

TEST(ModuleTrial, RefusesWhatCannotBe) {
  ModuleRequest request;
  request.layer = 18;
  EXPECT_THROW(build_module(gemma(), request), Error);
  request = {};
  request.type = parse_trial_type("q4_k");  // rows of 640 are no whole blocks of 256
  EXPECT_THROW(build_module(gemma(), request), Error);
  // Only attention has keys and values, of at least one earlier token.
  request = {};
  request.phase = ModulePhase::kUncachedDecode;
  EXPECT_THROW(build_module(gemma(), request), Error);
  request.module = models::Module::kLayer;
  request.length = 1;
  EXPECT_THROW(build_module(gemma(), request), Error);
  EXPECT_THROW(choose_forms("captured", false), Error);
  EXPECT_EQ(choose_forms("captured", true).size(), 1u);
  EXPECT_THROW(choose_forms("eager,", false), Error);
}

}  // namespace
}  // namespace ridge::bench
