// SPDX-License-Identifier: Apache-2.0
// Captures launches into a graph whose edges are their dependences.
#include "backends/cuda/recording.h"

#include <algorithm>
#include <array>
#include <vector>

#include "backends/cuda/device_error.h"

namespace ridge::backends::cuda {
namespace {

class GraphRecording final : public Recording {
 public:
  GraphRecording(const Device& device, cudaGraph_t graph) : device_(device) {
    cudaError_t status =
        cudaGraphInstantiate(&executable_, graph, cudaGraphInstantiateFlagUseNodePriority);
    cudaGraphDestroy(graph);
    check(status, "making a graph of the step");
    check(cudaGraphUpload(executable_, device.stream()), "sending the step's graph to the GPU");
  }
  ~GraphRecording() override { cudaGraphExecDestroy(executable_); }
  void replay() override {
    check(cudaGraphLaunch(executable_, device_.stream()), "launching the step's graph");
  }

 private:
  const Device& device_;
  cudaGraphExec_t executable_ = nullptr;
};

// When a multiprocessor becomes free, blocks of urgent launches are scheduled first.
enum Urgency : size_t { kBackground, kUrgent };
constexpr size_t kUrgencies = 2;

// Graph nodes that the next launch waits for, with their edge data.
struct Ends {
  std::vector<cudaGraphNode_t> nodes;
  std::vector<cudaGraphEdgeData> edges;
};

// Ends the capture in every case: a stream that is left capturing accepts no more work. Launches
// are captured from one stream per priority, and their graph nodes keep the priority. The capture
// begins on the device's stream.
class Capture {
 public:
  explicit Capture(Device& device) : device_(device), own_(device.stream()) {
    int lowest = 0, highest = 0;
    check(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "asking for priorities");
    for (size_t i = 0; i < kUrgencies; ++i) {
      int priority =
          lowest + (highest - lowest) * static_cast<int>(i) / static_cast<int>(kUrgencies - 1);
      check(cudaStreamCreateWithPriority(&streams_[i], cudaStreamNonBlocking, priority),
            "making a stream");
    }
    check(cudaStreamBeginCapture(own_, cudaStreamCaptureModeThreadLocal), "recording the step");
    is_open_ = true;
    cudaEvent_t fork = nullptr;
    check(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming), "making an event");
    check(cudaEventRecord(fork, own_), "recording the step");
    for (cudaStream_t stream : streams_)
      check(cudaStreamWaitEvent(stream, fork), "recording the step");
    cudaEventDestroy(fork);
  }
  ~Capture() {
    device_.set_stream(own_);
    if (is_open_) {
      cudaGraph_t graph = nullptr;
      cudaStreamEndCapture(own_, &graph);
      if (graph != nullptr) cudaGraphDestroy(graph);
    }
    for (cudaStream_t stream : streams_)
      if (stream != nullptr) cudaStreamDestroy(stream);
  }
  Capture(const Capture&) = delete;

  // The next launches wait only for `ends`.
  void continue_after(Ends ends, Urgency urgency) {
    device_.set_stream(streams_[urgency]);
    set_ends(device_.stream(), ends);
  }

  // The graph nodes with which the last launch ended.
  Ends ends() const {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    const cudaGraphNode_t* nodes = nullptr;
    const cudaGraphEdgeData* edges = nullptr;
    size_t count = 0;
    check(cudaStreamGetCaptureInfo(device_.stream(), &status, nullptr, nullptr, &nodes, &edges,
                                   &count),
          "recording the step");
    Ends ends{{nodes, nodes + count}, std::vector<cudaGraphEdgeData>(count, cudaGraphEdgeData{})};
    if (edges != nullptr) ends.edges.assign(edges, edges + count);
    return ends;
  }

  cudaGraph_t finish(Ends all) {
    set_ends(own_, all);
    for (cudaStream_t stream : streams_) set_ends(stream, all);
    device_.set_stream(own_);
    is_open_ = false;
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(own_, &graph), "recording the step");
    return graph;
  }

 private:
  static void set_ends(cudaStream_t stream, Ends& ends) {
    check(cudaStreamUpdateCaptureDependencies(stream, ends.nodes.data(), ends.edges.data(),
                                              ends.nodes.size(), cudaStreamSetCaptureDependencies),
          "recording the step");
  }

  Device& device_;
  cudaStream_t own_;
  std::array<cudaStream_t, kUrgencies> streams_{};
  bool is_open_ = false;
};

// Skips duplicates: an empty launch ends with the nodes that it waited for, and other launches may
// have waited for them, too.
void append(Ends& all, const Ends& more) {
  for (size_t i = 0; i < more.nodes.size(); ++i) {
    if (std::find(all.nodes.begin(), all.nodes.end(), more.nodes[i]) != all.nodes.end()) continue;
    all.nodes.push_back(more.nodes[i]);
    all.edges.push_back(more.edges[i]);
  }
}

// Ends the capture even if the launch throws.
cudaGraph_t capture_one(cudaStream_t stream, const Launch& launch) {
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "counting kernels");
  cudaGraph_t graph = nullptr;
  try {
    launch();
  } catch (...) {
    if (cudaStreamEndCapture(stream, &graph) == cudaSuccess) cudaGraphDestroy(graph);
    throw;
  }
  check(cudaStreamEndCapture(stream, &graph), "counting kernels");
  return graph;
}

}  // namespace

size_t count_kernels(const Device& device, const Launch& launch) {
  cudaGraph_t graph = capture_one(device.stream(), launch);
  size_t count = 0;
  cudaError_t status = cudaGraphGetNodes(graph, nullptr, &count);
  std::vector<cudaGraphNode_t> nodes(count);
  if (status == cudaSuccess) status = cudaGraphGetNodes(graph, nodes.data(), &count);
  count = 0;
  for (cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
    if (status == cudaSuccess) status = cudaGraphNodeGetType(node, &type);
    const bool runs = type == cudaGraphNodeTypeKernel || type == cudaGraphNodeTypeMemset ||
                      type == cudaGraphNodeTypeMemcpy;
    count += runs ? 1 : 0;
  }
  cudaGraphDestroy(graph);
  check(status, "counting kernels");
  return count;
}

std::unique_ptr<Recording> record_graph(Device& device,
                                        std::span<const NodeLaunch> launches,
                                        Instrument* instrument) {
  const bool branches = instrument == nullptr || instrument->sees_branches();
  std::vector<Ends> ends(launches.size());
  Ends all;
  Capture capture(device);
  for (size_t i = 0; i < launches.size(); ++i) {
    const NodeLaunch& each = launches[i];
    Ends before;
    for (int other : each.after) append(before, ends[static_cast<size_t>(other)]);
    // The graph has a single root: a second one would be started by another queue, which takes
    // longer.
    if (before.nodes.empty() && i > 0) before = ends[0];
    if (branches)
      capture.continue_after(std::move(before), each.is_background ? kBackground : kUrgent);
    if (instrument != nullptr) instrument->mark(each.node);
    each.launch();
    ends[i] = capture.ends();
    append(all, ends[i]);
  }
  if (instrument != nullptr) instrument->mark(kNoNode);
  return std::make_unique<GraphRecording>(
      device, capture.finish(branches ? std::move(all) : capture.ends()));
}

}  // namespace ridge::backends::cuda
