// SPDX-License-Identifier: Apache-2.0
// Benches of a module: which of its sizes varies, so that a chart has it as its axis.
#include "bench/module_bench.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "cost/made_up_ceilings.h"
#include "files/scratch.h"
#include "train/small_run.h"

namespace ridge::bench {
namespace {

record::BenchRecord planned(const char* phases,
                            const char* batches,
                            const char* lengths,
                            const char* contexts = "") {
  ModuleBenchOptions options;
  options.module = "mlp";
  options.phases = phases, options.batch_sizes = batches, options.lengths = lengths;
  options.contexts = contexts;
  options.forms = "fused";
  const auto backend = train::cpu_backend(1);
  TrialRunner runner({.runs = false, .make_backend = {}, .planned = &*backend});
  runner.set_ceilings(cost::made_up_ceilings({{int64_t{1} << 30, 10, 10}}, 100));
  return ModuleBench(options, false).run(runner, [](int64_t, const std::string&) {});
}

TEST(ModuleBench, NamesTheSizeThatAloneVaries) {
  const record::BenchRecord lengths = planned("prefill", "1", "16,32");
  EXPECT_EQ(lengths.swept, "t");
  EXPECT_EQ(lengths.axis, "tokens of a sequence");
  ASSERT_EQ(lengths.points.size(), 2u);
  EXPECT_EQ(lengths.points[1].extents, (record::Extents{{"b", 1}, {"t", 32}}));
  const record::BenchRecord contexts = planned("decode", "2", "16", "16,32");
  EXPECT_EQ(contexts.swept, "c");
  EXPECT_EQ(contexts.axis, "keys of a sequence in the cache");
  EXPECT_EQ(contexts.points.at(1).extents, (record::Extents{{"b", 2}, {"c", 32}}));
  const record::BenchRecord batches = planned("decode", "1,2", "16");
  EXPECT_EQ(batches.swept, "b");
  EXPECT_EQ(batches.axis, "sequences at a time");
  EXPECT_EQ(planned("prefill", "1,2", "16,32").swept, "");
  EXPECT_EQ(planned("prefill,decode", "1", "16,32").swept, "");
  EXPECT_EQ(planned("prefill", "1", "16").swept, "");
}

TEST(ModuleBench, RefusesOptionsByTheirNames) {
  const auto expect = [](auto change, const std::string& reason) {
    ModuleBenchOptions options;
    options.module = "mlp";
    change(options);
    files::expect_error([&] { ModuleBench(options, false); }, ExitCode::kUsage, reason);
  };
  expect([](auto& o) { o.module = "lm"; }, "[module] expected one of ");
  expect([](auto& o) { o.phases = "prefill,eval"; },
         "[phase] expected some of train, prefill, decode, uncached-decode, got \"eval\"");
  expect([](auto& o) { o.forms = "captured"; }, "[form] expected all or some of eager");
  expect([](auto& o) { o.bytes = "theirs"; }, "[bytes] expected ridge");
  expect([](auto& o) { o.dtype = "q4_k"; },
         "[dtype] expected rows of whole blocks of q4_k, 256, got 640 for ");
  expect([](auto& o) { o.phases = "uncached-decode"; },
         "[phase] expected the attention or the layer in uncached-decode, got mlp");
  expect(
      [](auto& o) {
        o.module = "attention";
        o.phases = "uncached-decode";
        o.lengths = "1";
      },
      "[context] expected at least 2 keys in uncached-decode, got 1");
}

// The forms after the first are compared with it, by prediction where nothing ran.
TEST(ModuleBench, SaysWhatAFormSaves) {
  ModuleBenchOptions options;
  options.module = "mlp";
  options.lengths = "16";
  options.forms = "eager,fused";
  const auto backend = train::cpu_backend(1);
  const auto run = [&](TrialRunner& runner) {
    runner.set_ceilings(cost::made_up_ceilings({{int64_t{1} << 30, 10, 10}}, 100));
    const ModuleBench bench(options, false);
    EXPECT_EQ(bench.size(), 2);
    EXPECT_FALSE(bench.decodes());
    int64_t told = 0;
    record::BenchRecord made =
        bench.run(runner, [&](int64_t points, const auto&) { told += points; });
    EXPECT_EQ(told, 2);
    return made;
  };
  const auto note = [](const record::BenchRecord& made, const char* how) {
    const record::BenchPoint &eager = made.points.at(0), &fused = made.points.at(1);
    return fmt::format(
        "prefill fused: {:.2f} times as fast as eager{}, {} for {} kernels, {:.0f}% "
        "of its bytes.",
        eager.ns() / fused.ns(), how, fused.launches, eager.launches,
        100.0 * static_cast<double>(fused.planned_bytes) /
            static_cast<double>(eager.planned_bytes));
  };
  TrialRunner planning({.runs = false, .make_backend = {}, .planned = &*backend});
  const record::BenchRecord planned = run(planning);
  ASSERT_EQ(planned.notes.size(), 3u);
  EXPECT_EQ(planned.notes[0].substr(0, 7), "eager: ");
  EXPECT_EQ(planned.notes[1].substr(0, 7), "fused: ");
  EXPECT_EQ(planned.notes[2], note(planned, " by prediction"));
  EXPECT_EQ(planned.name, "mlp of gemma3-270m");
  options.dtype = "fp32";
  TrialRunner running({.budget_ns = 1e6, .make_backend = [](const passes::Selection&) {
                         return train::cpu_backend(1);
                       }});
  const record::BenchRecord measured = run(running);
  ASSERT_EQ(measured.notes.size(), 3u);
  EXPECT_EQ(measured.notes[2], note(measured, ""));
}

TEST(ModuleBench, KeepsWhatWasCompleteWhenItWasStopped) {
  ModuleBenchOptions options;
  options.module = "mlp";
  options.lengths = "16,32";
  options.forms = "eager,fused";
  const auto backend = train::cpu_backend(1);
  int64_t told = 0;
  TrialRunner runner({.runs = false,
                      .is_stopped = [&] { return told >= 3; },
                      .make_backend = {},
                      .planned = &*backend});
  runner.set_ceilings(cost::made_up_ceilings({{int64_t{1} << 30, 10, 10}}, 100));
  const record::BenchRecord made =
      ModuleBench(options, false).run(runner, [&](int64_t points, const auto&) { told += points; });
  EXPECT_EQ(made.points.size(), 3u);
}

}  // namespace
}  // namespace ridge::bench
