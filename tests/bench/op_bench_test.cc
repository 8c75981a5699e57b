// SPDX-License-Identifier: Apache-2.0
// Benches of an op's cases and of its calls in the presets.
#include "bench/op_bench.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "bench/op_trial.h"
#include "cost/made_up_ceilings.h"
#include "files/scratch.h"
#include "models/known_shapes.h"
#include "ops/registry.h"
#include "train/small_run.h"

namespace ridge::bench {
namespace {

// The table and the ids of each preset, and no call of another op.
TEST(PresetCases, AreTheCallsOfTheOp) {
  const auto backend = train::cpu_backend(1);
  const std::vector<Case> found = preset_cases(ops::table().at("embedding"), DType::kF32, *backend);
  ASSERT_EQ(found.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    const models::Preset& preset = models::preset(i == 0 ? "small" : "tiny");  // the largest first
    ASSERT_EQ(found[i].inputs.size(), 2u);
    EXPECT_EQ(found[i].inputs[0].type,
              (Type{DType::kF32, {preset.config.vocabulary, preset.config.hidden}}));
    EXPECT_EQ(found[i].inputs[1].type, (Type{DType::kI32, {preset.batch_size * preset.sequence}}));
  }
}

TEST(PresetCases, AreOfTheTypeOfActivations) {
  const auto backend = train::cpu_backend(1);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const std::vector<Case> found = preset_cases(ops::table().at("matmul"), dtype, *backend);
    ASSERT_FALSE(found.empty());
    EXPECT_EQ(found[0].inputs[0].type.dtype, dtype);
  }
}

// Points name the library of the device, as options do, and other implementations as they are.
TEST(OpBench, NamesTheLibraryOfTheDevice) {
  TrialRunner runner({.make_backend = [](const auto&) { return train::cpu_backend(1); }});
  runner.set_ceilings(cost::made_up_ceilings({{1, 10, 10}, {1 << 30, 10, 10}}, 100));
  OpBenchOptions options;
  options.shape = "n=4,k=8,m=16";
  options.implementation = "onednn,native";
  const OpBench bench(options, *find_op_shape("matmul"));
  EXPECT_EQ(bench.size(), 2);
  std::vector<std::string> forms;
  for (const record::BenchPoint& point : bench.run(runner, [](int64_t, const auto&) {}).points) {
    forms.push_back(point.form);
    EXPECT_EQ(point.work.macs, 4 * 8 * 16);
  }
  EXPECT_EQ(forms, (std::vector<std::string>{"onednn", "native"}));
}

TEST(OpCaseBench, HasAPointForEachCase) {
  TrialRunner runner({.make_backend = [](const auto&) { return train::cpu_backend(1); }});
  runner.set_ceilings(cost::made_up_ceilings({{1, 10, 10}, {1 << 30, 10, 10}}, 100));
  const CaseInput input{{DType::kF32, {64, 32}}, {}, false};
  const std::vector<Case> cases = {{"one", {input, input}, {}}, {"two", {input, input}, {}}};
  std::vector<std::string> told;
  const record::BenchRecord made =
      OpCaseBench("add", {}).run(cases, runner, [&](int64_t points, const std::string& note) {
        EXPECT_EQ(points, 1);
        told.push_back(note);
      });
  EXPECT_EQ(made.kind, "op");
  EXPECT_EQ(made.name, "add");
  EXPECT_EQ(made.formula, ops::table().at("add").formula);
  EXPECT_EQ(made.dtype, "fp32");
  ASSERT_EQ(made.points.size(), 2u);
  for (const record::BenchPoint& point : made.points) {
    EXPECT_EQ(point.work.flops, 64 * 32);
    EXPECT_EQ(point.dtype, "fp32");
    EXPECT_TRUE(point.is_measured());
  }
  EXPECT_EQ(told, (std::vector<std::string>{"one", "two"}));
}

// Ceilings that no machine is below: what is faster than they allow has no share of them, and the
// note says why.
TEST(OpCaseBench, SaysWhyAnOpIsFasterThanItsLimit) {
  const CaseInput input{{DType::kF32, {64, 32}}, {}, false};
  const auto note = [&](double bytes_per_ns, double others_share) {
    TrialRunner runner({.make_backend = [](const auto&) { return train::cpu_backend(1); }});
    cost::Ceilings ceilings = cost::made_up_ceilings(
        {{1, bytes_per_ns, bytes_per_ns}, {1 << 30, bytes_per_ns, bytes_per_ns}}, 100);
    ceilings.others_share = others_share;
    runner.set_ceilings(ceilings);
    const record::BenchRecord made = OpCaseBench("add", {}).run(
        {{"one", {input, input}, {}}}, runner, [](int64_t, const auto&) {});
    EXPECT_EQ(made.notes[0].rfind("The limit is the longest of", 0), 0u) << made.notes[0];
    return made.notes.size() == 2 ? made.notes[1] : "";
  };
  EXPECT_EQ(note(1e-6, 0).rfind("faster: than the limit, which is no exact one", 0), 0u);
  EXPECT_NE(note(1e-6, 0.25).find("other programs used 25% of the machine"), std::string::npos);
  EXPECT_EQ(note(1e6, 0), "");
}

cost::Ceilings even_machine() {
  return cost::made_up_ceilings({{1, 10, 10}, {1 << 30, 10, 10}}, 100);
}

record::BenchRecord planned(const OpBenchOptions& options, const char* op) {
  const auto backend = train::cpu_backend(1);
  TrialRunner runner({.runs = false, .make_backend = {}, .planned = &*backend});
  runner.set_ceilings(even_machine());
  return OpBench(options, *find_op_shape(op)).run(runner, [](int64_t, const auto&) {});
}

TEST(OpBench, RefusesWhatHasNoEffect) {
  const auto expect = [](const char* op, auto change, const std::string& reason) {
    OpBenchOptions options;
    change(options);
    files::expect_error([&] { OpBench(options, *find_op_shape(op)); }, ExitCode::kUsage, reason);
  };
  expect(
      "matmul", [](auto& o) { o.is_causal = true; }, "[causal] --causal has no effect on matmul");
  expect(
      "softmax", [](auto& o) { o.layout = "nt"; }, "[layout] softmax has one layout alone");
  expect(
      "matmul", [](auto& o) { o.layout = "xy"; },
      "[layout] expected nt, nn, tn, tt for matmul, got \"xy\"");
  expect(
      "matmul", [](auto& o) { o.fits = true; }, "[fit] expected one --sweep, got none");
  expect(
      "matmul",
      [](auto& o) {
        o.fits = true;
        o.sweeps = {"n=1,2", "k=8,16"};
      },
      "[fit] expected one --sweep, got several");
  expect(
      "matmul", [](auto& o) { o.implementation = "fast"; },
      "[implementation] expected all or some of library, native, tuned for matmul in fp32, got "
      "\"fast\"");
  expect(
      "softmax", [](auto& o) { o.dtype = "q8_0"; },
      "[dtype] softmax has no weights that are stored in q8_0");
  expect(
      "matmul", [](auto& o) { o.dtype = "i32"; },
      "[dtype] expected fp32, tf32, bf16, fp16, or a type of weights of files");
  expect(
      "matmul",
      [](auto& o) {
        o.dtype = "q8_0";
        o.layout = "nn";
      },
      "[layout] expected nt for weights in q8_0, got nn");
  expect(
      "matmul",
      [](auto& o) {
        o.dtype = "q8_0";
        o.shape = "n=1,k=33,m=4";
      },
      "[dtype] expected k as a multiple of 32, the block of q8_0, got 33");
}

// Each size is measured forward and, if that is asked for, with its gradient behind it.
TEST(OpBench, HasAPhaseForEachDirection) {
  OpBenchOptions options;
  options.shape = "k=8,m=16";
  options.sweeps = {"n=4,8,16"};
  const record::BenchRecord forward = planned(options, "matmul");
  EXPECT_EQ(forward.kind, "op");
  EXPECT_EQ(forward.name, "matmul");
  EXPECT_EQ(forward.swept, "n");
  EXPECT_EQ(forward.axis, "rows");
  ASSERT_EQ(forward.points.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(forward.points[i].phase, "");
    EXPECT_EQ(forward.points[i].form, "onednn") << "matmul has several";
    EXPECT_EQ(forward.points[i].work.macs, (4 << i) * 8 * 16);
  }
  options.is_backward = true;
  const record::BenchRecord both = planned(options, "matmul");
  ASSERT_EQ(both.points.size(), 6u);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(both.points[i].phase, i % 2 == 0 ? "forward" : "forward+backward");
    EXPECT_EQ(both.points[i].work.macs, (4 << i / 2) * 8 * 16 * (i % 2 == 0 ? 1 : 3));
  }
  EXPECT_EQ(planned({}, "softmax").points.at(0).form, "") << "softmax has one";
  EXPECT_EQ(planned({}, "softmax").points.at(0).extents,
            (record::Extents{{"n", 1024}, {"d", 1024}}));
}

