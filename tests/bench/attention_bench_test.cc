// SPDX-License-Identifier: Apache-2.0
// The bench of attention says which points the memory of a data sheet cannot hold.
#include "bench/attention_bench.h"

#include <gtest/gtest.h>

#include "cost/made_up_ceilings.h"
#include "serve/real_model.h"

namespace ridge::bench {
namespace {

record::BenchRecord planned(int64_t memory_bytes, AttentionBenchOptions options = {}) {
  if (options.lengths.empty()) options.lengths = "512,32768";
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

AttentionBenchOptions small_run() {
  AttentionBenchOptions options;
  options.lengths = "24,40";  // no powers of two, whose winners are kept
  options.head_sizes = "64";
  options.dtypes = "fp32";
  options.heads = options.kv_heads = 2;
  options.machine.device = "cpu";
  return options;
}

record::BenchRecord measured(const AttentionBenchOptions& options, int64_t* lines = nullptr) {
  TrialRunner trials({.budget_ns = 1e6, .make_backend = [](const passes::Selection&) {
                        backends::cpu::CpuOptions one;
                        one.threads = 1;
                        return backends::cpu::make_cpu_backend(one);
                      }});
  trials.set_ceilings(cost::made_up_ceilings({{int64_t{1} << 30, 1e6, 1e6}}, 1e6));
  return AttentionBench(options).run(trials, [&](int64_t points, const std::string&) {
    if (lines != nullptr) *lines += points;
  });
}

// Decodes have a paged form, too. The forms of a phase follow each other, each at all lengths.
TEST(AttentionBench, MeasuresEachFormAtEachLength) {
  AttentionBenchOptions options = small_run();
  options.phases = "prefill,decode";
  int64_t told = 0;
  const record::BenchRecord bench = measured(options, &told);
  ASSERT_EQ(bench.points.size(), 12u);
  EXPECT_EQ(told, 12);
  const std::vector<std::string> forms = {
      "standard", "memory-efficient", "flash", "standard", "flash", "paged"};
  for (size_t i = 0; i < bench.points.size(); ++i) {
    const record::BenchPoint& point = bench.points[i];
    EXPECT_EQ(point.refused, "");
    EXPECT_TRUE(point.is_measured());
    EXPECT_EQ(point.form, forms[i / 2]);
    EXPECT_EQ(point.phase, i < 6 ? "prefill" : "decode");
    EXPECT_EQ(point.extents[0], std::pair(std::string("t"), int64_t{i % 2 == 0 ? 24 : 40}));
    EXPECT_EQ(point.dtype, "fp32");
  }
  // A decode reads the keys and values of each head once.
  EXPECT_EQ(bench.points[9].work.macs, 2 * 2 * 40 * 64);
  for (const char* phase : {"prefill", "decode"}) {
    const auto winners = std::ranges::count_if(bench.notes, [&](const std::string& note) {
      return note.starts_with(fmt::format("{}, fp32, head size 64: the fastest is ", phase));
    });
    EXPECT_EQ(winners, 1) << phase;
  }
}

TEST(AttentionBench, RefusesWhatTakesMoreThanAnEighthOfTheBudget) {
  AttentionBenchOptions options = small_run();
  options.budget_s = 1e-9;
  for (const record::BenchPoint& point : measured(options).points) {
    EXPECT_EQ(point.refused.substr(0, 11), "would take ");
    EXPECT_NE(point.refused.find(", and 1.00 ns of the budget are left"), std::string::npos)
        << point.refused;
    EXPECT_FALSE(point.is_measured());
  }
}

// The winner changes with the length; a form alone wins nothing.
TEST(AttentionBench, NamesTheFastestFromEachLength) {
  AttentionBenchOptions options;
  options.lengths = "512,1024";
  const record::BenchRecord both = planned(0, options);
  ASSERT_FALSE(both.notes.empty());
  const record::BenchPoint &standard = both.points[0], &flash = both.points[2];
  EXPECT_EQ(both.notes[0],
            fmt::format("prefill, bf16, head size 128: the fastest is {} from 512.",
                        standard.predicted_ns < flash.predicted_ns ? "standard" : "flash"));
}

TEST(AttentionBench, RefusesOptionsByTheirNames) {
  const auto expect = [](void (*change)(AttentionBenchOptions&), const std::string& begin) {
    AttentionBenchOptions options;
    change(options);
    try {
      const AttentionBench bench(options);
      ADD_FAILURE() << begin;
    } catch (const Error& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with(begin)) << error.what();
    }
  };
  expect([](auto& o) { o.budget_s = 0; }, "[budget] expected more than 0 and at most 86400");
  expect([](auto& o) { o.budget_s = 86401; }, "[budget] expected more than 0 and at most 86400");
  expect([](auto& o) { o.batch = 0; }, "[batch-size] expected 1 to 1048576, got 0");
  expect([](auto& o) { o.heads = (1 << 20) + 1; }, "[heads] expected 1 to 1048576, got 1048577");
  expect([](auto& o) { o.kv_heads = -1; }, "[kv-heads] expected 1 to 1048576, got -1");
  expect([](auto& o) { o.phases = "prefill,train"; }, "[phase] expected some of prefill, decode");
  expect([](auto& o) { o.dtypes = "tf32"; }, "[dtype] expected some of fp32, bf16, fp16");
  expect([](auto& o) { o.forms = "flash,ring"; }, "[form] expected all or some of standard");
  expect([](auto& o) { o.lengths = std::to_string(kLongestAttention + 1); },
         "[seq-len] expected at most ");
  AttentionBenchOptions most;
  most.budget_s = 86400, most.batch = most.heads = most.kv_heads = 1 << 20;
  most.lengths = std::to_string(kLongestAttention);
  EXPECT_NO_THROW(AttentionBench{most});
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
