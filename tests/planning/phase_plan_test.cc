// SPDX-License-Identifier: Apache-2.0
// Plans of prefill and decode: the same numbers as for a session that runs them, published
// accounting, and the limits of a data sheet.
#include "planning/phase_plan.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

#include "backends/null/null_backend.h"
#include "base/error.h"
#include "base/repacked_tiles.h"
#include "base/shape.h"
#include "cost/hardware.h"
#include "graph/builder.h"
#include "measure/inference_run.h"
#include "models/config_json.h"
#include "models/convert.h"
#include "ops/registry.h"
#include "serve/real_model.h"

namespace ridge::planning {
namespace {

void expect_same_counts(const record::RunRecord& plan, const record::RunRecord& run) {
  EXPECT_EQ(plan.launches, run.launches);
  EXPECT_EQ(plan.executed, run.executed);
  EXPECT_EQ(plan.model.step(), run.model.step());
  EXPECT_EQ(plan.planned_bytes, run.planned_bytes);
  EXPECT_EQ(plan.compulsory_bytes, run.compulsory_bytes);
  EXPECT_EQ(plan.memory.owned_bytes, run.memory.owned_bytes);
  EXPECT_EQ(plan.weight_bytes, run.weight_bytes);
  EXPECT_EQ(plan.cache_bytes, run.cache_bytes);
  EXPECT_EQ(plan.amounts.macs, run.amounts.macs);
  EXPECT_EQ(plan.amounts.weight_bytes, run.amounts.weight_bytes);
  EXPECT_EQ(plan.amounts.all_macs(), plan.executed.macs);
  EXPECT_EQ(plan.setting.str(), run.setting.str());
}

void expect_same(const record::RunRecord& plan, const record::RunRecord& run) {
  // The same terms, added in another order.
  EXPECT_NEAR(plan.predicted_ns, run.predicted_ns, 1e-12 * run.predicted_ns);
  EXPECT_GT(plan.predicted_ns, 0);
  expect_same_counts(plan, run);
}

// Prompts that chunks cut in the middle, or before the last token of the second one (79), with
// windows shorter than the prompts; prompts of many chunks whose contexts grow from bucket to
// bucket (8), and two long ones in a chunk.
TEST(PhasePlan, IsThePredictionOfTheSessionThatRuns) {
  cost::Ceilings ceilings = cost::ceilings_of(*cost::find_hardware("a10"));
  for (const char* name : {"llama_fp32", "gemma3_bf16", "qwen2_fp32", "qwen3_bf16"}) {
    models::ModelFile file = models::ModelFile::open(serve::data_folder() + name);
    for (auto [batch, chunk, length] : {std::tuple<int64_t, int64_t, int64_t>{3, 24, 40},
                                        {2, 79, 40},
                                        {3, 512, 40},
                                        {1, 8, 500},
                                        {2, 512, 300}}) {
      measure::InferenceExperiment e;
      e.selection = passes::Selection("compiled", "-tune_gemm");
      e.batch = batch;
      e.length = std::min(length, file.config().context - 12);
      e.chunk = chunk;
      e.repeats = {2, 2, 0};
      record::PhasePlan plan = plan_phases(file, e, serve::cpu_backend(), &ceilings);
      record::PhaseRecords run = *measure::measure_phases(file, e, serve::cpu_backend(), &ceilings);
      SCOPED_TRACE(name);
      expect_same(plan.records.prefill, run.prefill);
      expect_same(plan.records.decode, run.decode);
      EXPECT_EQ(session_bytes(file, e, serve::cpu_backend()), plan.owned_bytes);
      EXPECT_GE(plan.owned_bytes, plan.records.prefill.memory.owned_bytes);
      EXPECT_GE(plan.owned_bytes, plan.records.decode.memory.owned_bytes);
    }
  }
}

// Fills both slots with prompts and decodes each prompt's last position again.
void decode_at_the_end(serve::Session& session, int64_t length) {
  const std::vector<int32_t> ids = measure::random_ids(length, 160, 1);
  const std::vector<int64_t> slots = {0, 1};
  std::vector<int32_t> tokens =
      session.start(std::vector<serve::Prompt>{{0, ids, {}}, {1, ids, {}}});
  for (int64_t slot : slots) session.rewind(slot, length - 1);
  session.step(slots, tokens);
}

// The plan of a quantized file is the memory that a session of it owns: blocks stay as in the file
// or in panels of rows.
TEST(PhasePlan, OwnsWhatASessionOfAQuantizedFileOwns) {
  files::ScratchFolder folder;
  for (const char* name : {"llama_fp32", "gemma3_bf16", "qwen2_fp32", "qwen3_bf16"})
    for (DType type : {DType::kQ4_0, DType::kQ8_0}) {
      models::convert_to_gguf(models::ModelFile::open(serve::data_folder() + name),
                              folder / "model.gguf", {.type = type});
      const models::ModelFile file = models::ModelFile::open(folder / "model.gguf");
      for (const char* level : {"baseline", "compiled"}) {
        SCOPED_TRACE(fmt::format("{} in {} at {}", name, ridge::name(type), level));
        measure::InferenceExperiment e;
        e.selection = passes::Selection(level, "-tune_gemm,+quantize_activations");
        e.batch = 2;
        e.length = 40;
        e.repeats = {2, 2, 0};
        const record::PhasePlan plan = plan_phases(file, e, serve::cpu_backend(), nullptr);
        const bool packs = std::string_view(level) == "compiled";
        EXPECT_GT(plan.held_bytes.at(packs ? repacked_dtype(type, {64, 64}) : type), 0);
        serve::Session session(file, serve::session_options(e, e.length), serve::cpu_backend());
        decode_at_the_end(session, e.length);
        EXPECT_EQ(plan.owned_bytes, session.runner().owned_bytes());
        int64_t held = 0;
        for (const auto& [dtype, bytes] : plan.held_bytes) held += bytes;
        EXPECT_LT(held, 1.05 * static_cast<double>(file.weight_bytes()));
      }
    }
}

// A phase multiplies in the type of most of its MACs, wherever those stand.
TEST(CountPhase, NamesTheTypeOfMostMacs) {
  const auto target = backends::null::make_null_target();
  for (bool is_last : {false, true}) {
    Graph graph;
    Builder b(graph, ops::table());
    const ValueId x = b.input("x", {DType::kF32, {4, 32}}),
                  rounded = b.parameter("rounded", {DType::kQ8_0, {64, 32}}),
                  plain = b.parameter("plain", {DType::kF32, {8, 32}});
    const auto multiply = [&](ValueId weight, const char* activations) {
      return b.call_all("quantized_matmul", {x, weight},
                        {{"activations", std::string(activations)}})[0];
    };
    if (!is_last) graph.outputs.push_back(multiply(rounded, "i16"));
    graph.outputs.push_back(multiply(plain, "f32"));
    if (is_last) graph.outputs.push_back(multiply(rounded, "i16"));
    record::RunRecord record;
    record.setting.dtype = "fp32";
    serve::count_phase(std::vector{cost::program_graph("decode", graph, 2, *target)}, nullptr,
                       record);
    EXPECT_EQ(record.setting.dtype, "i16") << is_last;
    EXPECT_EQ(record.executed.macs, 2 * 4 * 32 * (64 + 8));
  }
}

// For each type of cache: the plan is the memory that a session owns, and the caches in its store
// are those of the formula.
TEST(PhasePlan, OwnsTheCacheOfASession) {
  for (const char* name : {"llama_fp32", "gemma3_bf16", "qwen2_fp32", "qwen3_bf16"}) {
    const models::ModelFile file = models::ModelFile::open(serve::data_folder() + name);
    const models::ModelConfig& config = file.config();
    std::map<DType, int64_t> stores;
    for (DType dtype : {DType::kF32, DType::kBF16, DType::kI8}) {
      SCOPED_TRACE(fmt::format("{} with a cache in {}", name, ridge::name(dtype)));
      measure::InferenceExperiment e;
      e.selection = passes::Selection("compiled", "-tune_gemm");
      e.cache_dtype = dtype;
      e.batch = 2;
      e.length = 40;
      e.chunk = 8;
      e.repeats = {2, 2, 0};
      const record::PhasePlan plan = plan_phases(file, e, serve::cpu_backend(), nullptr);
      const record::PhaseRecords run =
          *measure::measure_phases(file, e, serve::cpu_backend(), nullptr);
      expect_same_counts(plan.records.prefill, run.prefill);
      expect_same_counts(plan.records.decode, run.decode);
      // 40 positions in layers without a window of 16; the last token attends to the window.
      const int64_t row = dtype == DType::kI8 ? config.head_size + 4
                                              : config.head_size * info(dtype).bytes_per_block;
      int64_t seen = 0;
      for (int64_t layer = 0; layer < config.layers; ++layer)
        seen += config.is_window(layer) ? config.window : e.length;
      EXPECT_EQ(run.decode.cache_bytes, e.batch * seen * 2 * config.kv_heads * row);
      serve::Session session(file, serve::session_options(e, e.length), serve::cpu_backend());
      decode_at_the_end(session, e.length);
      EXPECT_EQ(plan.owned_bytes, session.runner().owned_bytes());
      // The store rounds each state up to whole cache lines.
      const int64_t scale = dtype == DType::kI8 ? 4 : 0;
      int64_t bytes = 0, rounded = 0;
      for (int64_t layer = 0; layer < config.layers; ++layer) {
        const int64_t positions = config.is_window(layer) ? config.window + e.chunk - 1 : e.length;
        const int64_t heads = e.batch * positions * config.kv_heads;
        bytes += 2 * heads * row;
        rounded += 2 * (round_up(heads * (row - scale), 64) + round_up(heads * scale, 64));
      }
      EXPECT_EQ(models::cache_bytes(config, models::cache_shape({.slots = e.batch,
                                                                 .capacity = e.length,
                                                                 .window = config.window,
                                                                 .chunk = e.chunk,
                                                                 .dtype = dtype})),
                bytes);
      stores[dtype] = session.runner().store_bytes() - rounded;
    }
    EXPECT_EQ(stores[DType::kBF16], stores[DType::kF32]);
    EXPECT_EQ(stores[DType::kI8], stores[DType::kF32]);
  }
}

// Touvron et al. 2023 (arXiv:2307.09288): 32 layers, 32 heads of 128, 6.74e9 parameters.
class SevenBillion : public testing::Test {
 protected:
  SevenBillion()
      : file_(models::ModelFile::of_shape(models::parse_config({{"model_type", "llama"},
                                                                {"vocab_size", 32000},
                                                                {"hidden_size", 4096},
                                                                {"intermediate_size", 11008},
                                                                {"num_hidden_layers", 32},
                                                                {"num_attention_heads", 32},
                                                                {"num_key_value_heads", 32},
                                                                {"max_position_embeddings", 4096},
                                                                {"rms_norm_eps", 1e-5},
                                                                {"rope_theta", 10000.0},
                                                                {"tie_word_embeddings", false}},
                                                               "test"))),
        ceilings_(cost::ceilings_of(*cost::find_hardware("h200"))),
        target_(backends::null::make_null_target()) {}

