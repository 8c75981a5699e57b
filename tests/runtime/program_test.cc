// SPDX-License-Identifier: Apache-2.0
// Programs: graphs on one store and one arena, run in any order and measured. tests/backends tests
// the kernels' results.
#include "runtime/program.h"

#include <gtest/gtest.h>

#include <set>

#include "backends/cpu/cpu_backend.h"
#include "base/bf16.h"
#include "base/error.h"
#include "ops/build.h"
#include "ops/registry.h"

namespace ridge::runtime {
namespace {

const Type kVector{DType::kF32, {4}};

class ProgramTest : public testing::Test {
 protected:
  void write(const char* name, std::vector<float> data) {
    store.write(name, data.data(), static_cast<int64_t>(data.size() * sizeof(float)));
  }

  std::unique_ptr<backends::Backend> backend = backends::cpu::make_cpu_backend({});
  Store store{*backend};
  Program program{*backend, store};
};

// (x + 1)^2
Graph square() {
  Graph graph;
  Builder b(graph, ops::table());
  graph.outputs = {ops::unary(b, "square", ops::add_scalar(b, b.input("x", kVector), 1))};
  return graph;
}

// total += x
Graph add_to_total() {
  Graph graph;
  Builder b(graph, ops::table());
  b.call("accumulate", {b.state("total", kVector), b.input("x", kVector)});
  return graph;
}

TEST_F(ProgramTest, RunsAGraph) {
  int stage = program.add("square", square());
  program.bind();
  write("x", {0, 1, 2, -3});
  program.run(stage);
  EXPECT_EQ(program.read(stage, program.graph(stage).graph().outputs[0]),
            (std::vector<float>{1, 4, 9, 4}));
  write("x", {1, 1, 1, 1});
  program.run(stage);
  EXPECT_EQ(program.read(stage, program.graph(stage).graph().outputs[0]),
            std::vector<float>(4, 4.0f));
}

TEST_F(ProgramTest, KeepsStatesFromRunToRunAndGraphToGraph) {
  int add = program.add("add", add_to_total(), 3);
  Graph graph;
  Builder b(graph, ops::table());
  ValueId total = b.state("total", kVector);
  graph.outputs = {ops::scale(b, total, 10)};
  int read = program.add("read", graph);
  program.bind();
  EXPECT_EQ(program.graph(add).repeat, 3);
  EXPECT_EQ(program.graphs().size(), 2u);
  write("x", {1, 2, 3, 4});
  for (int i = 0; i < 3; ++i) program.run(add);
  program.run(read);
  EXPECT_EQ(program.read(read, program.graph(read).graph().outputs[0]),
            (std::vector<float>{30, 60, 90, 120}));
  EXPECT_EQ(store.read_floats("total"), (std::vector<float>{3, 6, 9, 12}));
}

TEST_F(ProgramTest, ReadsBf16AsFloats) {
  Graph graph;
  Builder b(graph, ops::table());
  graph.outputs = {ops::cast(b, b.input("x", kVector), DType::kBF16)};
  int stage = program.add("narrow", graph);
  program.bind();
  write("x", {1, 0.1f, -3, 1e30f});
  program.run(stage);
  std::vector<float> got = program.read(stage, program.graph(stage).graph().outputs[0]);
  for (size_t i = 0; i < 4; ++i) {
    float want = std::vector<float>{1, 0.1f, -3, 1e30f}[i];
    EXPECT_EQ(got[i], bf16_to_float(float_to_bf16(want)));
  }
}

TEST_F(ProgramTest, SharesOneArenaAmongItsGraphs) {
  program.add("small", square());
  Graph graph;
  Builder b(graph, ops::table());
  graph.outputs = {ops::unary(b, "exp", b.input("wide", {DType::kF32, {1000}}))};
  program.add("large", graph);
  EXPECT_EQ(program.arena_bytes(), 0);
  program.bind();
  EXPECT_EQ(program.arena_bytes(), program.graph(1).costed->memory.arena_bytes);
  EXPECT_GT(program.graph(1).costed->memory.arena_bytes,
            program.graph(0).costed->memory.arena_bytes);
}

TEST_F(ProgramTest, SharesAnArenaWithAnother) {
  Graph graph;
  Builder b(graph, ops::table());
  graph.outputs = {ops::unary(b, "exp", b.input("wide", {DType::kF32, {1000}}))};
  program.add("large", graph);
  program.bind();
  Program small(*backend, store), larger(*backend, store);
  small.add("small", square());
  small.bind(program.arena());
  EXPECT_EQ(small.arena(), program.arena());
  graph.outputs = {ops::unary(b, "neg", b.input("wider", {DType::kF32, {100000}}))};
  larger.add("larger", graph);
  larger.bind(program.arena());
  EXPECT_GT(larger.arena_bytes(), program.arena_bytes());
}

TEST_F(ProgramTest, BindsAGraphWithoutTemporaries) {
  int stage = program.add("add", add_to_total());
  EXPECT_EQ(program.graph(stage).costed->memory.arena_bytes, 0);
  program.bind();
  write("x", {1, 1, 1, 1});
  program.run(stage);
  EXPECT_EQ(store.read_floats("total"), std::vector<float>(4, 1.0f));
}

TEST_F(ProgramTest, RunsAnEmptyGraph) {
  int stage = program.add("nothing", {});
  program.bind();
  program.run(stage);
  EXPECT_TRUE(program.run_profiled(stage).spans.empty());
}

TEST_F(ProgramTest, MeasuresEachKernelOnce) {
  Graph graph;
  Builder b(graph, ops::table());
  ValueId x = ops::unary(b, "tanh", b.input("x", {DType::kF32, {64, 64}}));
  ValueId left = ops::unary(b, "exp", ops::slice(b, x, 1, 0, 32)),
          right = ops::unary(b, "neg", ops::slice(b, x, 1, 32, 64));
  // Both parts lie in the output, so there is nothing to run.
  graph.outputs = {ops::concat(b, {left, right}, 1)};
  int stage = program.add("views", graph);
  program.bind();
  for (int run = 0; run < 5; ++run) {
    record::ProfiledRun profile = program.run_profiled(stage);
    std::vector<std::string> launched;
    double last = 0;
    for (const record::Span& span : profile.spans) {
      launched.push_back(graph.node(span.node).op->name);
      EXPECT_GE(span.begin_ns, last);
      EXPECT_GE(span.end_ns, span.begin_ns);
      last = span.end_ns;
    }
    EXPECT_LE(last, profile.wall_ns);
    EXPECT_GT(profile.called_ns, 0);
    EXPECT_TRUE(profile.enqueues.empty()) << "the host runs the kernels itself";
    EXPECT_EQ(launched, (std::vector<std::string>{"tanh", "exp", "neg"}));
  }
}

TEST_F(ProgramTest, ComputesTheSameWhetherMeasuredOrNot) {
  int stage = program.add("square", square());
  program.bind();
  write("x", {0.1f, 0.2f, 0.3f, 0.4f});
  program.run(stage);
  std::vector<float> plain = program.read(stage, program.graph(stage).graph().outputs[0]);
  program.run_profiled(stage);
  EXPECT_EQ(plain, program.read(stage, program.graph(stage).graph().outputs[0]));
}

TEST_F(ProgramTest, IsFixedOnceBound) {
  program.add("square", square());
  program.bind();
  EXPECT_THROW(program.add("more", square()), InternalError);
  EXPECT_THROW(program.bind(), InternalError);
}

TEST_F(ProgramTest, ReadsWhatIsNotDense) {
  Graph graph;
  Builder b(graph, ops::table());
  ValueId x = ops::add(b, b.input("x", {DType::kF32, {2, 3}}), b.input("y", {DType::kF32, {2, 3}}));
  graph.outputs = {ops::transpose(b, x, {1, 0})};
  int stage = program.add("view", graph);
  program.bind();
  write("x", {1, 2, 3, 4, 5, 6});
  write("y", {0, 0, 0, 10, 10, 10});
  program.run(stage);
  EXPECT_EQ(program.read(stage, graph.outputs[0]), (std::vector<float>{1, 14, 2, 15, 3, 16}));
}

// An invalid id causes an Error during the run, and the program can run again afterwards.
TEST_F(ProgramTest, ReportsIdsThatAreNone) {
  Graph graph;
  Builder b(graph, ops::table());
  ValueId table = b.parameter("table", {DType::kF32, {5, 2}});
  graph.outputs = {b.call("embedding", {table, b.input("ids", {DType::kI32, {2}})})};
  int stage = program.add("embedding", graph);
  program.bind();
  for (int32_t bad : {5, -2, 1 << 30, INT32_MIN}) {
    const int32_t ids[] = {0, bad};
    store.write("ids", ids, sizeof ids);
    EXPECT_THROW(program.run(stage), Error) << bad;
  }
  const int32_t ids[] = {4, -1};
  store.write("ids", ids, sizeof ids);
  EXPECT_NO_THROW(program.run(stage));
}

}  // namespace
}  // namespace ridge::runtime
