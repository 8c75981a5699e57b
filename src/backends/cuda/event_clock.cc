// SPDX-License-Identifier: Apache-2.0
// Measures the times of nodes with events between them: coarser than CUPTI's records, but it needs
// nothing else. The graph that it records contains the events, and each replay records them anew.
#include <cuda_runtime_api.h>

#include "backends/cuda/device_error.h"
#include "backends/cuda/kernel_clock.h"
#include "backends/cuda/recording.h"

namespace ridge::backends::cuda {
namespace {

struct Stamp {
  NodeId node;
  cudaEvent_t event;
};

class EventClock final : public Instrument {
 public:
  EventClock(Device& device, std::string failure) : device_(device), failure_(std::move(failure)) {
    check(cudaEventCreate(&origin_), "making an event");
  }
  ~EventClock() override {
    cudaEventDestroy(origin_);
    for (const auto* stamps : {&streamed_, &recorded_})
      for (const Stamp& stamp : *stamps) cudaEventDestroy(stamp.event);
  }

  Observed observe(std::span<const NodeLaunch> launches, bool replays) override {
    if (!replays) return {};
    return {record_graph(device_, launches, this), {}};
  }

  bool start(const Observed&) override {
    used_ = 0;
    check(cudaEventRecord(origin_, device_.stream()), "timing the step");
    check(cudaEventSynchronize(origin_), "timing the step");
    return false;
  }

  // The time between two events belongs to one node only if the nodes run one after the other.
  bool sees_branches() const override { return false; }

  void mark(NodeId node) override {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    check(cudaStreamIsCapturing(device_.stream(), &status), "timing the step");
    if (status == cudaStreamCaptureStatusActive) {
      recorded_.push_back({node, make_event()});
      check(cudaEventRecordWithFlags(recorded_.back().event, device_.stream(),
                                     cudaEventRecordExternal),
            "timing the step");
      return;
    }
    if (used_ == streamed_.size()) streamed_.push_back({node, make_event()});
    streamed_[used_].node = node;
    check(cudaEventRecord(streamed_[used_++].event, device_.stream()), "timing the step");
  }

  void stop(record::ProfiledRun& run) override {
    bool on_stream = used_ > 0;
    if (on_stream) {
      mark(kNoNode);
      device_.synchronize();
    }
    const std::vector<Stamp>& stamps = on_stream ? streamed_ : recorded_;
    size_t count = on_stream ? used_ : stamps.size();
    run.spans.clear();
    for (size_t i = 0; i + 1 < count; ++i) {
      if (stamps[i].node == kNoNode) continue;
      double begin = since_start(stamps[i]), end = since_start(stamps[i + 1]);
      if (begin >= 0 && end >= begin) run.spans.push_back({stamps[i].node, begin, end});
    }
    run.caveat = "kernels are timed by events between nodes, gaps included: " + failure_;
  }

 private:
  static cudaEvent_t make_event() {
    cudaEvent_t event = nullptr;
    check(cudaEventCreate(&event), "making an event");
    return event;
  }
  double since_start(const Stamp& stamp) const {
    constexpr double kNsPerMs = 1e6;
    float ms = -1;
    if (cudaEventElapsedTime(&ms, origin_, stamp.event) != cudaSuccess) cudaGetLastError();
    return ms * kNsPerMs;
  }

  Device& device_;
  std::string failure_;
  cudaEvent_t origin_ = nullptr;
  std::vector<Stamp> streamed_;
  std::vector<Stamp> recorded_;  // events of all recordings
  size_t used_ = 0;
};

}  // namespace

std::unique_ptr<Instrument> make_event_clock(Device& device, std::string failure) {
  return std::make_unique<EventClock>(device, std::move(failure));
}

std::unique_ptr<Instrument> make_kernel_clock(Device& device) {
  std::string failure;
  if (auto clock = make_cupti_clock(device, failure)) return clock;
  return make_event_clock(device, std::move(failure));
}

}  // namespace ridge::backends::cuda