  record::PhasePlan plan(int64_t batch, int64_t length) const {
    measure::InferenceExperiment e;
    e.selection = passes::Selection("compiled", "-tune_gemm,-branches,+store_bf16,+autocast_bf16");
    e.batch = batch;
    e.length = length;
    return plan_phases(file_, e, *target_, &ceilings_);
  }

  models::ModelFile file_;
  cost::Ceilings ceilings_;
  std::unique_ptr<passes::PassTarget> target_;
};

TEST_F(SevenBillion, CountsWhatIsPublished) {
  record::PhasePlan one = plan(1, 2048);
  const record::RunRecord& decode = one.records.decode;
  EXPECT_EQ(decode.parameters, 6'738'415'616);
  // Half a MiB of keys and values per token in 16 bits: 2 x 32 layers x 4096 x 2 bytes.
  EXPECT_EQ(decode.cache_bytes, int64_t{2048} << 19);
  // Everything except the embedding table in bf16; norms stay fp32.
  const int64_t norms = (2 * 32 + 1) * 4096;
  const int64_t matrices = decode.parameters - norms - int64_t{32000} * 4096;
  EXPECT_GE(decode.weight_bytes, 2 * matrices + 4 * norms);
  EXPECT_LE(decode.weight_bytes, 2 * decode.parameters + 4 * norms);
  // 2 FLOPs per parameter and token, and those of attention scores and weighted sums.
  const int64_t attention = 4 * int64_t{32} * 4096 * 2048;
  EXPECT_EQ(decode.palm_flops(), 2 * matrices + attention);
}

// Decode cannot take less time than its bytes at the sheet's bandwidth. With kernels one after the
// other, memory bandwidth should be the only limit that matters.
TEST_F(SevenBillion, DecodesNoFasterThanMemoryBringsIt) {
  const double sheet_bytes_per_ns = 4800;
  double last_ns = 0;
  for (int64_t batch : {1, 8, 32}) {
    record::PhasePlan each = plan(batch, 2048);
    const record::RunRecord& decode = each.records.decode;
    const double least_ns =
        static_cast<double>(decode.weight_bytes + decode.cache_bytes) / sheet_bytes_per_ns;
    EXPECT_GE(decode.predicted_ns, least_ns);
    EXPECT_LE(decode.predicted_ns, 1.5 * least_ns);
    EXPECT_GT(decode.predicted_ns, last_ns);
    last_ns = decode.predicted_ns;
  }
  record::PhasePlan one = plan(1, 2048);
  const record::RunRecord& prefill = one.records.prefill;
  const double least_ns = static_cast<double>(prefill.palm_flops()) / 989.5e3;
  // The masked half of attention is not computed. A plan from a data sheet assumes 0.7 of its peak
  // for GEMMs and half of that for attention, and the prompt is computed in four chunks.
  EXPECT_GE(prefill.predicted_ns, 0.95 * least_ns);
  EXPECT_LE(prefill.predicted_ns, 3 * least_ns);
}

// Prompts of 2^20 tokens for 64 sequences have 2^25 chunks of two tokens. Those in one bucket are
// one graph.
TEST(PhasePlan, CountsTheChunksOfLongPrompts) {
  models::ModelConfig config = models::preset("tiny").config;
  config.context = int64_t{1} << 20;
  models::ModelFile file = models::ModelFile::of_shape(config);
  auto target = backends::null::make_null_target();
  measure::InferenceExperiment e;
  e.selection = passes::Selection("compiled", "-tune_gemm,-branches,+store_bf16,+autocast_bf16");
  e.batch = 64;
  e.length = config.context;
  e.chunk = 2;
  record::PhasePlan plan = plan_phases(file, e, *target, nullptr);
  const int64_t chunks = e.batch * e.length / e.chunk;
  EXPECT_GT(plan.records.prefill.launches, chunks);
  // The last chunk of each prompt has logits and a sampled token too.
  const int64_t more = plan.records.prefill.launches % chunks;
  EXPECT_GT(more, 0);
  EXPECT_EQ(more % e.batch, 0);
}

TEST_F(SevenBillion, RefusesWhatASessionRefuses) {
  EXPECT_THROW(plan(0, 128), Error);
  EXPECT_THROW(plan(serve::kMostSlots + 1, 128), Error);
  EXPECT_THROW(plan(1, 4097), Error);
}

}  // namespace
}  // namespace ridge::planning
