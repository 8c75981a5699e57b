// SPDX-License-Identifier: Apache-2.0
// Benches of a module: which of its sizes varies, so that a chart has it as its axis.
#include "bench/module_bench.h"

#include <gtest/gtest.h>

#include "cost/made_up_ceilings.h"
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

}  // namespace
}  // namespace ridge::bench
