// SPDX-License-Identifier: Apache-2.0
// The launches of one graph whose pointers are fixed, and their recording if the backend makes one.
// Runs them, one by one where something looks between them, and measures them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "backends/backend.h"
#include "record/profile.h"

namespace ridge::runtime {

class BoundGraph {
 public:
  // `owns_threads` says whether any launch starts threads of its own. The backend's listener is
  // told of the collectives as they are launched on the device.
  BoundGraph(backends::Backend& backend,
             std::vector<backends::NodeLaunch> launches,
             bool owns_threads,
             std::vector<plan::Collective> collectives = {})
      : backend_(backend),
        launches_(std::move(launches)),
        owns_threads_(owns_threads),
        collectives_(std::move(collectives)) {}

  // Enqueues a run.
  void run();
  // The same launches one by one, each between the two calls with its node.
  void run_inspected(const std::function<void(NodeId)>& before,
                     const std::function<void(NodeId)>& after);
  // Runs and returns the times of the nodes, measured by the backend's instrument or by a clock
  // around each launch.
  record::ProfiledRun run_profiled();

 private:
  void tell_of_collectives() {
    if (!collectives_.empty()) backend_.listener()->launched(collectives_);
  }
  void offer_recording();
  // Calls `body`, which makes the launches, in the parallel region of the backend where it can.
  template <typename Body>
  void launch_in_region(const Body& body);
  // Replays the recording or, if it is null, makes each launch. Calls the instrument with the node
  // of each launch, and adds the host's time for each, since `start_ns`, to `enqueues`.
  void launch_observed(backends::Recording* recording,
                       backends::Instrument& instrument,
                       double start_ns,
                       std::vector<record::Enqueue>& enqueues);
  record::ProfiledRun run_clocked();

  backends::Backend& backend_;
  std::vector<backends::NodeLaunch> launches_;
  bool owns_threads_;
  std::vector<plan::Collective> collectives_;
  // The first run is not recorded, because lazy loading happens in it.
  std::unique_ptr<backends::Recording> recording_;
  std::optional<backends::Observed> observed_;  // from the backend's instrument
  bool is_first_ = true;                        // Nothing has run yet.
  bool was_offered_ = false;                    // The backend has decided whether to record.
};

}  // namespace ridge::runtime
