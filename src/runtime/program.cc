// SPDX-License-Identifier: Apache-2.0
// Binds and runs graphs.
#include "runtime/program.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <span>

#include "base/block_formats.h"
#include "base/clock.h"
#include "base/error.h"

namespace ridge::runtime {
namespace {

// Some kernels are made ready before their dependences have ended. The wait does not count as
// kernel time.
void leave_out_waits(std::span<const backends::NodeLaunch> launches,
                     std::vector<record::Span>& spans) {
  std::map<NodeId, size_t> index;
  for (size_t i = 0; i < launches.size(); ++i) index[launches[i].node] = i;
  std::vector<double> end_ns(launches.size(), 0.0);  // latest end so far of each launch
  for (record::Span& span : spans) {
    size_t at = index.at(span.node);
    double ready_ns = end_ns[at];  // the kernels of one launch run one after the other
    for (int before : launches[at].after)
      ready_ns = std::max(ready_ns, end_ns[static_cast<size_t>(before)]);
    span.begin_ns = std::min(std::max(span.begin_ns, ready_ns), span.end_ns);
    end_ns[at] = std::max(end_ns[at], span.end_ns);
  }
}

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

// If the replay fails, release the device, which would otherwise wait forever.
void replay_held(backends::Recording& recording, backends::Instrument& instrument) {
  try {
    recording.replay();
  } catch (...) {
    instrument.release();
    throw;
  }
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

void Program::bind_graph(const plan::PlannedGraph& planned, Bound& bound) {
  const Graph& graph = planned.graph;
  const std::vector<NodeId> next = next_of_op(planned);
  std::vector<int> index(graph.nodes.size(), -1);
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
    bound.owns_threads |= backend_.owns_threads(call);
    index[i] = static_cast<int>(bound.launches.size());
    backends::NodeLaunch launch{
        static_cast<NodeId>(i), backend_.bind(call), {}, call.is_background};
    if (planned.branches)
      for (NodeId before : planned.branches->after[i])
        launch.after.push_back(index[static_cast<size_t>(before)]);
    else if (index[i] > 0)
      launch.after = {index[i] - 1};
    bound.launches.push_back(std::move(launch));
  }
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
  for (const cost::ProgramGraph& each : graphs_) {
    bound_.emplace_back();
    bind_graph(*each.costed, bound_.back());
  }
}

void Program::offer_recording(Bound& bound) {
  if (!bound.is_first && !bound.was_offered) {
    bound.recording = backend_.record(bound.launches);
    bound.was_offered = true;
  }
  bound.is_first = false;
}

// Passes the body by reference, because a step must not allocate.
template <typename Body>
void Program::launch_in_region(const Bound& bound, const Body& body) {
  if (bound.owns_threads)
    body();
  else
    backend_.in_parallel_region(std::cref(body));
}

void Program::launch(const Bound& bound, backends::Recording* recording) {
  if (recording != nullptr) {
    recording->replay();
    return;
  }
  launch_in_region(bound, [&] {
    for (const backends::NodeLaunch& each : bound.launches) each.launch();
  });
}

void Program::launch_observed(const Bound& bound,
                              backends::Recording* recording,
                              backends::Instrument& instrument,
                              double start_ns,
                              std::vector<record::Enqueue>& enqueues) {
  if (recording != nullptr) {
    const double begin = now_ns() - start_ns;
    recording->replay();
    enqueues.push_back({kNoNode, begin, now_ns() - start_ns});
    return;
  }
  launch_in_region(bound, [&] {
    for (const backends::NodeLaunch& each : bound.launches) {
      instrument.mark(each.node);
      const double begin = now_ns() - start_ns;
      each.launch();
      enqueues.push_back({each.node, begin, now_ns() - start_ns});
    }
  });
}

void Program::run(int graph) {
  Bound& bound = bound_[static_cast<size_t>(graph)];
  offer_recording(bound);
  launch(bound, bound.recording.get());
}

void Program::run_inspected(int graph,
                            const std::function<void(NodeId)>& before,
                            const std::function<void(NodeId)>& after) {
  for (const backends::NodeLaunch& each : bound_[static_cast<size_t>(graph)].launches) {
    backend_.synchronize();
    before(each.node);
    each.launch();
    backend_.synchronize();
    after(each.node);
  }
}

record::ProfiledRun Program::run_profiled(int graph) {
  Bound& bound = bound_[static_cast<size_t>(graph)];
  backends::Instrument* instrument = backend_.instrument();
  if (instrument == nullptr) return run_clocked(bound);
  record::ProfiledRun run;
  run.called_ns = now_ns();
  offer_recording(bound);
  const bool replays = bound.recording != nullptr;
  if (!bound.observed || (bound.observed->recording != nullptr) != replays)
    bound.observed = instrument->observe(bound.launches, replays);
  backends::Recording* traced = bound.observed->recording.get();
  run.enqueues.reserve(traced == nullptr ? bound.launches.size() : 1);
  bool is_held = instrument->start(*bound.observed);
  if (is_held) replay_held(*traced, *instrument);
  double start = now_ns();
  if (is_held) {
    instrument->release();
    run.enqueues.push_back({kNoNode, 0, now_ns() - start});
  } else {
    launch_observed(bound, traced, *instrument, start, run.enqueues);
  }
  backend_.synchronize();
  run.wall_ns = now_ns() - start;
  instrument->stop(run);
  leave_out_waits(bound.launches, run.spans);
  run.instrument_ns = now_ns() - run.called_ns - run.wall_ns;
  return run;
}

record::ProfiledRun Program::run_clocked(const Bound& bound) {
  record::ProfiledRun run;
  run.spans.resize(bound.launches.size());
  const double start = run.called_ns = now_ns();
  launch_in_region(bound, [&] {
    for (size_t i = 0; i < bound.launches.size(); ++i) {
      double begin = now_ns();
      bound.launches[i].launch();
      run.spans[i] = {bound.launches[i].node, begin - start, now_ns() - start};
    }
  });
  backend_.synchronize();
  run.wall_ns = now_ns() - start;
  return run;
}

namespace {

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

}  // namespace

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
