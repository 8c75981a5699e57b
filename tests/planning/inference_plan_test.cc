// SPDX-License-Identifier: Apache-2.0
// Plans of inference by batch and length, and what fits.
#include "planning/plans.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>

#include "base/error.h"
#include "files/scratch.h"
#include "models/convert.h"
#include "planning/planned.h"
#include "serve/real_model.h"
#include "serve/session_choice.h"

namespace ridge::planning {
namespace {

models::ModelFile small_model() {
  return models::ModelFile::open(serve::data_folder() + "llama_fp32");
}

record::InferencePlan plan(const models::ModelFile& file,
                           const std::string& hardware,
                           std::vector<int64_t> batches,
                           std::vector<int64_t> lengths) {
  InferencePlanRequest request;
  request.setup.selection = serve::inference_selection({.on_gpu = true}, "compiled", "");
  request.setup.setting.model = "small";
  request.setup.chunk = 48;
  request.batches = std::move(batches);
  request.lengths = std::move(lengths);
  return plan_inference(file, request, choose_hardware(hardware, no_machine(), false),
                        ignore_trials);
}

TEST(InferencePlan, HasEachBatchAndLength) {
  const record::InferencePlan got = plan(small_model(), "h200", {1, 4}, {16, 64});
  ASSERT_EQ(got.plans.size(), 4u);
  const cost::Ceilings& ceilings = got.hardware.ceilings;
  for (const record::PhasePlan& each : got.plans) {
    for (const record::RunRecord* run : {&each.records.prefill, &each.records.decode}) {
      EXPECT_GT(run->mfu(ceilings.mfu_reference(DType::kBF16)), 0);
      EXPECT_LE(run->mbu(ceilings.mbu_reference()), 1);
    }
    EXPECT_GT(each.class_peaks().bytes[static_cast<size_t>(plan::MemoryClass::kKvCache)], 0);
  }
  EXPECT_EQ(got.largest_batches.size(), 2u);
  EXPECT_EQ(got.longest_contexts.size(), 2u);
  EXPECT_EQ(got.cache_dtype, "bf16");
  EXPECT_EQ(got.model, "small");
  EXPECT_EQ(got.level, "compiled");
  EXPECT_EQ(got.chunk, 48);
  const models::ModelConfig config = small_model().config();
  EXPECT_EQ(got.parameters, config.parameters());
  EXPECT_EQ(got.context, config.context);
  EXPECT_EQ(got.hardware.name, "h200");
}

TEST(InferencePlan, RefusesMoreSequencesThanASessionHas) {
  EXPECT_EQ(plan(small_model(), "h200", {serve::kMostSlots}, {16}).plans.size(), 1u);
  files::expect_error([] { plan(small_model(), "h200", {serve::kMostSlots + 1}, {16}); },
                      ExitCode::kUsage, "[batch-size]");
}

// The largest batch fits, and one more does not.
TEST(InferencePlan, FindsTheLargestThatFits) {
  const auto file = models::ModelFile::of_shape(models::preset("large").config);
  const record::InferencePlan got = plan(file, "a10", {2}, {512});
  const record::LargestBatch& largest = got.largest_batches.at(0);
  ASSERT_GT(largest.batch, 1);
  ASSERT_LT(largest.batch, serve::kMostSlots);
  const record::InferencePlan there = plan(file, "a10", {largest.batch, largest.batch + 1}, {512});
  EXPECT_LE(there.plans[0].owned_bytes, got.hardware.memory_bytes);
  EXPECT_GT(there.plans[1].owned_bytes, got.hardware.memory_bytes);
  EXPECT_EQ(there.plans[0].records.decode.predicted_ns, largest.decode_ns);
}

// A GPU holds a file's blocks in bf16.
TEST(InferencePlan, HoldsAQuantizedFileInBf16OnAGpu) {
  files::ScratchFolder folder;
  models::convert_to_gguf(models::ModelFile::open(serve::data_folder() + "gemma3_bf16"),
                          folder / "q8.gguf", {.type = DType::kQ8_0});
  const record::InferencePlan got =
      plan(models::ModelFile::open(folder / "q8.gguf"), "h100", {1}, {16});
  const int64_t in_file = got.file_bytes.at(DType::kQ8_0);
  EXPECT_GT(in_file, 0);
  const auto& held = got.plans[0].held_bytes;
  EXPECT_FALSE(held.contains(DType::kQ8_0));
  EXPECT_GT(held.at(DType::kBF16), in_file);
}

// A GPU multiplies fp32 or bf16 with its own kind. A plan of weights that stay as another type
// would be one of a run that cannot be.
TEST(InferencePlan, RefusesWeightsThatAGpuCannotMultiplyAsStored) {
  files::ScratchFolder folder;
  for (DType type : {DType::kQ8_0, DType::kQ4_0, DType::kF16, DType::kBF16}) {
    models::convert_to_gguf(small_model(), folder / "model.gguf", {.type = type});
    const models::ModelFile file = models::ModelFile::open(folder / "model.gguf");
    const auto planned = [&](bool exact, const char* level, const char* switches) {
      InferencePlanRequest request;
      request.setup.selection =
          serve::inference_selection({.on_gpu = true, .exact = exact}, level, switches);
      request.batches = {1};
      request.lengths = {16};
      plan_inference(file, request, choose_hardware("h100", no_machine(), false), ignore_trials);
    };
    EXPECT_NO_THROW(planned(false, "compiled", ""));
    EXPECT_NO_THROW(planned(true, "compiled", ""));
    for (const char* level : {"baseline", "compiled"}) {
      if (type != DType::kBF16) {
        EXPECT_THROW(planned(false, level, "-store_bf16"), Error);
      }
      EXPECT_THROW(planned(true, level, "-store_f32"), Error);
    }
  }
}

TEST(InferencePlan, RefusesWhatNoSessionCanHave) {
  EXPECT_THROW(plan(small_model(), "h200", {0}, {16}), Error);
  EXPECT_THROW(plan(small_model(), "h200", {5000}, {16}), Error);
  EXPECT_THROW(plan(small_model(), "h200", {1}, {100'000'000}), Error);
}

// Three lengths that the context allows, of which the context may be the last.
TEST(InferencePlan, HasUsualBatchesAndLengths) {
  const auto lengths = [](int64_t context) {
    models::ModelConfig config = small_model().config();
    config.context = context;
    const record::InferencePlan got = plan(models::ModelFile::of_shape(config), "h200", {}, {});
    std::vector<int64_t> planned;
    for (size_t i = 0; i < got.plans.size(); ++i) {
      const record::Setting& setting = got.plans[i].records.prefill.setting;
      EXPECT_EQ(setting.batch_size, (std::array{1, 8, 32})[i % 3]);
      if (i % 3 == 0) planned.push_back(setting.sequence);
      EXPECT_EQ(setting.sequence, planned.back());
    }
    EXPECT_EQ(got.plans.size(), 3 * planned.size());
    return planned;
  };
  using Lengths = std::vector<int64_t>;
  EXPECT_EQ(lengths(128), (Lengths{128}));
  EXPECT_EQ(lengths(129), (Lengths{128, 129}));
  EXPECT_EQ(lengths(512), (Lengths{128, 512}));
  EXPECT_EQ(lengths(2048), (Lengths{128, 512, 2048}));
  EXPECT_EQ(lengths(2049), (Lengths{128, 512, 2048}));
}

TEST(InferencePlan, NamesTheLimitsOfASession) {
  const int64_t context = small_model().config().context;
  EXPECT_EQ(plan(small_model(), "h200", {1}, {context}).plans.size(), 1u);
  files::expect_error(
      [&] { plan(small_model(), "h200", {1}, {context + 1}); }, ExitCode::kUsage,
      fmt::format("[seq-len] expected at most {} positions, the model's context, got {}", context,
                  context + 1));
  files::expect_error([] { plan(small_model(), "h200", {serve::kMostSlots + 1}, {16}); },
                      ExitCode::kUsage,
                      fmt::format("[batch-size] expected at most {} sequences, got {}",
                                  serve::kMostSlots, serve::kMostSlots + 1));
}

// A GPU's cache has the type of activations, or eight bits next to bf16, and only CPUs have
// activations of eight bits.
TEST(SessionChoice, RefusesCombinationsThatCannotBe) {
  using serve::chosen_cache_dtype;
  using serve::inference_selection;
  const serve::Arithmetic gpu{.on_gpu = true}, exact_gpu{.on_gpu = true, .exact = true};
  const serve::Arithmetic exact_cpu{.exact = true};
  const passes::Selection bf16 = inference_selection(gpu, "compiled", "");
  const passes::Selection fp32 = inference_selection(exact_gpu, "compiled", "");
  EXPECT_EQ(chosen_cache_dtype("bf16", gpu, bf16), DType::kBF16);
  EXPECT_EQ(chosen_cache_dtype("", gpu, bf16), std::nullopt);
  EXPECT_EQ(chosen_cache_dtype("i8", gpu, bf16), DType::kI8);
  EXPECT_EQ(chosen_cache_dtype("fp8", gpu, bf16), DType::kF8E4M3);
  EXPECT_THROW(chosen_cache_dtype("bf16", exact_gpu, fp32), Error);
  EXPECT_THROW(chosen_cache_dtype("i8", exact_gpu, fp32), Error);
  EXPECT_THROW(chosen_cache_dtype("fp8", {}, fp32), Error);
  EXPECT_THROW(chosen_cache_dtype("i8", exact_cpu, inference_selection(exact_cpu, "compiled", "")),
               Error);
  EXPECT_THROW(chosen_cache_dtype("q8", {}, fp32), Error);
  EXPECT_THROW(inference_selection({.on_gpu = true, .fast_8bit = true}, "compiled", ""), Error);
  EXPECT_THROW(inference_selection(exact_cpu, "compiled", "+quantize_activations"), Error);
}

}  // namespace
}  // namespace ridge::planning
