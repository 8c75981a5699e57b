// SPDX-License-Identifier: Apache-2.0
// A program: graphs that run in order, each a number of times, on one store and one arena. Memory
// is planned and every pointer is fixed once; a run is then a flat list of launches.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "cost/costed_graph.h"
#include "runtime/bound_graph.h"
#include "runtime/store.h"

namespace ridge::runtime {

class Program {
 public:
  Program(backends::Backend& backend, Store& store) : backend_(backend), store_(store) {}

  // Adds a graph after all passes and plans its memory. Returns its index.
  int add(std::string name, Graph graph, int repeat = 1);
  // Binds every node. No graph can be added afterwards. Programs that never run at the same time
  // may share an arena: this one takes `arena` if it is large enough, else allocates its own.
  void bind(std::shared_ptr<backends::Memory> arena = nullptr);

  // Enqueues one run of a graph. Later reads wait for it, and so does `wait`.
  void run(int graph) { bound_[static_cast<size_t>(graph)].run(); }
  // The same launches one by one, each between the two calls with its node. What the node reads and
  // writes can be read then.
  void run_inspected(int graph,
                     const std::function<void(NodeId)>& before,
                     const std::function<void(NodeId)>& after) {
    bound_[static_cast<size_t>(graph)].run_inspected(before, after);
  }
  void wait() { backend_.synchronize(); }
  // Runs a graph once and returns the times of its nodes; see BoundGraph.
  record::ProfiledRun run_profiled(int graph) {
    return bound_[static_cast<size_t>(graph)].run_profiled();
  }

  const cost::ProgramGraph& graph(int index) const { return graphs_[static_cast<size_t>(index)]; }
  const std::vector<cost::ProgramGraph>& graphs() const { return graphs_; }
  int64_t arena_bytes() const { return arena_ == nullptr ? 0 : arena_->bytes(); }
  const std::shared_ptr<backends::Memory>& arena() const { return arena_; }
  Store& store() { return store_; }
  // Copies a float value of the last run out, in any layout. The value must be a graph output or
  // stored, or the run be inspected.
  std::vector<float> read(int graph, ValueId value) const;
  // The same for one fp32 number, copied while the host continues. Returns null if `read` is as
  // fast.
  std::unique_ptr<backends::CopyOut> start_read(int graph, ValueId value) const;

 private:
  backends::Operand operand(const plan::PlannedGraph& planned, ValueId value) const;
  BoundGraph bound(const cost::ProgramGraph& program) const;

  backends::Backend& backend_;
  Store& store_;
  std::vector<cost::ProgramGraph> graphs_;
  std::vector<BoundGraph> bound_;  // per graph
  std::shared_ptr<backends::Memory> arena_;
};

}  // namespace ridge::runtime
