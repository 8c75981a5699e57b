// SPDX-License-Identifier: Apache-2.0
// The bench of attention says which points the memory of a data sheet cannot hold.
#include "bench/attention_bench.h"

#include <gtest/gtest.h>

#include "cost/made_up_ceilings.h"
#include "serve/real_model.h"

namespace ridge::bench {
namespace {

record::BenchRecord planned(int64_t memory_bytes) {
  AttentionBenchOptions options;
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

std::string unfit(const record::BenchRecord& bench) {
  for (const std::string& note : bench.notes)
    if (note.starts_with("does not fit")) return note;
  return "";
}

TEST(AttentionBench, SaysWhatDoesNotFit) {
  const record::BenchRecord bench = planned(int64_t{24} * 1000 * 1000 * 1000);
  EXPECT_EQ(unfit(bench), "does not fit the 22.4 GiB of a card: t=32768,e=128 standard.");
  ASSERT_EQ(bench.points.size(), 4u);
  // The scores of 16 heads, in place on a CPU.
  EXPECT_GT(bench.points[1].owned_bytes, int64_t{16} * 32768 * 32768 * 2);
  EXPECT_LT(bench.points[3].owned_bytes, int64_t{1} << 30);
}

TEST(AttentionBench, SaysNothingWhereAllFits) {
  EXPECT_EQ(unfit(planned(int64_t{1} << 40)), "");
  EXPECT_EQ(unfit(planned(0)), "");
}

}  // namespace
}  // namespace ridge::bench
