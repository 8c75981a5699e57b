// SPDX-License-Identifier: Apache-2.0
// The memory planner and the dependences of nodes: no value is overwritten before its last reader,
// in any order that respects the dependences, and sizes are exact.
#include "plan/planner.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "backends/cpu/cpu_backend.h"
#include "backends/null/null_backend.h"
#include "base/arena.h"
#include "graph/random_graph.h"
#include "graph/rewriter.h"
#include "passes/pipeline.h"
#include "plan/dependences.h"
#include "plan/targets.h"
#include "train/step.h"

namespace ridge::plan {
namespace {

constexpr ValueId kScratch = -2;

// Replays a schedule on an arena that records the owner of each line of 64 bytes: values must still
// be there when they are read.
class Replay {
 public:
  Replay(const Graph& graph, const std::vector<Place>& places, const MemoryPlan& plan)
      : graph_(graph),
        places_(places),
        plan_(plan),
        lines_(static_cast<size_t>(plan.arena_bytes / kAlignmentBytes), kNoValue) {}

  // Descriptions of the faults; empty if there are none.
  std::vector<std::string> run() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) step(static_cast<NodeId>(i));
    when_ = "at the end";
    for (ValueId output : graph_.outputs) check(output);
    return faults_;
  }

 private:
  void fail(const std::string& what) { faults_.push_back(when_ + ": " + what); }

  // The lines that the first `bytes` of a buffer cover; none if it lies outside the arena.
  std::span<ValueId> lines(int index, int64_t bytes) {
    if (index < 0) {
      fail("no buffer");
      return {};
    }
    const Buffer& buffer = plan_.buffers[static_cast<size_t>(index)];
    bool lies_inside = buffer.offset >= 0 && buffer.offset + buffer.bytes <= plan_.arena_bytes;
    if (!lies_inside || buffer.offset % kAlignmentBytes != 0 || bytes > buffer.bytes) {
      fail(fmt::format("buffer at {} of {} for {} bytes", buffer.offset, buffer.bytes, bytes));
      return {};
    }
    return std::span(lines_).subspan(static_cast<size_t>(buffer.offset / kAlignmentBytes),
                                     static_cast<size_t>(ceil_div(bytes, kAlignmentBytes)));
  }

  bool is_temporary(ValueId root) const {
    return graph_.value(root).storage == Storage::kTemporary;
  }
  std::span<ValueId> lines_of(ValueId root) {
    return lines(plan_.buffer_of[static_cast<size_t>(root)],
                 storage_bytes(graph_.type(root).dtype, graph_.shape(root).elements()));
  }

  void check(ValueId value) {
    ValueId root = at(places_, value).root;
    if (!is_temporary(root)) return;
    for (ValueId owner : lines_of(root))
      if (owner != root) return fail(fmt::format("%{} was overwritten by %{}", root, owner));
  }

  void step(NodeId id) {
    const Node& node = graph_.node(id);
    if (node.op->kind == OpKind::kView) return;
    when_ = fmt::format("node {} {}", id, node.op->name);
    int scratch = plan_.workspace_of[static_cast<size_t>(id)];
    std::span<ValueId> workspace;
    if (scratch >= 0) workspace = lines(scratch, plan_.buffers[static_cast<size_t>(scratch)].bytes);
    for (ValueId& owner : workspace) owner = kScratch;
    for (ValueId input : node.inputs) check(input);
    for (ValueId output : node.outputs) {
      ValueId root = at(places_, output).root;
      if (!is_temporary(root)) continue;
      for (ValueId& owner : lines_of(root)) owner = root;
    }
    for (ValueId owner : workspace)
      if (owner != kScratch) return fail("its workspace is an output's");
  }

  const Graph& graph_;
  const std::vector<Place>& places_;
  const MemoryPlan& plan_;
  std::vector<ValueId> lines_;
  std::string when_;
  std::vector<std::string> faults_;
};

// Inserts copies where no layout expresses a view, as in the graphs that planners get.
Graph legal(const Graph& graph, const Target& target) {
  LoadGraph load;
  passes::PassContext context{ops::table(), target, load};
  return passes::run_stage(passes::Stage::kTarget, graph, passes::Selection("baseline", ""),
                           context, nullptr);
}

MemoryPlan checked_plan(const Graph& graph, const Target& target) {
  std::vector<Place> where = places(graph, &target);
  MemoryPlan plan = plan_memory(graph, where, target);
  EXPECT_EQ(Replay(graph, where, plan).run(), std::vector<std::string>());
  return plan;
}

