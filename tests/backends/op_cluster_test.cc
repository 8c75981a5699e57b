// SPDX-License-Identifier: Apache-2.0
// Random graphs on the CPU against their double reference. Pointwise graphs go through
// generate_pointwise, with broadcast and bf16 operands and with outputs from the middle of a
// cluster. In mixed graphs, the planner runs ops in place, places the parts of concats in their
// outputs and nests views.
#include <gtest/gtest.h>

#include "backends/op_check.h"
#include "backends/op_samples.h"
#include "graph/random_graph.h"
#include "graph/text_form.h"

namespace ridge::backends {
namespace {

Graph clustered(const Graph& graph) {
  LoadGraph load;
  passes::PassContext context{ops::table(), tested_backend(), load};
  Graph made = passes::generate_pointwise_pass.run(graph, context);
  verify(made);
  verify_origins(without_dead_nodes(graph), made);
  return made;
}

int64_t clusters(const Graph& graph) {
  return std::count_if(graph.nodes.begin(), graph.nodes.end(),
                       [](const Node& n) { return n.op->name == "generated_pointwise"; });
}

std::string run_and_compare(const Graph& meaning,
                            const Graph& graph,
                            const ops::NamedTensors& named,
                            const Precision& precision) {
  GraphRun run(tested_backend(), lower(graph, ops::table(), tested_backend()));
  std::vector<Tensor64> got;
  std::string fault = run_checked(run, named, got);
  return fault.empty() ? compare(meaning, named, got, precision, movements(meaning, named)) : fault;
}

TEST(GeneratedClusters, MatchTheReference) {
  int64_t seen = 0, several_outputs = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    RandomGraphOptions options;
    options.primitives = seed % 3 == 2;
    options.nodes = 4 + static_cast<int>(seed % 20);
    options.bf16 = seed % 2 == 1;
    RandomGraph random(seed, options);
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Graph graph = clustered(random.graph());
    seen += clusters(graph);
    for (const Node& node : graph.nodes)
      several_outputs += node.op->name == "generated_pointwise" && node.outputs.size() > 1;
    Precision precision = options.bf16 ? kBf16Steps : kFloatArithmetic;
    std::string fault;
    EXPECT_NO_THROW(fault = run_and_compare(random.graph(), graph, random.named(), precision));
    ASSERT_EQ("", fault) << print(graph, {.origins = false});
  }
  EXPECT_GT(seen, 200);
  EXPECT_GT(several_outputs, 30);
}

// A pass must not change results: in double, without rounding, they are the same.
TEST(GeneratedClusters, MeanTheSameInDouble) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    RandomGraph random(seed, {.nodes = 25, .bf16 = true, .updates = true});
    std::vector<Tensor64> want = ops::ReferenceRun(random.graph(), random.named()).outputs();
    std::vector<Tensor64> got =
        ops::ReferenceRun(clustered(random.graph()), random.named()).outputs();
    for (size_t o = 0; o < want.size(); ++o) ASSERT_EQ(want[o].data, got[o].data) << seed;
  }
}

TEST(RandomGraphs, RunAsTheyMean) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    RandomGraphOptions options;
    options.nodes = 5 + static_cast<int>(seed % 30);
    options.bf16 = seed % 4 == 3;
    options.updates = seed % 2 == 1;
    RandomGraph random(1000 + seed, options);
    SCOPED_TRACE(fmt::format("seed {}", 1000 + seed));
    Precision precision = options.bf16 ? kBf16Steps : kFloatArithmetic;
    std::string fault;
    EXPECT_NO_THROW(fault =
                        run_and_compare(random.graph(), random.graph(), random.named(), precision));
    ASSERT_EQ("", fault) << print(random.graph(), {.origins = false});
  }
}

}  // namespace
}  // namespace ridge::backends
