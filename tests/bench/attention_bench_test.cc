// SPDX-License-Identifier: Apache-2.0
// The bench of attention says which points the memory of a data sheet cannot hold.
#include "bench/attention_bench.h"

#include <gtest/gtest.h>

#include "cost/made_up_ceilings.h"
#include "serve/real_model.h"

namespace ridge::bench {
namespace {

record::BenchRecord planned(int64_t memory_bytes, AttentionBenchOptions options = {}) {
  options.lengths = "512,32768";
  options.head_sizes = "128";
  options.dtypes = "bf16";
  options.forms = "standard,flash";
  TrialRunner trials({.runs = false, .make_backend = {}, .planned = &serve::cpu_backend()});
  cost::Ceilings sheet = cost::made_up_ceilings({{int64_t{1} << 30, 10, 10}}, 100);
  sheet.machine.device = "a card";
  sheet.machine.memory_bytes = memory_bytes;
  trials.set_ceilings(sheet);
  return AttentionBench(options).run(trials, [](int64_t, const std::string&) {});
}

TEST(AttentionBench, RefusesWhatDoesNotFit) {
  const record::BenchRecord bench = planned(int64_t{24} * 1000 * 1000 * 1000);
  ASSERT_EQ(bench.points.size(), 4u);
  for (size_t i : {0, 2, 3}) {
    EXPECT_EQ(bench.points[i].refused, "");
    EXPECT_GT(bench.points[i].predicted_ns, 0);
  }
  EXPECT_TRUE(bench.points[1].lacks_memory);
  EXPECT_EQ(bench.points[1].predicted_ns, 0);
  EXPECT_EQ(bench.points[1].refused.substr(0, 6), "needs ");
  EXPECT_NE(bench.points[1].refused.find(" GB of the 24.0 GB of a card"), std::string::npos)
      << bench.points[1].refused;
  // The scores of 16 heads, in place on a CPU.
  EXPECT_GT(bench.points[1].owned_bytes, int64_t{16} * 32768 * 32768 * 2);
  EXPECT_LT(bench.points[3].owned_bytes, int64_t{1} << 30);
}

TEST(AttentionBench, RefusesNothingWhereAllFits) {
  for (const int64_t memory : {int64_t{1} << 40, int64_t{0}})
    for (const record::BenchPoint& point : planned(memory).points) EXPECT_EQ(point.refused, "");
}

// The standard form computes the whole square in any case, the flash form skips masked tiles.
TEST(AttentionBench, AttendsToAllWithoutAMask) {
  AttentionBenchOptions open;
  open.is_causal = false;
  const record::BenchRecord causal = planned(0), all = planned(0, open);
  EXPECT_NE(all.name.find("no mask"), std::string::npos);
  constexpr int64_t kSquare = int64_t{2} * 16 * 512 * 512 * 128;
  EXPECT_EQ(all.points[0].work.macs, kSquare);
  EXPECT_EQ(all.points[2].work.macs, kSquare);
  EXPECT_LT(causal.points[2].work.macs, kSquare);
}

// Where both forms have a time, what the standard one takes of it and of memory.
TEST(AttentionBench, ComparesTheFormsAtEachLength) {
  const record::BenchRecord bench = planned(int64_t{24} * 1000 * 1000 * 1000);
  const record::BenchPoint &standard = bench.points[0], &flash = bench.points[2];
  const std::string want = fmt::format(
      "flash over standard, time and memory: {:.2f} and {:.2f} times less at 512.",
      standard.predicted_ns / flash.predicted_ns,
      static_cast<double>(standard.owned_bytes) / static_cast<double>(flash.owned_bytes));
  ASSERT_FALSE(bench.notes.empty());
  EXPECT_NE(bench.notes.back().find(want), std::string::npos) << bench.notes.back() << want;
}

// Four matrices of q, k, v and o, and seven passes over the scores, in two bytes an element.
TEST(AttentionBench, CountsTheNotebooksBytes) {
  const record::BenchRecord bench = planned(0);
  EXPECT_EQ(bench.points[0].unfused_bytes, 2 * (4 * 16 * 512 * 128 + 7 * 16 * 512 * 512));
}

TEST(AttentionBench, AChildTriesThePointOnTheSameMachine) {
  using Line = std::vector<std::string>;
  const OpRequest request{.extents = {{"b", 1}, {"t", 4096}},
                          .type = parse_trial_type("bf16"),
                          .is_causal = true,
                          .layout = {},
                          .implementation = {.name = "flash", .summary = {}, .switches = {}}};
  AttentionBenchOptions options;
  EXPECT_EQ(child_arguments(*find_op_shape("attention"), request, options),
            (Line{"attention", "--shape", "b=1,t=4096", "--causal", "--implementation", "flash",
                  "--dtype", "bf16"}));
  options.is_backward = true;
  options.machine.device = "cuda";
  options.machine.threads = 3;
  EXPECT_EQ(child_arguments(*find_op_shape("attention"), request, options),
            (Line{"attention", "--shape", "b=1,t=4096", "--causal", "--implementation", "flash",
                  "--dtype", "bf16", "--backward", "--device", "cuda", "--threads", "3"}));
  // A decode has no backward pass.
  EXPECT_EQ(child_arguments(*find_op_shape("cached_attention"), request, options),
            (Line{"cached_attention", "--shape", "b=1,t=4096", "--implementation", "flash",
                  "--dtype", "bf16", "--device", "cuda", "--threads", "3"}));
}

}  // namespace
}  // namespace ridge::bench