// The usual window is as long as can be, which says nothing.
TEST(OpBench, LeavesOutTheUsualWindow) {
  OpBenchOptions options;
  options.shape = "t=16,h=2,k=2,e=8";
  options.is_causal = true;
  const record::BenchPoint all = planned(options, "attention").points.at(0);
  EXPECT_EQ(record::find(all.extents, "w"), nullptr);
  options.shape += ",w=4";
  const record::BenchPoint windowed = planned(options, "attention").points.at(0);
  ASSERT_NE(record::find(windowed.extents, "w"), nullptr);
  EXPECT_EQ(*record::find(windowed.extents, "w"), 4);
  options.implementation = "memory-efficient";
  files::expect_error([&] { OpBench(options, *find_op_shape("attention")); }, ExitCode::kUsage,
                      "[implementation] expected no window for memory-efficient, got 4");
}

TEST(OpBench, ListsLettersWithTheirMeanings) {
  const std::vector<std::string> lines = letter_lines();
  ASSERT_FALSE(lines.empty());
  EXPECT_EQ(lines[0], "matmul: n (rows, 1024), k (summed, 1024), m (columns, 1024)");
  EXPECT_EQ(
      lines[2],
      "attention: b (sequences, 1), h (heads, 16), k (KV heads, 16), t (tokens of a sequence, "
      "1024), e (head size, 64), w (window)");
  EXPECT_EQ(lines.back(),
            "add, mul, exp, silu, gelu_tanh and all other pointwise ops: n (elements, 1048576)");
  EXPECT_TRUE(op_shape_names().starts_with("matmul, gemv, attention, cached_attention, "));
}

