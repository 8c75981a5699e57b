// SPDX-License-Identifier: Apache-2.0
// FLOPs and bytes of the attention module and the MLP against closed forms, by phase, batch size
// and length, and MFU and MBU from the counts.
#include <gtest/gtest.h>

#include "backends/null/null_backend.h"
#include "models/forward_graph.h"
#include "models/llama_shape.h"
#include "ops/registry.h"
#include "passes/pipeline.h"
#include "record/run_counts.h"
#include "serve/real_model.h"

namespace ridge::serve {
namespace {

models::ModelConfig llama() { return models::llama_shape("", {1000, 256, 2, 8, 2, 32, 640, 4096}); }

struct Modules {
  record::ModuleRecord attention, mlp;
  record::RunRecord run;
};

// `tokens` of each of `batch` sequences, whose last token attends to `context` keys.
Modules count(const models::ModelConfig& config,
              models::InferenceTask task,
              int64_t batch,
              int64_t tokens,
              int64_t context) {
  auto target = backends::null::make_null_target();
  models::InferenceShape shape{
      task, batch * tokens, context, true,
      models::cache_shape({.slots = batch, .capacity = context, .chunk = batch * tokens})};
  auto stored = [](const std::string& name, const Shape&) {
    return models::StoredWeight{name, DType::kF32};
  };
  models::ForwardGraph forward = models::build_inference_graph(config, ops::table(), shape, stored);
  passes::PassContext passes{ops::table(), *target, forward.load};
  passes::Selection selection("baseline", "");
  Graph graph = forward.graph;
  for (passes::Stage stage :
       {passes::Stage::kForward, passes::Stage::kStep, passes::Stage::kTarget})
    graph = passes::run_stage(stage, graph, selection, passes, nullptr);
  const std::vector<cost::ProgramGraph> run{cost::program_graph("run", graph, 1, *target)};
  Modules m;
  const std::vector<record::PredictedGraph> graphs = record::count_graphs(run, nullptr, m.run);
  record::StepRecord step = record::make_step_record(graphs, {});
  m.attention = record::module_record("attention", graphs, step);
  m.mlp = record::module_record("mlp", graphs, step);
  m.run.weight_bytes = cost::parameter_bytes(*run[0].costed);
  return m;
}

// Closed forms for one layer with N tokens in all, each of which attends to C keys.
struct ClosedForms {
  int64_t d, h, k, e, f;
  explicit ClosedForms(const models::ModelConfig& c)
      : d(c.hidden), h(c.heads), k(c.kv_heads), e(c.head_size), f(c.feed_forward) {}
  int64_t norm_flops(int64_t n) const { return n * (4 * d + 3); }
  int64_t mlp_macs(int64_t n) const { return 3 * n * d * f; }
  int64_t mlp_flops(int64_t n) const { return 2 * mlp_macs(n) + 5 * n * f + norm_flops(n) + n * d; }
  int64_t mlp_bytes(int64_t n) const { return 4 * (3 * d * f + d + 2 * n * d); }
  int64_t attention_macs(int64_t n, int64_t c) const {
    return n * d * (2 * h + 2 * k) * e + 2 * n * h * c * e;
  }
  int64_t attention_flops(int64_t n, int64_t c) const {
    return 2 * attention_macs(n, c) + 6 * n * h * c + 3 * n * (h + k) * e + norm_flops(n) + n * d;
  }
  // Weights, norm, x in and out, the rotation's table, keys and values read, and those of the new
  // tokens written.
  int64_t attention_bytes(int64_t n, int64_t keys) const {
    return 4 * (d * (2 * h + 2 * k) * e + d + 2 * n * d + n * e + 2 * keys * k * e + 2 * n * k * e);
  }
};

double intensity(int64_t flops, int64_t bytes) {
  return static_cast<double>(flops) / static_cast<double>(bytes);
}

// The module's bytes also include positions, slots and block tables.
constexpr double kIndices = 0.02;

TEST(Intensity, OfDecodeByBatch) {
  models::ModelConfig config = llama();
  ClosedForms form(config);
  for (int64_t context : {128, 1024})
    for (int64_t batch : {1, 8, 32}) {
      Modules m = count(config, models::InferenceTask::kDecode, batch, 1, context);
      EXPECT_EQ(m.mlp.work.macs, config.layers * form.mlp_macs(batch));
      EXPECT_EQ(m.mlp.work.flops, config.layers * form.mlp_flops(batch));
      EXPECT_EQ(m.mlp.compulsory_bytes, config.layers * form.mlp_bytes(batch));
      EXPECT_EQ(m.attention.work.macs, config.layers * form.attention_macs(batch, context));
      EXPECT_EQ(m.attention.work.flops, config.layers * form.attention_flops(batch, context));
      double expected = intensity(form.attention_flops(batch, context),
                                  form.attention_bytes(batch, batch * context));
      EXPECT_NEAR(m.attention.intensity(), expected, kIndices * expected)
          << "batch " << batch << " at " << context;
    }
}

TEST(Intensity, OfPrefillByBatchAndLength) {
  models::ModelConfig config = llama();
  ClosedForms form(config);
  for (int64_t length : {64, 256})
    for (int64_t batch : {1, 4}) {
      Modules m = count(config, models::InferenceTask::kPrefill, batch, length, length);
      // After the last layer's attention, only the last token of each sequence is computed
      // (last-token gather).
      int64_t n = batch * length, before = config.layers - 1, dropped = n - batch;
      EXPECT_EQ(m.mlp.work.flops, before * form.mlp_flops(n) + form.mlp_flops(batch));
      EXPECT_EQ(m.mlp.compulsory_bytes, before * form.mlp_bytes(n) + form.mlp_bytes(batch));
      int64_t spared = dropped * form.h * form.e * form.d;
      EXPECT_EQ(m.attention.work.macs, config.layers * form.attention_macs(n, length) - spared);
      int64_t flops =
          config.layers * form.attention_flops(n, length) - 2 * spared - dropped * form.d;
      EXPECT_EQ(m.attention.work.flops, flops);
      int64_t bytes = config.layers * form.attention_bytes(n, n) - 4 * dropped * form.d;
      double expected = intensity(flops, bytes);
      EXPECT_NEAR(m.attention.intensity(), expected, kIndices * expected)
          << "batch " << batch << " of " << length;
    }
}

// The batch shares the MLP's weights, but not the sequences' keys and values. In decode, the MLP's
// intensity grows in proportion to the batch; attention's hardly grows once the cache is larger
// than the weights.
TEST(Intensity, OnlyTheMlpGainsFromTheBatch) {
  models::ModelConfig config = llama();
  auto at = [&](int64_t batch) {
    return count(config, models::InferenceTask::kDecode, batch, 1, 4096);
  };
  Modules one = at(1), sixteen = at(16);
  EXPECT_GT(sixteen.mlp.intensity() / one.mlp.intensity(), 15);
  EXPECT_LT(sixteen.attention.intensity() / one.attention.intensity(), 1.5);
}

TEST(Intensity, UtilisationsFollowFromTheCounts) {
  models::ModelConfig config = llama();
  constexpr int64_t kBatch = 4, kContext = 512;
  record::RunRecord run = count(config, models::InferenceTask::kDecode, kBatch, 1, kContext).run;
  // The embedding table is tied to the head, which reads all of it.
  EXPECT_EQ(run.weight_bytes, 4 * config.parameters());
  run.setting.task = "decode";
  run.setting.batch_size = kBatch;
  run.setting.sequence = kContext;
  run.cache_bytes = kBatch * models::seen_bytes(config, kContext, DType::kF32);
  EXPECT_EQ(run.cache_bytes,
            kBatch * config.layers * kContext * config.kv_heads * config.head_size * 8);
  run.plain_wall_ns = {2e6};
  ClosedForms form(config);
  int64_t macs = config.layers * (form.mlp_macs(kBatch) + form.attention_macs(kBatch, kContext)) +
                 kBatch * config.hidden * config.vocabulary;
  EXPECT_EQ(run.model.step().macs, macs);
  EXPECT_DOUBLE_EQ(run.tokens_per_s(), kBatch / 2e-3);
  EXPECT_DOUBLE_EQ(run.mfu({10}), 2.0 * static_cast<double>(macs) / 2e6 / 10);
  EXPECT_DOUBLE_EQ(run.mbu({50}),
                   static_cast<double>(run.weight_bytes + run.cache_bytes) / 2e6 / 50);
}

}  // namespace
}  // namespace ridge::serve
