// SPDX-License-Identifier: Apache-2.0
// Graphs of a user: each op of the table in several surroundings is counted and run, or refused as
// a fault of the file. None of them is an internal error.
#include "bench/graph_file.h"

#include <gtest/gtest.h>

#include <ctime>
#include <set>

#include "base/error.h"
#include "files/scratch.h"
#include "graph/builder.h"
#include "graph/text_form.h"
#include "ops/registry.h"
#include "train/small_run.h"

namespace ridge::bench {
namespace {

class GraphFileTest : public testing::Test {
 protected:
  TrialGraph read(const std::string& text) const {
    files::write_plain(folder_ / "graph.txt", text);
    return read_graph(folder_ / "graph.txt");
  }
  // Counts and runs the graph. Returns the reasons for which points were refused.
  std::set<std::string> run(const std::string& text, bool runs = true) {
    SCOPED_TRACE(text);
    std::set<std::string> refused;
    for (const char* level : {"baseline", "compiled"})
      for (const bool is_backward : {false, true}) {
        TrialSetting setting{.selection = passes::Selection(level, "-tune_gemm"),
                             .is_backward = is_backward,
                             .budget_ns = 1e3};
        try {
          const record::BenchPoint point =
              runs ? run_trial(read(text), setting, *backend_, nullptr)
                   : plan_trial(read(text), setting, *backend_, nullptr);
          if (!point.refused.empty()) refused.insert(point.refused);
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ExitCode::kBadFile) << error.what();
          refused.insert(error.what());
        } catch (const std::exception& error) {
          ADD_FAILURE() << level << (is_backward ? ", backward: " : ": ") << error.what();
        }
      }
    return refused;
  }

  const files::ScratchFolder folder_;
  const std::unique_ptr<backends::Backend> backend_ = train::cpu_backend(1);
};

enum class Form {
  kAlone,
  kTwice,  // two nodes on the same operands
  kSame,   // one value for all operands of a type
  kReturnedTwice,
  kUnread,     // nothing reads it, and the graph returns something else
  kPartlyRead  // only the last of its results is returned
};
constexpr Form kForms[] = {Form::kAlone,         Form::kTwice,  Form::kSame,
                           Form::kReturnedTwice, Form::kUnread, Form::kPartlyRead};

// One of the op's own sample cases. Operands that the op updates are states.
std::string text_of(const Op& op, const Case& each, Form form) {
  Graph graph;
  Builder b(graph, ops::table());
  std::vector<Type> types;
  for (const CaseInput& input : each.inputs) types.push_back(input.type);
  const Attrs attrs = complete_attrs(op, each.attrs);
  Call call{types, {}, attrs};
  const std::vector<Type> results = op.infer(call);
  call.outputs = results;
  std::set<int> updated;
  if (op.aliases != nullptr)
    for (const Alias& alias : op.aliases(call)) updated.insert(alias.input);
  std::vector<ValueId> operands;
  for (size_t i = 0; i < types.size(); ++i) {
    const auto same =
        std::find(types.begin(), types.begin() + static_cast<std::ptrdiff_t>(i), types[i]) -
        types.begin();
    const std::string name = fmt::format("x{}", form == Form::kSame ? same : std::ptrdiff_t(i));
    const int at = static_cast<int>(form == Form::kSame ? same : std::ptrdiff_t(i));
    operands.push_back(updated.contains(at) ? b.state(name, types[i]) : b.input(name, types[i]));
  }
  graph.outputs = b.call_all(op.name, operands, each.attrs);
  if (form == Form::kTwice)
    for (ValueId more : b.call_all(op.name, operands, each.attrs)) graph.outputs.push_back(more);
  if (form == Form::kPartlyRead) graph.outputs = {graph.outputs.back()};
  if (form == Form::kReturnedTwice)
    for (ValueId more : std::vector<ValueId>(graph.outputs)) graph.outputs.push_back(more);
  if (form == Form::kUnread)
    graph.outputs = {b.call("exp", {b.input("other", {DType::kF32, {4}})})};
  return print(graph, {.origins = false});
}

TEST_F(GraphFileTest, EachOpIsCountedAndRunOrRefused) {
  int64_t graphs = 0, refused = 0;
  for (const Op* op : ops::table().all()) {
    if (op->cases == nullptr) continue;
    for (const Case& each : op->cases())
      for (const Form form : kForms) {
        SCOPED_TRACE(each.name);
        std::string text;
        try {
          text = text_of(*op, each, form);
        } catch (const std::exception&) {
          continue;  // no graph: a state that is two operands
        }
        ++graphs;
        refused += run(text, form == Form::kAlone || form == Form::kSame).empty() ? 0 : 1;
      }
  }
  EXPECT_GT(graphs, 1000);
  EXPECT_LT(refused, graphs);
}

// Graphs whose faults were internal errors.
TEST_F(GraphFileTest, PlainGraphsRun) {
  for (const char* text : {// an unread node, and one that only an unread view reads
                           R"(%0 = input f32[4] "x"
              %1 : f32[4] = exp(%0) #forward
              %2 : f32[4] = tanh(%0) #forward
              return %2)",
                           R"(%0 = input f32[4,2] "x"
              %1 : f32[4,2] = exp(%0) #forward
              %2 : f32[8] = reshape(%1) {shape=[8]} #forward
              %3 : f32[4,2] = tanh(%0) #forward
              return %3)",
                           R"(%0 = input f32[4] "x"
              %1 : f32[4] = add(%0, %0) #forward
              return %1)",
                           R"(%0 = input f32[4] "x"
              %1 : f32[4] = einsum(%0) {einsum="a->a"} #forward
              return %1)",
                           R"(%0 = input f32[4,8] "x"
              %1 = input i32[4] "labels"
              %2 : f32[], %3 : f32[4,1], %4 : i32[] = softmax_cross_entropy(%0, %1) #forward
              return %2, %3)",
                           R"(%0 = input f32[1,8] "x"
              %1 : f32[4,8] = broadcast(%0) {shape=[4,8]} #forward
              return %1)",
                           R"(%0 = input f32[8] "x"
              %1 : f32[3] = slice(%0) {axis=0, begin=2, end=5} #forward
              return %1)"}) {
    const std::set<std::string> refused = run(text);
    EXPECT_TRUE(refused.empty()) << *refused.begin();
  }
}

// As many as a graph may have nodes, and not one more.
TEST_F(GraphFileTest, ManyNamedValuesAreReadInLinearTimeAndLimited) {
  const auto text = [](int64_t named) {
    std::string made;
    for (int64_t i = 0; i < named; ++i)
      made += fmt::format("%{} = input {} \"x{}\"\n", i, i % 2 == 0 ? "f32[1]" : "i32[1]", i);
    return made + fmt::format("%{} : f32[1] = exp(%0) #forward\nreturn %{}", named, named);
  };
  const std::clock_t begin = std::clock();  // other programs do not add to it
  EXPECT_EQ(std::ssize(read(text(kMostNodes)).graph.values), kMostNodes + 1);
  EXPECT_LT(std::clock() - begin, 2 * CLOCKS_PER_SEC);
  try {
    read(text(100'000));
    ADD_FAILURE() << "expected an Error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kOutOfMemory);
    EXPECT_NE(std::string(error.what()).find("named values"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace ridge::bench
