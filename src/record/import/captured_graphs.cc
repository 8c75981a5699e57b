// SPDX-License-Identifier: Apache-2.0
// Finds the graphs that were captured during a trace, and joins them to another one.
#include <algorithm>

#include "base/error.h"
#include "base/name_pattern.h"
#include "record/import/operation_finder.h"

namespace ridge::record {
namespace {

bool is_launch(std::string_view name) {
  for (const std::string_view pattern : {"*LaunchKernel*", "*ModuleLaunch*", "*LaunchCooperative*",
                                         "*Memcpy*Async*", "*Memset*Async*"})
    if (matches_pattern(pattern, name)) return true;
  return false;
}

// The launches between the begin and the end of a capture.
class CaptureFinder : protected OperationFinder {
 public:
  using OperationFinder::OperationFinder;

  std::vector<CapturedGraph> find() {
    std::vector<CapturedGraph> graphs;
    bool is_capturing = false;
    int32_t lone = -1;  // groups of launches of no operation
    for (const uint32_t i : in_order()) {
      const std::string_view name = trace_.name(event(i));
      if (matches_pattern("*BeginCapture*", name)) {
        graphs.push_back({tokens_of(i), {}});
        is_capturing = true;
      } else if (matches_pattern("*EndCapture*", name)) {
        is_capturing = false;
      } else if (is_capturing && is_launch(name)) {
        const int32_t at = operation_of(i);
        if (at < 0) {
          graphs.back().nodes.push_back({0, -1, lone--});
          continue;
        }
        const ImportedOperation& operation = result().operations[static_cast<size_t>(at)];
        graphs.back().nodes.push_back({operation.name, operation.call, at});
      }
    }
    std::erase_if(graphs, [](const CapturedGraph& graph) { return graph.nodes.empty(); });
    return graphs;
  }

 private:
  std::vector<uint32_t> in_order() const {
    std::vector<uint32_t> calls;
    for (const uint32_t i : tree_.order)
      if (event(i).kind == EventKind::kRuntime) calls.push_back(i);
    std::ranges::stable_sort(calls, {}, [&](uint32_t i) { return event(i).begin_ns; });
    return calls;
  }

  // "capture_32_FULL" -> 32; -1 without such an annotation around it.
  int64_t tokens_of(uint32_t i) const {
    for (int32_t at = parent(i); at >= 0; at = parent(static_cast<uint32_t>(at))) {
      const auto outer = static_cast<uint32_t>(at);
      if (event(outer).kind == EventKind::kAnnotation)
        if (const auto tokens = captured_tokens(trace_.name(event(outer)))) return *tokens;
    }
    return -1;
  }
};

// A name or a call of another trace, as one of this trace.
uint32_t name_in(ForeignTrace& trace, const NameTable& names, uint32_t name) {
  return trace.names.number(names[name]);
}

}  // namespace

const CapturedGraph* captured_graph(const ForeignTrace& trace, size_t nodes, int64_t tokens) {
  const CapturedGraph* found = nullptr;
  for (const CapturedGraph& graph : trace.captured) {
    if (graph.nodes.size() != nodes) continue;
    if (found == nullptr || (graph.tokens == tokens && tokens >= 0)) found = &graph;
  }
  return found;
}

void join_capture(ForeignTrace& trace, const ForeignTrace& capture) {
  const HostTree tree = host_tree(capture);
  const std::vector<Name> names = described(capture.names);
  ImportedSteps steps;
  const Events events{capture, tree, names};
  std::vector<CapturedGraph> graphs =
      CaptureFinder(events, find_places(events, steps), steps).find();
  if (graphs.empty())
    throw file_error(
        "[{}] expected the trace of a capture, with launches between cudaStreamBeginCapture and "
        "cudaStreamEndCapture, found none",
        capture.source);
  const auto first_call = static_cast<int32_t>(trace.calls.size());
  for (RecordedCounts call : capture.calls) {
    call.inputs = name_in(trace, capture.names, call.inputs);
    call.output = name_in(trace, capture.names, call.output);
    trace.calls.push_back(call);
  }
  for (CapturedGraph& graph : graphs) {
    for (CapturedNode& node : graph.nodes) {
      node.name = name_in(trace, capture.names, node.name);
      if (node.call >= 0) node.call += first_call;
    }
    trace.captured.push_back(std::move(graph));
  }
}

}  // namespace ridge::record
