// SPDX-License-Identifier: Apache-2.0
// Times the backend's probe with the host's clock.
#include "measure/launch_rate.h"

#include "base/clock.h"

namespace ridge::measure {
namespace {

const backends::EnqueueProbe* find_probe(backends::Backend& backend,
                                         const cost::Ceilings* ceilings) {
  const bool is_known = ceilings != nullptr && ceilings->stream_launch_ns > 0;
  return is_known ? backend.enqueue_probe() : nullptr;
}

}  // namespace

LaunchRate::LaunchRate(backends::Backend& backend, const cost::Ceilings* ceilings)
    : backend_(backend), ceilings_(ceilings), probe_(find_probe(backend, ceilings)) {}

void LaunchRate::sample() {
  if (probe_ == nullptr) return;
  const double begin_ns = now_ns();
  probe_->run();
  const double enqueue_ns = now_ns() - begin_ns;
  backend_.synchronize();
  samples_.push_back(probe_->expected_ns(*ceilings_) / enqueue_ns);
}

}  // namespace ridge::measure