Graph random_graph(uint32_t seed, const RandomGraphOptions& options, const Target& target) {
  return legal(without_dead_nodes(RandomGraph(seed, options).graph()), target);
}

TEST(Planner, KeepsRandomGraphsIntact) {
  GreedyTarget target;
  int64_t shared = 0, packed = 0, needed = 0, taken = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    Graph graph = random_graph(
        seed, {.nodes = 3 + static_cast<int>(seed % 60), .bf16 = true, .updates = true}, target);
    MemoryPlan plan = checked_plan(graph, target);
    ASSERT_FALSE(::testing::Test::HasFailure()) << "seed " << seed;
    int64_t sum = 0;
    for (const Buffer& buffer : plan.buffers) sum += buffer.bytes;
    EXPECT_LE(plan.live_peak_bytes, plan.arena_bytes) << "seed " << seed;
    needed += plan.live_peak_bytes, taken += plan.arena_bytes;
    packed += sum - plan.arena_bytes;
    size_t roots = 0;
    for (size_t i = 0; i < graph.values.size(); ++i)
      roots += plan.buffer_of[i] >= 0 &&
               plan.buffers[static_cast<size_t>(plan.buffer_of[i])].root != static_cast<ValueId>(i);
    shared += static_cast<int64_t>(roots);
  }
  EXPECT_GT(shared, 0) << "nothing ever shared a buffer";
  EXPECT_GT(packed, 0) << "nothing was ever put where something else had been";
  // No plan needs less than what is live at once. These take 0.3% more; with the smallest buffers
  // placed first, 7%.
  EXPECT_LE(taken, needed + needed / 50);
}

// The nodes with kernels in a random order that respects their dependences.
std::vector<NodeId> any_order(const std::vector<std::vector<NodeId>>& after,
                              const std::vector<bool>& launches,
                              uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int> missing(after.size());
  std::vector<std::vector<NodeId>> behind(after.size());
  std::vector<NodeId> ready, order;
  for (size_t i = 0; i < after.size(); ++i) {
    missing[i] = static_cast<int>(after[i].size());
    for (NodeId before : after[i])
      behind[static_cast<size_t>(before)].push_back(static_cast<NodeId>(i));
    if (launches[i] && missing[i] == 0) ready.push_back(static_cast<NodeId>(i));
  }
  while (!ready.empty()) {
    std::swap(ready[random() % ready.size()], ready.back());
    order.push_back(ready.back());
    ready.pop_back();
    for (NodeId next : behind[static_cast<size_t>(order.back())])
      if (--missing[static_cast<size_t>(next)] == 0) ready.push_back(next);
  }
  return order;
}

// The places of a value's elements. Elements in different buffers of the store never overlap.
std::set<std::pair<ValueId, int64_t>> elements_of(const Graph& graph,
                                                  const std::vector<Place>& places,
                                                  const MemoryPlan& plan,
                                                  ValueId value) {
  const Place& place = at(places, value);
  int buffer = plan.buffer_of[static_cast<size_t>(place.root)];
  ValueId space = buffer < 0 ? place.root : kNoValue;
  int64_t base = buffer < 0 ? 0 : plan.buffers[static_cast<size_t>(buffer)].offset / 4;
  std::set<std::pair<ValueId, int64_t>> all;
  const Shape& shape = graph.shape(value);
  for (int64_t i = 0; i < shape.elements(); ++i) {
    int64_t element = place.layout.offset, rest = i;
    for (int axis = shape.rank(); axis-- > 0; rest /= shape[axis])
      element += rest % shape[axis] * place.layout.strides[axis];
    all.insert({space, base + element});
  }
  return all;
}

struct Touched {
  std::set<std::pair<ValueId, int64_t>> read, written;
};

Touched touched_by(const Graph& graph,
                   const std::vector<Place>& places,
                   const MemoryPlan& plan,
                   NodeId id) {
  Touched touched;
  for (ValueId input : graph.node(id).inputs)
    touched.read.merge(elements_of(graph, places, plan, input));
  for (ValueId output : graph.node(id).outputs)
    touched.written.merge(elements_of(graph, places, plan, output));
  int workspace = plan.workspace_of[static_cast<size_t>(id)];
  if (workspace < 0) return touched;
  const Buffer& buffer = plan.buffers[static_cast<size_t>(workspace)];
  for (int64_t i = 0; i < buffer.bytes / 4; ++i)
    touched.written.insert({kNoValue, buffer.offset / 4 + i});
  return touched;
}

bool meet(const std::set<std::pair<ValueId, int64_t>>& a,
          const std::set<std::pair<ValueId, int64_t>>& b) {
  return std::any_of(a.begin(), a.end(), [&](const auto& each) { return b.contains(each); });
}

