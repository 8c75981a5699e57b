// SPDX-License-Identifier: Apache-2.0
// Replays recordings, and measures with the backend's instrument.
#include "runtime/bound_graph.h"

#include <algorithm>
#include <map>
#include <span>

#include "base/clock.h"

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

void BoundGraph::offer_recording() {
  if (!is_first_ && !was_offered_) {
    recording_ = backend_.record(launches_);
    was_offered_ = true;
  }
  is_first_ = false;
}

// Passes the body by reference, because a step must not allocate.
template <typename Body>
void BoundGraph::launch_in_region(const Body& body) {
  if (owns_threads_)
    body();
  else
    backend_.in_parallel_region(std::cref(body));
}

void BoundGraph::launch_observed(backends::Recording* recording,
                                 backends::Instrument& instrument,
                                 double start_ns,
                                 std::vector<record::Enqueue>& enqueues) {
  const auto timed = [&](NodeId node, const auto& launch) {
    const double begin = now_ns() - start_ns;
    launch();
    enqueues.push_back({node, begin, now_ns() - start_ns});
  };
  if (recording != nullptr) return timed(kNoNode, [&] { recording->replay(); });
  launch_in_region([&] {
    for (const backends::NodeLaunch& each : launches_) {
      instrument.mark(each.node);
      timed(each.node, each.launch);
    }
  });
}

void BoundGraph::run() {
  tell_of_collectives();
  offer_recording();
  if (recording_ != nullptr) return recording_->replay();
  launch_in_region([&] {
    for (const backends::NodeLaunch& each : launches_) each.launch();
  });
}

void BoundGraph::run_inspected(const std::function<void(NodeId)>& before,
                               const std::function<void(NodeId)>& after) {
  tell_of_collectives();
  for (const backends::NodeLaunch& each : launches_) {
    backend_.synchronize();
    before(each.node);
    each.launch();
    backend_.synchronize();
    after(each.node);
  }
}

record::ProfiledRun BoundGraph::run_profiled() {
  tell_of_collectives();
  backends::Instrument* instrument = backend_.instrument();
  if (instrument == nullptr) return run_clocked();
  record::ProfiledRun run;
  run.called_ns = now_ns();
  offer_recording();
  const bool replays = recording_ != nullptr;
  if (!observed_ || (observed_->recording != nullptr) != replays)
    observed_ = instrument->observe(launches_, replays);
  backends::Recording* traced = observed_->recording.get();
  run.enqueues.reserve(traced == nullptr ? launches_.size() : 1);
  bool is_held = instrument->start(*observed_);
  if (is_held) replay_held(*traced, *instrument);
  double start = now_ns();
  if (is_held) {
    instrument->release();
    run.enqueues.push_back({kNoNode, 0, now_ns() - start});
  } else {
    launch_observed(traced, *instrument, start, run.enqueues);
  }
  backend_.synchronize();
  run.wall_ns = now_ns() - start;
  instrument->stop(run);
  leave_out_waits(launches_, run.spans);
  run.instrument_ns = now_ns() - run.called_ns - run.wall_ns;
  return run;
}

record::ProfiledRun BoundGraph::run_clocked() {
  record::ProfiledRun run;
  run.spans.resize(launches_.size());
  const double start = run.called_ns = now_ns();
  launch_in_region([&] {
    for (size_t i = 0; i < launches_.size(); ++i) {
      double begin = now_ns();
      launches_[i].launch();
      run.spans[i] = {launches_[i].node, begin - start, now_ns() - start};
    }
  });
  backend_.synchronize();
  run.wall_ns = now_ns() - start;
  return run;
}

}  // namespace ridge::runtime
