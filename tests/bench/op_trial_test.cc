// SPDX-License-Identifier: Apache-2.0
// Trials of one op: what bounds it, and that the share of the limit is never over 100%.
#include "bench/op_trial.h"

#include <gtest/gtest.h>

#include <memory>

#include "bench/op_shapes.h"
#include "bench/trial_profile.h"
#include "cost/made_up_ceilings.h"
#include "ops/registry.h"
#include "record/kernel_table.h"
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

record::BenchPoint add_trial(int64_t elements, const cost::Ceilings& ceilings) {
  auto backend = train::cpu_backend(1);
  const CaseInput input{{DType::kF32, {elements}}, {}, false};
  return run_trial(ops::table().at("add"), {"case", {input, input}, {}}, *backend, ceilings);
}

// One point of an op with letters, planned on one thread.
record::BenchPoint planned(const std::string& op,
                           const std::string& shape,
                           TrialSetting setting = {},
                           const std::string& dtype = "fp32",
                           const std::string& implementation = "",
                           bool is_causal = false) {
  auto backend = train::cpu_backend(1);
  const OpShape& found = *find_op_shape(op);
  OpRequest request;
  request.extents = points(found.letters, parse_extents(shape, "shape"), {})[0];
  request.type = parse_trial_type(dtype);
  request.is_causal = is_causal;
  request.layout = found.layouts.empty() ? "" : found.layouts[0];
  request.implementation = choose_implementations(found, request.type, implementation)[0];
  setting.selection = passes::Selection("baseline", request.implementation.switches);
  return plan_trial(found.build(request), setting, *backend, nullptr);
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
  const record::BenchPoint slower = add_trial(10'000, machine(1e6));
  ASSERT_TRUE(slower.limit_share().has_value());
  EXPECT_GT(*slower.limit_share(), 0);
  EXPECT_DOUBLE_EQ(*slower.limit_share(), slower.limit_ns / slower.time.median);
  EXPECT_FALSE(add_trial(10'000, machine(1e-6)).limit_share().has_value());
}

// The lab notebook's GEMMs (fp32): MACs and bytes.
TEST(OpTrial, CountsTheNotebooksProducts) {
  struct GemmCounts {
    const char* shape;
    int64_t macs, bytes;
  };
  for (const GemmCounts& row : {GemmCounts{"n=512,k=512,m=512", 134'217'728, 3'145'728},
                                GemmCounts{"n=512,k=256,m=512", 67'108'864, 2'097'152},
                                GemmCounts{"n=128,k=256,m=512", 128 * 256 * 512, 917'504}})
    for (const char* layout : {"nt", "nn", "tn", "tt"}) {
      auto backend = train::cpu_backend(1);
      const OpShape& matmul = *find_op_shape("matmul");
      OpRequest request{points(matmul.letters, parse_extents(row.shape, "shape"), {})[0],
                        {},
                        false,
                        layout,
                        matmul.implementations[0]};
      const record::BenchPoint point = plan_trial(matmul.build(request), {}, *backend, nullptr);
      EXPECT_EQ(point.refused, "") << layout;
      EXPECT_EQ(point.work.macs, row.macs);
      EXPECT_EQ(point.work.flops, 2 * row.macs);
      EXPECT_EQ(point.planned_bytes, row.bytes) << row.shape << " " << layout;
      EXPECT_EQ(point.compulsory_bytes, row.bytes);
    }
}

TEST(OpTrial, CountsGradients) {
  TrialSetting backward;
  backward.is_backward = true;
  // The gradients of both operands are products of the same size.
  EXPECT_EQ(planned("matmul", "n=32,k=64,m=96", backward).work.macs, int64_t{3} * 32 * 64 * 96);
  // Forward 2 B H T T E MACs, backward 4 of them in the standard form.
  const int64_t square = int64_t{2} * 4 * 32 * 32 * 16;
  EXPECT_EQ(planned("attention", "b=2,h=4,k=2,t=32,e=16", {}, "fp32", "standard").work.macs,
            2 * square);
  EXPECT_EQ(planned("attention", "b=2,h=4,k=2,t=32,e=16", backward, "fp32", "standard").work.macs,
            6 * square);
  EXPECT_EQ(planned("embedding", "n=8,v=16,d=4", backward).kernels.count("embedding_backward"), 1u);
  EXPECT_EQ(planned("cached_attention", "c=16", backward).refused,
            "[backward] no operand has a gradient");
}

TEST(OpTrial, CountsWeightsAsStored) {
  // 34 bytes hold 32 elements of q8_0, 144 hold 256 of q4_k.
  const int64_t activations = 4 * (1024 + 512);
  EXPECT_EQ(planned("gemv", "k=1024,m=512", {}, "q8_0").planned_bytes,
            activations + 1024 * 512 / 32 * 34);
  EXPECT_EQ(planned("gemv", "k=1024,m=512", {}, "q4_k", "i16").planned_bytes,
            activations + 1024 * 512 / 256 * 144);
  EXPECT_EQ(planned("gemv", "k=1024,m=512", {}, "f16").planned_bytes, activations + 1024 * 512 * 2);
  EXPECT_THROW(planned("gemv", "k=100,m=512", {}, "q4_k"), Error);
}

// All operands of fp16 have two bytes, and a CPU computes with them.
TEST(OpTrial, RunsInFp16) {
  EXPECT_EQ(planned("matmul", "n=8,k=64,m=32", {}, "fp16").planned_bytes,
            2 * (8 * 64 + 64 * 32 + 8 * 32));
  auto backend = train::cpu_backend(1);
  const cost::Ceilings ceilings = machine(1);
  const TrialType fp16 = parse_trial_type("fp16");
  for (const char* name : {"matmul", "attention", "softmax", "gelu_tanh", "rms_norm", "add"}) {
    const OpShape& op = *find_op_shape(name);
    record::Extents small;
    for (const Letter& letter : op.letters)
      if (letter.usual < kMostExtent)
        small.emplace_back(letter.name, std::min<int64_t>(letter.usual, 32));
    OpRequest request{points(op.letters, small, {})[0], fp16, false,
                      op.layouts.empty() ? "" : op.layouts.front(), op.implementations[0]};
    TrialSetting setting;
    setting.selection = passes::Selection("baseline", op.implementations[0].switches);
    setting.budget_ns = 1;
    const record::BenchPoint point = run_trial(op.build(request), setting, *backend, &ceilings);
    EXPECT_EQ(point.refused, "") << name;
    EXPECT_GT(point.time.median, 0) << name;
  }
}

// A profile is the record of the same graph: its kernels, their times and its memory.
TEST(OpTrial, ProfilesItsKernels) {
  auto backend = train::cpu_backend(1);
  const cost::Ceilings ceilings = machine(1);
  const OpShape& op = *find_op_shape("matmul");
  OpRequest request{points(op.letters, {{"n", 64}, {"k", 64}, {"m", 64}}, {})[0],
                    {},
                    false,
                    "nt",
                    op.implementations[0]};
  TrialSetting setting;
  setting.budget_ns = 1e6;
  EXPECT_EQ(run_trial(op.build(request), setting, *backend, &ceilings).profile, nullptr);
  setting.is_profiled = true;
  setting.is_backward = true;
  const record::BenchPoint point = run_trial(op.build(request), setting, *backend, &ceilings);
  ASSERT_NE(point.profile, nullptr);
  const record::RunRecord& run = *point.profile;
  EXPECT_EQ(run.executed.macs, 3 * 64 * 64 * 64);
  EXPECT_EQ(run.launches, 3);
  EXPECT_EQ(run.memory.owned_bytes, point.owned_bytes);
  EXPECT_GT(run.plain_wall_ns.size(), 1u);
  EXPECT_GT(run.step.wall_samples_ns.size(), 1u);
  ASSERT_EQ(run.step.timeline.size(), 1u);
  EXPECT_EQ(run.step.timeline[0].run.spans.size(), 3u);
  const std::vector<record::KernelRow> rows = record::kernel_rows(run.step);
  int64_t calls = 0;
  double share = 0;
  for (const record::KernelRow& row : rows) {
    EXPECT_EQ(row.op, "matmul");
    EXPECT_NE(row.name, "matmul");  // the library's name of what it chose
    EXPECT_LE(row.least_ns, row.mean_ns());
    calls += row.calls;
    share += row.share;
  }
  EXPECT_EQ(calls, 3);
  EXPECT_DOUBLE_EQ(share, 1);
  record::BenchRecord bench;
  bench.kind = "op";
  bench.points = {point};
  bench.points[0].name = "matmul";
  bench.points[0].extents = {{"n", 64}};
  const record::LabRecord lab = profile_lab({}, bench, {});
  ASSERT_EQ(lab.runs.size(), 1u);
  EXPECT_EQ(lab.detailed, std::vector<size_t>{0});
  EXPECT_EQ(lab.runs[0].setting.str().substr(0, 13), "\"matmul\" n=64");
}

TEST(OpTrial, EveryOpWithLettersRunsInEachImplementation) {
  auto backend = train::cpu_backend(1);
  cost::Ceilings ceilings = machine(1);
  ceilings.levels[1].capacity_bytes = 32
                                      << 10;  // few copies of the operands fill four times as much
  for (const OpShape& op : op_shapes()) {
    record::Extents small;
    for (const Letter& letter : op.letters)
      if (letter.usual < kMostExtent)
        small.emplace_back(letter.name, std::min<int64_t>(letter.usual, 32));
    for (const char* dtype : {"fp32", "bf16"})
      for (const Implementation& each : choose_implementations(op, parse_trial_type(dtype), "all"))
        for (const Caches caches : {Caches::kWarm, Caches::kCold}) {
          if (caches == Caches::kCold && dtype != std::string_view("fp32")) continue;
          SCOPED_TRACE(op.name + " " + each.name + " " + dtype);
          OpRequest request{points(op.letters, small, {})[0], parse_trial_type(dtype),
                            op.has_causal, op.layouts.empty() ? "" : op.layouts.back(), each};
          TrialSetting setting;
          setting.selection = passes::Selection("baseline", each.switches);
          setting.caches = caches;
          setting.budget_ns = 1;
          const record::BenchPoint point =
              run_trial(op.build(request), setting, *backend, &ceilings);
          EXPECT_EQ(point.refused, "");
          EXPECT_GT(point.time.median, 0);
          EXPECT_GT(point.planned_bytes, 0);
          EXPECT_EQ(point.cache.starts_with("cold"), caches == Caches::kCold) << point.cache;
        }
  }
}

TEST(OpTrial, RefusesMoreMemoryThanThereIs) {
  auto backend = train::cpu_backend(1);
  const OpShape& add = *find_op_shape("add");
  OpRequest request{
      points(add.letters, {{"n", 1 << 20}}, {})[0], {}, false, "add", add.implementations[0]};
  TrialSetting setting;
  setting.memory_bytes = 1 << 20;
  const cost::Ceilings ceilings = machine(1);
  const record::BenchPoint point = run_trial(add.build(request), setting, *backend, &ceilings);
  EXPECT_NE(point.refused.find("needs 12.0 MiB of memory, 1.00 MiB are left"), std::string::npos)
      << point.refused;
  EXPECT_FALSE(point.is_measured());
}

// A point's form stands as the level and its phase as the task; a module has its sizes, too.
TEST(TrialProfile, SetsARunByItsPoint) {
  const auto setting = [](const char* kind, const char* phase, const char* form,
                          const record::Extents& extents) {
    record::BenchRecord bench;
    bench.kind = kind;
    bench.name = "mlp of a model";
    bench.points.resize(2);
    bench.points[0].name = "has no profile";
    record::BenchPoint& point = bench.points[1];
    point.name = "op";
    point.phase = phase, point.form = form, point.extents = extents;
    point.dtype = "bf16";
    point.profile = std::make_shared<record::RunRecord>();
    const record::LabRecord lab = profile_lab({}, bench, {});
    EXPECT_EQ(lab.runs.size(), 1u);
    EXPECT_EQ(lab.detailed, std::vector<size_t>{0});
    return lab.runs.at(0).setting;
  };
  const record::Setting plain = setting("op", "", "", {});
  EXPECT_EQ(plain.task, "forward");
  EXPECT_EQ(plain.level, "baseline");
  EXPECT_EQ(plain.dtype, "bf16");
  EXPECT_EQ(setting("op", "forward+backward", "native", {{"n", 2}}).task, "train");
  EXPECT_EQ(setting("op", "forward+backward", "native", {{"n", 2}}).level, "native");
  EXPECT_EQ(setting("attention", "prefill and backward", "flash", {{"t", 2}}).task, "train");
  const record::Setting decode = setting("module", "decode", "fused", {{"b", 3}, {"c", 16}});
  EXPECT_EQ(decode.task, "decode");
  EXPECT_EQ(decode.model, "mlp of a model");
  EXPECT_EQ(decode.batch_size, 3);
  EXPECT_EQ(decode.sequence, 16);
  EXPECT_EQ(setting("module", "prefill", "fused", {{"b", 3}, {"t", 8}}).sequence, 8);
}

}  // namespace
}  // namespace ridge::bench
