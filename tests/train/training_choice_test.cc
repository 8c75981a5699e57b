// SPDX-License-Identifier: Apache-2.0
// The training step that options choose: their bounds on both sides, what the model gives where
// they are silent, and the switches and places of ranks.
#include "train/training_choice.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <thread>

#include "backends/collectives/tcp.h"
#include "base/error.h"
#include "passes/tensor_shards.h"
#include "runtime/rank_board.h"
#include "runtime/rank_launcher.h"
#include "runtime/ranks.h"
#include "test_paths.h"

namespace ridge::train {
namespace {

using passes::PipelineOrder;

TrainingOptions tiny() {
  TrainingOptions options;
  options.model.preset = "tiny";
  options.level.level = "baseline";
  return options;
}

// The text of the usage Error that `act` throws; empty if it throws none.
std::string refusal(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    return error.what();
  }
  return "";
}
std::string refusal(const TrainingOptions& options) {
  return refusal([&] { const TrainingChoice choice(options); });
}

TEST(TrainingChoice, TakesFromThePresetWhatIsNotGiven) {
  const TrainingChoice choice(tiny());
  EXPECT_EQ(choice.model.name, "tiny");
  EXPECT_EQ(choice.step.batch_size, 8);
  EXPECT_EQ(choice.step.sequence, 128);
  EXPECT_EQ(choice.step.micro_batches, 1);
  EXPECT_TRUE(choice.step.frozen.empty());
  EXPECT_EQ(choice.step.base_model, "");
  EXPECT_EQ(choice.step.lora.rank, 8);
  EXPECT_EQ(choice.step.lora.alpha, 8);
  EXPECT_EQ(choice.step.lora.targets, (std::vector<std::string>{"q_proj", "v_proj"}));
  EXPECT_EQ(choice.switches, "");
  EXPECT_EQ(choice.selection.level(), "baseline");
}

TEST(TrainingChoice, TakesWhatIsGiven) {
  TrainingOptions options = tiny();
  options.batch_size = 3, options.sequence = 1000, options.micro_batches = 5;
  options.freeze = "*norm*,*mlp*";
  options.lora.rank = 4, options.lora.alpha = 2;
  options.lora_targets = "up_proj";
  options.level.switches = "+lora";
  options.level.dtype = "bf16";
  const TrainingChoice choice(options);
  EXPECT_EQ(choice.step.batch_size, 3);
  EXPECT_EQ(choice.step.sequence, 1000) << "a preset has no longest sequence";
  EXPECT_EQ(choice.step.micro_batches, 5);
  EXPECT_EQ(choice.step.frozen, (std::vector<std::string>{"*norm*", "*mlp*"}));
  EXPECT_EQ(choice.step.lora.rank, 4);
  EXPECT_EQ(choice.step.lora.alpha, 2);
  EXPECT_EQ(choice.step.lora.targets, std::vector<std::string>{"up_proj"});
  EXPECT_EQ(choice.switches, "+lora,+autocast_bf16");
  EXPECT_TRUE(choice.selection.has("lora"));
  EXPECT_TRUE(choice.selection.has("autocast_bf16"));
}

TEST(TrainingChoice, BoundsSizes) {
  TrainingOptions options = tiny();
  options.batch_size = 1, options.sequence = 1;
  EXPECT_EQ(refusal(options), "");
  options.batch_size = 0;
  EXPECT_EQ(refusal(options), "[batch-size] expected at least 1, got 0");
  options.sequence = -3;
  EXPECT_EQ(refusal(options), "[batch-size] expected at least 1, got 0");
  options.batch_size = 2;
  EXPECT_EQ(refusal(options), "[seq-len] expected at least 1, got -3");
  options.sequence = 0;
  EXPECT_EQ(refusal(options), "[seq-len] expected at least 1, got 0");
}

TEST(TrainingChoice, BoundsMicroBatches) {
  TrainingOptions options = tiny();
  EXPECT_EQ(kMostMicroBatches, 65536);
  for (const int64_t count : {1, 65536}) {
    options.micro_batches = count;
    EXPECT_EQ(refusal(options), "");
  }
  options.micro_batches = 0;
  EXPECT_EQ(refusal(options), "[micro-batches] expected 1 to 65536, got 0");
  options.micro_batches = 65537;
  EXPECT_EQ(refusal(options), "[micro-batches] expected 1 to 65536, got 65537");
}

TEST(TrainingChoice, BoundsAdapters) {
  TrainingOptions options = tiny();
  for (const int64_t rank : {1, 65536}) {
    options.lora.rank = rank;
    EXPECT_EQ(refusal(options), "");
  }
  options.lora.rank = 0;
  EXPECT_EQ(refusal(options), "[lora-rank] expected 1 to 65536, got 0");
  options.lora.rank = 65537;
  EXPECT_EQ(refusal(options), "[lora-rank] expected 1 to 65536, got 65537");
  options.lora.rank = 8;
  options.lora.alpha = 1e-6;
  EXPECT_EQ(refusal(options), "");
  options.lora.alpha = 0;
  EXPECT_EQ(refusal(options), "[lora-alpha] expected a number above 0, got 0");
  options.lora.alpha = -1.5;
  EXPECT_EQ(refusal(options), "[lora-alpha] expected a number above 0, got -1.5");
  options.lora.alpha = std::numeric_limits<double>::infinity();
  EXPECT_EQ(refusal(options), "[lora-alpha] expected a number above 0, got inf");
  options.lora.alpha = NAN;
  EXPECT_EQ(refusal(options), "[lora-alpha] expected a number above 0, got nan");
}

// Positions beyond the context of a model with weights are those that it has never seen.
TEST(TrainingChoice, KeepsToTheContextOfAModel) {
  TrainingOptions options = tiny();
  options.model.model_file = test_data("models/llama_fp32").string();
  const TrainingChoice choice(options);
  EXPECT_EQ(choice.step.batch_size, 8);
  EXPECT_EQ(choice.step.sequence, 256);
  EXPECT_EQ(choice.step.base_model, options.model.model_file);
  EXPECT_NE(choice.model.file, nullptr);
  options.sequence = 257;
  EXPECT_EQ(refusal(options),
            "[seq-len] expected at most 256 tokens, the context of \"llama_fp32\", got 257");
}

TEST(TrainingChoice, AddsSwitches) {
  TrainingChoice choice(tiny());
  choice.add_switch("");
  EXPECT_EQ(choice.switches, "");
  choice.add_switch("+recompute=2");
  EXPECT_EQ(choice.switches, "+recompute=2");
  EXPECT_EQ(choice.selection.number("recompute"), 2);
  choice.add_switch("+tf32");
  EXPECT_EQ(choice.switches, "+recompute=2,+tf32");
  EXPECT_TRUE(choice.selection.has("recompute"));
  EXPECT_TRUE(choice.selection.has("tf32"));
  EXPECT_EQ(choice.selection.level(), "baseline");
}

TEST(TrainingChoice, MakesASetup) {
  TrainingOptions options = tiny();
  options.batch_size = 3, options.micro_batches = 2;
  options.level.level = "fused";
  options.level.switches = "-tune_gemm";
  options.level.tf32 = true;
  TrainingChoice choice(options);
  choice.step.optimizer.learning_rate = 0.5;
  backends::MachineOptions machine;
  machine.device = "cpu";
  const TrainingSetup setup = choice.setup(machine);
  EXPECT_EQ(setup.setting.model, "tiny");
  EXPECT_EQ(setup.setting.level, "fused");
  EXPECT_EQ(setup.setting.switches, "-tune_gemm,+tf32");
  EXPECT_EQ(setup.setting.dtype, "tf32");
  EXPECT_EQ(setup.setting.device, "cpu");
  EXPECT_EQ(setup.config.name, "tiny");
  EXPECT_EQ(setup.config.parameters(), choice.model.config.parameters());
  EXPECT_EQ(setup.step.batch_size, 3);
  EXPECT_EQ(setup.step.micro_batches, 2);
  EXPECT_EQ(setup.step.optimizer.learning_rate, 0.5);
  EXPECT_EQ(setup.selection.level(), "fused");
  EXPECT_TRUE(setup.selection.has("tf32"));
}

plan::RankLayout layout(int64_t data, int64_t tensor, int64_t pipeline) {
  plan::RankLayout made;
  made.data = data, made.tensor = tensor, made.pipeline = pipeline;
  return made;
}

TEST(LayoutSwitches, NameThePassesOfALayout) {
  RankSharing sharing;
  EXPECT_EQ(layout_switches(layout(1, 1, 4), sharing), "");
  EXPECT_EQ(layout_switches(layout(3, 1, 1), sharing), "+data_parallel=3");
  EXPECT_EQ(layout_switches(layout(1, 2, 1), sharing), "+train_tensor_parallel=2");
  EXPECT_EQ(layout_switches(layout(3, 2, 1), sharing), "+train_tensor_parallel=2,+data_parallel=3");
  sharing.sequence_parallel = true;
  EXPECT_EQ(layout_switches(layout(1, 2, 1), sharing),
            "+train_tensor_parallel=2,+sequence_parallel");
  sharing.zero = 3;
  EXPECT_EQ(layout_switches(layout(2, 4, 1), sharing),
            "+train_tensor_parallel=4,+sequence_parallel,+zero=3");
  EXPECT_EQ(layout_switches(layout(1, 2, 1), sharing),
            "+train_tensor_parallel=2,+sequence_parallel")
      << "nothing to share out";
  sharing.sequence_parallel = false, sharing.zero = 1;
  EXPECT_EQ(layout_switches(layout(2, 1, 1), sharing), "+zero=1");
}

TEST(LayoutSwitches, RefuseWhatALayoutHasNot) {
  RankSharing sharing;
  const auto refused = [&](int64_t tensor) {
    return refusal([&] { layout_switches(layout(2, tensor, 1), sharing); });
  };
  sharing.zero = -1;
  EXPECT_EQ(refused(1), "[zero] expected a stage from 0 to 3, got -1");
  sharing.zero = 4;
  EXPECT_EQ(refused(1), "[zero] expected a stage from 0 to 3, got 4");
  sharing.zero = 0;
  sharing.sequence_parallel = true;
  EXPECT_EQ(refused(1), "[sequence-parallel] expected ranks that share a model, got 1");
  EXPECT_EQ(refused(2), "");
}

TEST(PipelineOf, NamesTheOrderAndTheChunks) {
  const auto of = [](int64_t stages, const char* schedule, int64_t chunks) {
    RankSharing sharing;
    sharing.pipeline_schedule = schedule, sharing.pipeline_chunks = chunks;
    const PipelineOptions made = pipeline_of(layout(1, 1, stages), sharing);
    return std::pair(made.order, made.chunks);
  };
  using enum PipelineOrder;
  EXPECT_EQ(of(1, "1f1b", 0), std::pair(kOneForwardOneBackward, int64_t{1}));
  EXPECT_EQ(of(2, "1f1b", 0), std::pair(kOneForwardOneBackward, int64_t{1}));
  EXPECT_EQ(of(2, "1f1b", 1), std::pair(kOneForwardOneBackward, int64_t{1}));
  EXPECT_EQ(of(2, "zero-bubble", 0), std::pair(kZeroBubble, int64_t{1}));
  EXPECT_EQ(of(2, "interleaved", 0), std::pair(kInterleaved, int64_t{2}));
  EXPECT_EQ(of(2, "interleaved", 1), std::pair(kInterleaved, int64_t{1}));
  EXPECT_EQ(of(2, "interleaved", 3), std::pair(kInterleaved, int64_t{3}));
  EXPECT_EQ(of(2, "interleaved", 64), std::pair(kInterleaved, int64_t{64}));
}

TEST(PipelineOf, RefusesWhatTheScheduleHasNot) {
  const auto refused = [](int64_t stages, const char* schedule, int64_t chunks) {
    RankSharing sharing;
    sharing.pipeline_schedule = schedule, sharing.pipeline_chunks = chunks;
    return refusal([&] { pipeline_of(layout(1, 1, stages), sharing); });
  };
  const std::string alone = "[pipeline-schedule] expected --pipeline-parallel of 2 or more, got 1";
  EXPECT_EQ(refused(1, "interleaved", 0), alone);
  EXPECT_EQ(refused(1, "zero-bubble", 0), alone);
  EXPECT_EQ(refused(1, "1f1b", 1), alone);
  EXPECT_EQ(refused(2, "interleaved", 65), "[pipeline-chunks] expected 1 to 64, got 65");
  EXPECT_EQ(refused(2, "interleaved", -1), "[pipeline-chunks] expected 1 to 64, got -1");
  const std::string one =
      "[pipeline-chunks] expected 1 unless --pipeline-schedule interleaved, got ";
  EXPECT_EQ(refused(2, "1f1b", 2), one + "2");
  EXPECT_EQ(refused(2, "1f1b", -1), one + "-1");
  EXPECT_EQ(refused(2, "zero-bubble", 2), one + "2");
  EXPECT_EQ(refused(2, "2f2b", 0),
            "[pipeline-schedule] expected 1f1b, interleaved or zero-bubble, got \"2f2b\"");
}

runtime::RankPlace place(int rank, int ranks) {
  runtime::RankPlace made;
  made.launcher = runtime::Launcher::kTorchrun;
  made.rank = rank, made.ranks = ranks;
  made.address = "127.0.0.1", made.port = runtime::free_port();
  return made;
}

// A process may stand for the first rank of a layout, which names the passes.
TEST(SharedTraining, HasTheSizesOfTheLayout) {
  const auto expect = [](const plan::RankLayout& ranks_of, bool shares_kv_heads) {
    TrainingOptions options = tiny();
    options.level.switches = "-tune_gemm";
    TrainingChoice choice(options);
    runtime::Ranks ranks(place(0, 1), ranks_of, {}, true);
    RankSharing sharing;
    sharing.pipeline_schedule = "interleaved", sharing.pipeline_chunks = 3;
    choice.share(ranks, sharing);
    EXPECT_EQ(choice.switches, fmt::format("-tune_gemm,+train_tensor_parallel={},"
                                           "+data_parallel=3",
                                           ranks_of.tensor));
    EXPECT_EQ(choice.selection.number("train_tensor_parallel"), ranks_of.tensor);
    EXPECT_EQ(choice.selection.number("data_parallel"), 3);
    EXPECT_EQ(choice.step.pipeline.order, PipelineOrder::kInterleaved);
    EXPECT_EQ(choice.step.pipeline.chunks, 3);
    EXPECT_EQ(choice.step.shard.ranks, 3);
    EXPECT_EQ(choice.step.shard.tensor_ranks, ranks_of.tensor);
    EXPECT_EQ(choice.step.shard.stages, 2);
    EXPECT_TRUE(choice.step.shard.is_first());
    EXPECT_EQ(choice.step.shard.all, &ranks.all());
    EXPECT_EQ(choice.step.shard.groups, &ranks.groups());
    EXPECT_EQ(ranks.groups().contains(passes::kKvHeadsGroup), shares_kv_heads);
  };
  // The model has four heads of keys and values.
  expect(layout(3, 4, 2), false);
  expect(layout(3, 8, 2), true);
}

// As runtime::Ranks does when it joins the others, without its watch.
void take_part(const plan::RankLayout& ranks, int rank, int port) {
  const auto world =
      backends::join_tcp_world({"127.0.0.1", port, rank, static_cast<int>(ranks.ranks()), 60});
  const auto all = world->split(0);
  const auto split = [&](const char* group, int64_t size) {
    return world->split(static_cast<int>(ranks.members(group, size, rank)[0]));
  };
  const auto data = split("data", ranks.data), tensor = split("tensor", ranks.tensor);
  runtime::RankBoard board(*all);
  board.add_group("data", *data);
  board.add_group("tensor", *tensor);
  board.add_group("world", *all);
  board.leave();
}

TEST(SharedTraining, HasThePlaceOfTheRank) {
  const plan::RankLayout ranks_of = layout(3, 2, 1);
  const runtime::RankPlace own = place(5, 6);
  std::vector<std::jthread> others;
  for (int rank = 0; rank < 5; ++rank)
    others.emplace_back([&, rank] { take_part(ranks_of, rank, own.port); });
  TrainingChoice choice(tiny());
  runtime::Ranks ranks(own, ranks_of, {}, true);
  RankSharing sharing;
  sharing.zero = 2;
  choice.share(ranks, sharing);
  EXPECT_EQ(choice.switches, "+train_tensor_parallel=2,+zero=2");
  const RankShare& shard = choice.step.shard;
  EXPECT_EQ(shard.rank, 2);
  EXPECT_EQ(shard.ranks, 3);
  EXPECT_EQ(shard.tensor_rank, 1);
  EXPECT_EQ(shard.tensor_ranks, 2);
  EXPECT_EQ(shard.stage, 0);
  EXPECT_EQ(shard.stages, 1);
  EXPECT_EQ(shard.all->size(), 6);
  EXPECT_EQ(choice.step.pipeline.order, PipelineOrder::kOneForwardOneBackward);
  EXPECT_EQ(choice.step.pipeline.chunks, 1);
}

}  // namespace
}  // namespace ridge::train
