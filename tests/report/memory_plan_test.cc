// SPDX-License-Identifier: Apache-2.0
// The memory of a graph at its bytes and pixels: what a chain of values must have alive.
#include "report/memory_plan.h"

#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <vector>

#include "graph/builder.h"
#include "ops/registry.h"
#include "plan/targets.h"

namespace ridge::report {
namespace {

// Accepts any layout.
class AnyTarget final : public plan::PlainTarget {
 public:
  bool takes_input(const Graph&, const Node&, int, const Layout&) const override { return true; }
};

constexpr int64_t kBytes = 64 * 64 * 4;  // each value has them

// An input and so many products in a row: each but the first reads a temporary and writes one.
struct Chain {
  explicit Chain(int length) {
    Graph graph;
    Builder builder(graph, ops::table());
    const ValueId x = builder.input("x<y", {DType::kF32, {64, 64}});
    ValueId value = x;
    for (int i = 0; i < length; ++i)
      value = builder.call("matmul", {value, x}, {{"einsum", std::string("nk,km->nm")}});
    graph.outputs = {value};
    const AnyTarget target;
    program.push_back(cost::program_graph("graph", std::move(graph), 1, target));
    memory = record::planned_memory(program);
  }

  std::vector<cost::ProgramGraph> program;
  record::MemoryRecord memory;
};

size_t count(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  return static_cast<size_t>(
      std::distance(std::sregex_iterator(text.begin(), text.end(), regex), std::sregex_iterator()));
}

TEST(MemoryPlan, NamesWhatLivesAtThePeak) {
  const Chain chain(3);
  const Json json = memory_plan_json(chain.memory, *chain.program[0].costed);
  EXPECT_EQ(json["live_peak_bytes"], 3 * kBytes);
  EXPECT_EQ(json["store_bytes"]["data"], kBytes);
  EXPECT_EQ(json["tensors_at_peak"].size(), 3u);
  EXPECT_EQ(json["timeline"].size(), 3u);
  EXPECT_EQ(json["timeline"][0]["total_bytes"], 2 * kBytes);
  EXPECT_EQ(json["peak_at"]["node"], 1);
  ASSERT_EQ(json["buffers"].size(), 3u);
  for (const Json& each : json["buffers"]) {
    EXPECT_EQ(each["bytes"], kBytes);
    EXPECT_LE(each["first"], each["last"]);
    EXPECT_LE(each["offset"].get<int64_t>() + kBytes, json["arena_bytes"].get<int64_t>());
  }
  const std::string text = memory_plan_text(chain.memory, {});
  EXPECT_NE(text.find("f32[64,64]"), std::string::npos);
  EXPECT_NE(text.find("The peak is at node 1, matmul."), std::string::npos);
}

TEST(MemoryPlan, ColumnsAreAsHighAsTheirBytes) {
  const std::string svg = memory_chart(Chain(3).memory);
  // The plot has 200 pixels: the data a third in each column, temporaries one third, then two.
  EXPECT_EQ(count(svg, "height=\"66.67\" fill=\"#"), 4u);
  EXPECT_EQ(count(svg, "height=\"133.33\" fill=\"#"), 2u);
  EXPECT_NE(svg.find("activations"), std::string::npos);
  EXPECT_EQ(svg.find("<script"), std::string::npos);
}

TEST(MemoryPlan, ManyNodesShareColumns) {
  const int nodes = 2 * static_cast<int>(kMostColumns) + 7;
  const std::string svg = memory_chart(Chain(nodes).memory);
  EXPECT_EQ(count(svg, "width=\"1.35\""), 2 * kMostColumns);  // data and activations
  EXPECT_NE(svg.find("1,207 nodes"), std::string::npos);
}

TEST(MemoryPlan, NothingHasNoPicture) {
  EXPECT_EQ(memory_chart({}), "");
  EXPECT_EQ(memory_plan_text({}, {}), "");
}

}  // namespace
}  // namespace ridge::report
