// SPDX-License-Identifier: Apache-2.0
// Binds graphs to memory.
#include "runtime/program.h"

#include <algorithm>
#include <map>

#include "base/block_formats.h"
#include "base/error.h"
#include "base/finite.h"
#include "plan/collectives.h"

namespace ridge::runtime {
namespace {

// For each node, the next node with launches of the same op, in a graph that runs repeatedly.
std::vector<NodeId> next_of_op(const plan::PlannedGraph& planned) {
  const size_t count = planned.graph.nodes.size();
  std::vector<NodeId> next(count, kNoNode);
  std::map<const Op*, NodeId> seen;
  for (size_t i = 2 * count; i-- > 0;) {
    const size_t node = i % count;
    if (planned.calls[node].launches == 0) continue;
    auto [found, is_first] =
        seen.try_emplace(planned.graph.nodes[node].op, static_cast<NodeId>(node));
    next[node] = found->second;
    found->second = static_cast<NodeId>(node);
  }
  return next;
}

// The elements that an operand's layout reaches, from its first one on.
int64_t reach(const backends::Operand& operand) {
  int64_t last = 0;
  for (int axis = 0; axis < operand.type.shape.rank(); ++axis) {
    if (operand.type.shape[axis] == 0) return 0;
    last += (operand.type.shape[axis] - 1) * operand.strides[axis];
  }
  return last + 1;
}

// The values of a dense copy of what the operand reaches, in the order of its shape.
std::vector<float> in_order(const backends::Operand& operand, std::vector<float> reached) {
  const Shape& shape = operand.type.shape;
  if (is_dense(shape, {0, operand.strides})) return reached;
  std::vector<float> values;
  values.reserve(static_cast<size_t>(shape.elements()));
  const Strides dense = dense_strides(shape);
  for (int64_t i = 0; i < shape.elements(); ++i) {
    int64_t at = 0;
    for (int axis = 0; axis < shape.rank(); ++axis)
      at += i / dense[axis] % shape[axis] * operand.strides[axis];
    values.push_back(reached[static_cast<size_t>(at)]);
  }
  return values;
}

// The tensors of a collective that are looked at cost no time: scalars, norms, biases.
std::vector<backends::Operand> small_tensors(const backends::BindCall& call) {
  constexpr int64_t kMost = 4096;
  std::vector<backends::Operand> small;
  for (const backends::Operand& each : call.inputs)
    if (each.type.dtype == DType::kF32 && each.type.shape.elements() <= kMost &&
        is_dense(each.type.shape, {0, each.strides}))
      small.push_back(each);
  return small;
}

bool are_finite(const std::vector<backends::Operand>& tensors) {
  return std::ranges::all_of(tensors, [](const backends::Operand& each) {
    return all_finite({each.as<float>(), static_cast<size_t>(each.type.shape.elements())});
  });
}

// How many collectives are counted after this one: a count may be a kernel of its own, so in a
// graph of many each of them counts for several.
int counted_after(size_t at, size_t all) {
  constexpr size_t kCounts = 32;
  if (at >= all) return 0;  // none
  const size_t each = (all + kCounts - 1) / kCounts, done = at + 1;
  if (done % each == 0) return static_cast<int>(each);
  return done == all ? static_cast<int>(done % each) : 0;
}

// The launch of a collective tells the backend's listener, or counts `ended` of them on the device.
backends::Launch told(backends::Backend& backend,
                      backends::Launch launch,
                      const backends::BindCall& call,
                      const plan::Collective* made,
                      int ended) {
  backends::CollectiveListener* listener = backend.listener();
  if (made == nullptr || listener == nullptr) return launch;
  if (backend.counts_collectives())
    return ended == 0 ? launch : backend.counted(std::move(launch), ended);
  return [listener, launch = std::move(launch), made = *made, small = small_tensors(call)] {
    const backends::Told told(listener, made, are_finite(small));
    launch();
  };
}

}  // namespace

int Program::add(std::string name, Graph graph, int repeat) {
  RIDGE_CHECK(bound_.empty(), "the program is bound");
  graphs_.push_back(cost::program_graph(std::move(name), std::move(graph), repeat, backend_));
  return static_cast<int>(graphs_.size()) - 1;
}

backends::Operand Program::operand(const plan::PlannedGraph& planned, ValueId value) const {
  const plan::Place& place = plan::at(planned.places, value);
  const Value& root = planned.graph.value(place.root);
  std::byte* base = nullptr;
  if (root.storage == Storage::kTemporary) {
    int buffer = planned.memory.buffer_of[static_cast<size_t>(place.root)];
    RIDGE_CHECK(buffer >= 0, "%{} has no buffer", place.root);
    base = arena_->data() + planned.memory.buffers[static_cast<size_t>(buffer)].offset;
  } else {
    base = store_.require(root.name, root.type);
  }
  const Type& type = planned.graph.type(value);
  return {base + storage_bytes(type.dtype, place.layout.offset), type, place.layout.strides};
}

BoundGraph Program::bound(const cost::ProgramGraph& program) const {
  const plan::PlannedGraph& planned = *program.costed;
  const Graph& graph = planned.graph;
  std::vector<plan::Collective> collectives;
  plan::append_collectives(program.name, graph, collectives);
  const std::vector<NodeId> next = next_of_op(planned);
  std::vector<int> index(graph.nodes.size(), -1);
  std::vector<backends::NodeLaunch> launches;
  bool owns_threads = false;
  for (size_t i = 0; i < index.size(); ++i) {
    if (planned.calls[i].launches == 0) continue;
    const Node& node = graph.nodes[i];
    backends::BindCall call{graph, node, {}, {}, nullptr, 1, false, CallTypes(graph, node)};
    if (planned.branches)
      call.concurrent = planned.branches->concurrent[i],
      call.is_background = planned.branches->is_background[i];
    for (ValueId input : node.inputs) call.inputs.push_back(operand(planned, input));
    for (ValueId output : node.outputs) call.outputs.push_back(operand(planned, output));
    for (ValueId input : graph.node(next[i]).inputs)
      call.next_inputs.push_back(operand(planned, input));
    int workspace = planned.memory.workspace_of[i];
    if (workspace >= 0)
      call.workspace =
          arena_->data() + planned.memory.buffers[static_cast<size_t>(workspace)].offset;
    owns_threads |= backend_.owns_threads(call);
    const auto made =
        std::ranges::find(collectives, static_cast<NodeId>(i), &plan::Collective::node);
    index[i] = static_cast<int>(launches.size());
    backends::NodeLaunch launch{
        static_cast<NodeId>(i),
        told(backend_, backend_.bind(call), call, made == collectives.end() ? nullptr : &*made,
             counted_after(static_cast<size_t>(made - collectives.begin()), collectives.size())),
        {},
        call.is_background};
    if (planned.branches)
      for (NodeId before : planned.branches->after[i])
        launch.after.push_back(index[static_cast<size_t>(before)]);
    else if (index[i] > 0)
      launch.after = {index[i] - 1};
    launches.push_back(std::move(launch));
  }
  if (backend_.listener() == nullptr || !backend_.counts_collectives()) collectives.clear();
  return {backend_, std::move(launches), owns_threads, std::move(collectives)};
}

void Program::bind(std::shared_ptr<backends::Memory> arena) {
  RIDGE_CHECK(bound_.empty(), "the program is bound");
  int64_t bytes = 0;
  for (const cost::ProgramGraph& each : graphs_) {
    bytes = std::max(bytes, each.costed->memory.arena_bytes);
    for (const Value& value : each.graph().values)
      if (value.producer == kNoNode && value.storage != Storage::kTemporary)
        store_.require(value.name, value.type);
  }
  if (arena == nullptr || arena->bytes() < bytes)
    arena = backend_.allocate(bytes, "arena of temporaries");
  arena_ = std::move(arena);
  for (const cost::ProgramGraph& each : graphs_) bound_.push_back(bound(each));
}

std::vector<float> Program::read(int index, ValueId value) const {
  const backends::Operand from = operand(*graph(index).costed, value);
  const DType dtype = from.type.dtype;
  RIDGE_CHECK(dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16, "%{} is {}",
              value, from.type.str());
  const int64_t reached = reach(from);
  std::vector<std::byte> bytes(static_cast<size_t>(storage_bytes(dtype, reached)));
  backend_.copy_out(bytes.data(), from.data, std::ssize(bytes));
  std::vector<float> values(static_cast<size_t>(reached));
  dequantize(dtype, bytes, values);
  return in_order(from, std::move(values));
}

std::unique_ptr<backends::CopyOut> Program::start_read(int index, ValueId value) const {
  backends::Operand from = operand(*graph(index).costed, value);
  RIDGE_CHECK(from.type.dtype == DType::kF32 && from.type.shape.elements() == 1, "%{} is {}", value,
              from.type.str());
  return backend_.start_copy_out(from.data, sizeof(float));
}

}  // namespace ridge::runtime
