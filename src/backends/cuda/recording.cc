// SPDX-License-Identifier: Apache-2.0
// Capturing a stream.
#include "backends/cuda/recording.h"

#include "backends/cuda/device_error.h"

namespace ridge::backends::cuda {
namespace {

class GraphRecording final : public Recording {
 public:
  GraphRecording(const Device& device, cudaGraph_t graph) : device_(device) {
    cudaError_t status = cudaGraphInstantiate(&executable_, graph, 0);
    cudaGraphDestroy(graph);
    check(status, "making a graph of the step");
    check(cudaGraphUpload(executable_, device.stream()), "sending the step's graph to the GPU");
  }
  ~GraphRecording() override { cudaGraphExecDestroy(executable_); }
  void replay() override { check(cudaGraphLaunch(executable_, device_.stream()), "launching the step's graph"); }

 private:
  const Device& device_;
  cudaGraphExec_t executable_ = nullptr;
};

// Ends the capture whatever happens: a stream left capturing takes no more work.
class Capture {
 public:
  explicit Capture(cudaStream_t stream) : stream_(stream) {
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "recording the step");
  }
  ~Capture() {
    if (stream_ == nullptr) return;
    cudaGraph_t graph = nullptr;
    cudaStreamEndCapture(stream_, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
  }
  cudaGraph_t end() {
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(stream_, &graph), "recording the step");
    stream_ = nullptr;
    return graph;
  }

 private:
  cudaStream_t stream_;
};

}  // namespace

std::unique_ptr<Recording> record_graph(Device& device, std::span<const NodeLaunch> launches, Instrument* instrument) {
  Capture capture(device.stream());
  for (const NodeLaunch& each : launches) {
    if (instrument != nullptr) instrument->mark(each.node);
    each.launch();
  }
  if (instrument != nullptr) instrument->mark(kNoNode);
  return std::make_unique<GraphRecording>(device, capture.end());
}

}  // namespace ridge::backends::cuda