TEST(TrialTypes, HaveTheNamesOfOptionsAndFiles) {
  const auto expect = [](const char* text, DType activations, DType weights, bool is_tf32) {
    const TrialType type = parse_trial_type(text);
    EXPECT_EQ(type.activations, activations) << text;
    EXPECT_EQ(type.weights, weights) << text;
    EXPECT_EQ(type.is_tf32, is_tf32) << text;
  };
  expect("fp32", DType::kF32, DType::kF32, false);
  expect("f32", DType::kF32, DType::kF32, false);
  expect("tf32", DType::kF32, DType::kF32, true);
  expect("bf16", DType::kBF16, DType::kBF16, false);
  expect("fp16", DType::kF16, DType::kF16, false);
  expect("f16", DType::kF32, DType::kF16, false);
  expect("q4_k", DType::kF32, DType::kQ4_K, false);
  EXPECT_EQ(parse_trial_type("fp16", true).weights, DType::kBF16) << "as the sheet of a GPU";
  for (const char* text : {"", "i32", "fp8", "q2"}) EXPECT_THROW(parse_trial_type(text), Error);
}

TEST(OpCaseBench, RefusesViewsAndTuningWithoutAProduct) {
  files::expect_error([] { OpCaseBench("reshape", {}); }, ExitCode::kUsage,
                      "[bench] 'reshape' is a view, which runs no kernel");
  OpBenchOptions tuned;
  tuned.tune = true;
  files::expect_error([&] { OpCaseBench("add", tuned); }, ExitCode::kUsage,
                      "[tune] --tune has no effect on add; it chooses algorithms of matmul");
  EXPECT_NO_THROW(OpCaseBench("matmul", tuned));
}