// Two nodes keep their order if one writes bytes that the other touches, in every order that
// respects the dependences.
TEST(Dependences, OrderWhatTouchesTheSameBytes) {
  int64_t moved = 0, swapped = 0;
  for (uint32_t seed = 0; seed < 100; ++seed) {
    GreedyTarget target(static_cast<int>(seed % 5));
    // Touched counts in elements of 4 bytes.
    Graph graph =
        random_graph(seed, {.nodes = 3 + static_cast<int>(seed % 30), .updates = true}, target);
    const PlannedGraph planned = plan(graph, target);
    std::vector<bool> launches;
    for (const KernelCalls& calls : planned.calls) launches.push_back(calls.launches > 0);
    auto after = dependences(planned);
    std::vector<Touched> touched;
    for (size_t i = 0; i < launches.size(); ++i)
      touched.push_back(
          launches[i] ? touched_by(graph, planned.places, planned.memory, static_cast<NodeId>(i))
                      : Touched{});
    for (uint32_t order_seed = 0; order_seed < 5; ++order_seed) {
      std::vector<NodeId> order = any_order(after, launches, order_seed);
      ASSERT_EQ(order.size(),
                static_cast<size_t>(std::count(launches.begin(), launches.end(), true)));
      moved += std::is_sorted(order.begin(), order.end()) ? 0 : 1;
      for (size_t i = 0; i < order.size(); ++i)
        for (size_t j = i + 1; j < order.size(); ++j) {
          if (order[i] < order[j]) continue;  // as in the schedule
          const Touched &x = touched[static_cast<size_t>(order[i])],
                        &y = touched[static_cast<size_t>(order[j])];
          bool conflict =
              meet(x.written, y.written) || meet(x.written, y.read) || meet(x.read, y.written);
          ASSERT_FALSE(conflict) << "seed " << seed << ": node " << order[i] << " before node "
                                 << order[j];
          ++swapped;
        }
    }
  }
  EXPECT_GT(moved, 100) << "hardly anything could run in another order";
  EXPECT_GT(swapped, 300);
}

// Whether a node waits for another, directly or through others.
bool waits_for(const std::vector<std::vector<NodeId>>& after, NodeId node, NodeId other) {
  const std::vector<NodeId>& direct = after[static_cast<size_t>(node)];
  return std::any_of(direct.begin(), direct.end(),
                     [&](NodeId each) { return each == other || waits_for(after, each, other); });
}

// Rows of nodes, each as long as it can be without one that waits for another.
TEST(Schedule, CountsTheNodesThatDoNotWaitForOneAnother) {
  size_t longest = 0, rows = 0, background = 0;
  for (uint32_t seed = 0; seed < 100; ++seed) {
    GreedyTarget target(1 + static_cast<int>(seed % 5));
    const Graph graph =
        random_graph(seed, {.nodes = 3 + static_cast<int>(seed % 30), .updates = true}, target);
    const PlannedGraph planned = plan(graph, target);
    ASSERT_TRUE(planned.branches);
    const Schedule& schedule = *planned.branches;
    EXPECT_EQ(schedule.after, dependences(planned));
    std::vector<NodeId> nodes;  // with kernels, not in the background
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      const Node& node = graph.nodes[i];
      bool is_read = false;
      for (const Node& reader : graph.nodes)
        for (ValueId input : reader.inputs)
          is_read = is_read || std::find(node.outputs.begin(), node.outputs.end(), input) !=
                                   node.outputs.end();
      const bool launches = planned.calls[i].launches > 0;
      EXPECT_EQ(schedule.is_background[i], launches && !is_read && updates_store(graph, node));
      background += schedule.is_background[i] ? 1 : 0;
      if (launches && !schedule.is_background[i])
        nodes.push_back(static_cast<NodeId>(i));
      else
        EXPECT_EQ(schedule.concurrent[i], 1);
    }
    std::span<const NodeId> rest = nodes;
    while (!rest.empty()) {
      const auto length =
          static_cast<size_t>(schedule.concurrent[static_cast<size_t>(rest.front())]);
      ASSERT_LE(length, rest.size()) << "seed " << seed;
      const std::span<const NodeId> row = rest.first(length);
      rest = rest.subspan(length);
      auto waits_for_the_row = [&](NodeId node) {
        return std::any_of(row.begin(), row.end(),
                           [&](NodeId each) { return waits_for(schedule.after, node, each); });
      };
      for (NodeId node : row) {
        EXPECT_EQ(schedule.concurrent[static_cast<size_t>(node)], static_cast<int>(length));
        EXPECT_FALSE(waits_for_the_row(node)) << "seed " << seed << ", node " << node;
      }
      if (!rest.empty()) {
        EXPECT_TRUE(waits_for_the_row(rest.front())) << "seed " << seed;
      }
      longest = std::max(longest, length);
      ++rows;
    }
  }
  EXPECT_GT(longest, 3u);
  EXPECT_GT(rows, 300u);
  EXPECT_GT(background, 30u);
}

