// SPDX-License-Identifier: Apache-2.0
// Trials of one op: what bounds it, and that the share of the limit is never over 100%.
#include "bench/op_trial.h"

#include <gtest/gtest.h>

#include "cost/made_up_ceilings.h"
#include "ops/registry.h"
#include "train/small_run.h"

namespace ridge::bench {
namespace {

// Caches of 16 KiB and 1 MiB, memory, and arithmetic that costs nothing.
cost::Ceilings machine(double bytes_per_ns) {
  cost::Ceilings c = cost::made_up_ceilings(
      {{1, bytes_per_ns, bytes_per_ns}, {1 << 30, bytes_per_ns, bytes_per_ns}}, 1e9);
  c.levels = {{"L1", 16 << 10, bytes_per_ns, bytes_per_ns, 0},
              {"L2", 1 << 20, bytes_per_ns, bytes_per_ns, 0},
              {"memory", int64_t{1} << 34, bytes_per_ns, bytes_per_ns, 0}};
  c.arithmetic_flops_per_ns = 1e9;
  c.fused_flops_per_ns = 1e9;
  c.launch_ns = 0;
  c.parallel_ns = 0;
  return c;
}

OpTrial add_trial(int64_t elements, const cost::Ceilings& ceilings) {
  auto backend = train::cpu_backend(1);
  const CaseInput input{{DType::kF32, {elements}}, {}, false};
  return run_trial(ops::table().at("add"), {"case", {input, input}, {}}, *backend, ceilings);
}

TEST(OpTrial, NamesTheMemoryThatHoldsTheOperands) {
  EXPECT_EQ(add_trial(1000, machine(1)).bound_by(), "L1");
  EXPECT_EQ(add_trial(10'000, machine(1)).bound_by(), "L2");
  EXPECT_EQ(add_trial(1'000'000, machine(1)).bound_by(), "memory");
  cost::Ceilings slow_calls = machine(1e6);
  slow_calls.launch_ns = 1e6;
  EXPECT_EQ(add_trial(1000, slow_calls).bound_by(), "overhead");
}

TEST(OpTrial, HasAShareOfALimitThatItDoesNotExceed) {
  // A machine a million times as fast as any, and one a million times as slow.
  const OpTrial slower = add_trial(10'000, machine(1e6));
  ASSERT_TRUE(slower.limit_share().has_value());
  EXPECT_GT(*slower.limit_share(), 0);
  EXPECT_DOUBLE_EQ(*slower.limit_share(), slower.predicted_ns / slower.time.median);
  EXPECT_FALSE(add_trial(10'000, machine(1e-6)).limit_share().has_value());
}

}  // namespace
}  // namespace ridge::bench