// Own cases, calls in the presets, and those of quantized weights.
TEST(OpCaseBench, HasTheCasesOfEachSource) {
  TrialRunner runner({.make_backend = [](const auto&) { return train::cpu_backend(1); }});
  const auto names = [&](const char* op) {
    std::vector<std::string> found;
    for (const Case& each : OpCaseBench(op, {}).cases(runner)) found.push_back(each.name);
    return found;
  };
  const size_t own = ops::table().at("quantized_matmul").cases().size();
  const std::vector<std::string> quantized = names("quantized_matmul");
  // Seven types of blocks with two types of activations, and bf16 with one, for 1 and 512 tokens.
  ASSERT_EQ(quantized.size(), own + 2 * (7 * 2 + 1));
  EXPECT_EQ(quantized[own], "q4_0 1 tokens f32");
  EXPECT_EQ(quantized[own + 1], "q4_0 1 tokens i16");
  EXPECT_EQ(quantized[own + 2], "q4_0 512 tokens f32");
  EXPECT_EQ(quantized.back(), "bf16 512 tokens f32");
  const Case last = OpCaseBench("quantized_matmul", {}).cases(runner).back();
  ASSERT_EQ(last.inputs.size(), 3u);
  EXPECT_EQ(last.inputs[0].type, (Type{DType::kF32, {512, 1024}}));
  for (size_t i : {1, 2}) EXPECT_EQ(last.inputs[i].type, (Type{DType::kBF16, {8192, 1024}}));
  EXPECT_EQ(names("softmax_cross_entropy").back(), "tiny");
}

// Three tensors of more than 2 GiB together are refused, and an op's own error is the reason.
TEST(OpCaseBench, SaysWhyACaseDoesNotRun) {
  const auto refused = [](const Shape& shape) {
    const auto backend = train::cpu_backend(1);
    const CaseInput input{{DType::kF32, shape}, {}, false};
    return run_trial(ops::table().at("add"), {"case", {input, input}, {}}, *backend, even_machine())
        .refused;
  };
  EXPECT_EQ(refused({int64_t{1} << 29}), "its operands take 4.00 GiB");
  EXPECT_EQ(refused({8}), "");
  const auto backend = train::cpu_backend(1);
  const CaseInput a{{DType::kF32, {4, 4}}, {}, false}, b{{DType::kF32, {4, 5}}, {}, false};
  const record::BenchPoint point =
      run_trial(ops::table().at("add"), {"uneven", {a, b}, {}}, *backend, even_machine());
  EXPECT_EQ(point.name, "uneven");
  EXPECT_FALSE(point.refused.empty());
  EXPECT_FALSE(point.is_measured());
}

// A sheet's ridge points and notes, the notes alone of a machine without rates, and neither where
// counts alone are shown.
TEST(TrialRunner, NotesTheSheetsRidgePoints) {
  cost::Ceilings sheet = even_machine();
  sheet.notes = {"a note"};
  record::BenchRecord bench;
  add_sheet_notes(sheet, bench);
  EXPECT_EQ(bench.notes, std::vector<std::string>{"a note"});
  sheet.levels.back().theoretical_bytes_per_ns = 2000;
  sheet.products[0].theoretical_flops_per_ns = 500'000;
  bench.notes.clear();
  add_sheet_notes(sheet, bench);
  ASSERT_EQ(bench.notes.size(), 2u);
  EXPECT_EQ(bench.notes[0],
            "data sheet, with ridge points: memory 2.00 TB/s; f32 500 TFLOP/s, 250.00 FLOP/B");
  bench.notes.clear();
  bench.is_counts = true;
  add_sheet_notes(sheet, bench);
  EXPECT_EQ(bench.notes.size(), 1u);
}

// One backend for each set of options that a backend has; a plan uses another machine's target.
TEST(TrialRunner, MakesABackendForEachOption) {
  int made = 0;
  TrialRunner runner({.make_backend = [&](const passes::Selection&) {
    ++made;
    return train::cpu_backend(1);
  }});
  const passes::Selection plain("baseline", ""), fused("baseline", "+fuse_glu"),
      tuned("baseline", "+tune_gemm");
  EXPECT_TRUE(runner.runs());
  EXPECT_EQ(&runner.backend(plain), &runner.backend(fused));
  EXPECT_EQ(made, 1);
  EXPECT_NE(&runner.backend(plain), &runner.backend(tuned));
  EXPECT_EQ(made, 2);
  EXPECT_EQ(&runner.target(tuned), &runner.backend(tuned));
  const auto launched = train::cpu_backend(1), replayed = train::cpu_backend(1);
  TrialRunner planning({.make_backend = {}, .planned = &*launched, .replaying = &*replayed});
  EXPECT_FALSE(planning.runs());
  EXPECT_EQ(&planning.target(plain), &*launched);
  EXPECT_EQ(&planning.target(passes::Selection("baseline", "+capture")), &*replayed);
}

}  // namespace
}  // namespace ridge::bench