// A chain of nodes: no indirect dependence is listed.
TEST(Dependences, NameNoOneTwice) {
  GreedyTarget target;
  Graph graph;
  Builder b(graph, ops::table());
  ValueId x = b.input("x", {DType::kF32, {24}});
  ValueId y = ops::unary(b, "exp", x), z = ops::unary(b, "tanh", y);
  graph.outputs = {ops::add(b, ops::add(b, y, z), y)};
  EXPECT_EQ(dependences(plan(graph, target)),
            (std::vector<std::vector<NodeId>>{{}, {0}, {1}, {2}}));
}

TEST(Planner, KeepsTrainingStepsIntact) {
  auto target = backends::cpu::make_cpu_backend({1, "", false, ""});
  models::ModelConfig config = models::preset("tiny").config;
  config.layers = 2;
  for (const passes::Level& level : passes::levels()) {
    train::StepOptions options;
    options.batch_size = 2;
    options.sequence = 16;
    auto step = train::build_step(
        {config, options, passes::Selection(level.name, "+autocast_bf16")}, *target);
    checked_plan(step.graphs[0].graph, *target);
    ASSERT_FALSE(::testing::Test::HasFailure()) << level.name;
  }
}

// x (stored) -> a -> b -> c, each of 1000 floats: two are live at a time if nothing runs in place.
TEST(Planner, OwnsExactlyWhatItSays) {
  Graph graph;
  Builder b(graph, ops::table());
  ValueId x = b.input("x", {DType::kF32, {1000}});
  b.parameter("w", {DType::kBF16, {33}});
  b.state("m", {DType::kF32, {16}});
  ValueId y = x;
  for (int i = 0; i < 3; ++i) y = ops::unary(b, "exp", y);
  graph.outputs = {y};
  PlainTarget apart;
  auto in_place = backends::null::make_null_target();
  constexpr int64_t kVector = 4032;  // 4000 bytes, rounded up to lines of 64
  MemoryPlan two = checked_plan(graph, apart), one = checked_plan(graph, *in_place);
  EXPECT_EQ(two.arena_bytes, 2 * kVector);
  EXPECT_EQ(one.arena_bytes, kVector);
  auto stored = [&](MemoryClass each) { return one.store_bytes[static_cast<size_t>(each)]; };
  EXPECT_EQ(stored(MemoryClass::kData), kVector);
  EXPECT_EQ(stored(MemoryClass::kParameters), 128);
  EXPECT_EQ(stored(MemoryClass::kOptimizerState), 64);
  EXPECT_EQ(one.owned_bytes(), kVector + kVector + 128 + 64);
}

TEST(Planner, TimelineEndsWithWhatIsKept) {
  Graph graph;
  Builder b(graph, ops::table());
  ValueId x = b.input("x", {DType::kF32, {1000}});
  ValueId y = ops::unary(b, "exp", x);
  graph.outputs = {ops::reduce_sum(b, y, {0})};
  PlainTarget apart;
  const PlannedGraph planned = plan(graph, apart);
  std::vector<MemoryMoment> moments = memory_timeline(planned);
  ASSERT_EQ(moments.size(), 2u);
  EXPECT_EQ(moments[0].total(), 4032 + 4032);
  EXPECT_EQ(moments[1].total(), 4032 + 4032 + 64);
  EXPECT_EQ(planned.memory.live_peak_bytes, 4032 + 64);
}

// A buffer planned over a live one must be detected; otherwise the replay is worthless.
TEST(Planner, ReplayFindsAnOverlap) {
  Graph graph;
  Builder b(graph, ops::table());
  ValueId x = b.input("x", {DType::kF32, {100}});
  ValueId y = ops::unary(b, "exp", x), z = ops::unary(b, "tanh", x);
  graph.outputs = {ops::add(b, y, z)};
  PlainTarget apart;
  std::vector<Place> where = places(graph, &apart);
  MemoryPlan plan = plan_memory(graph, where, apart);
  for (Buffer& buffer : plan.buffers) buffer.offset = 0;
  EXPECT_FALSE(Replay(graph, where, plan).run().empty());
}

}  // namespace
}  // namespace ridge::plan
