// SPDX-License-Identifier: Apache-2.0
// The metrics of one request: times, steps, costs and predictions. Plain data.
#pragma once

#include <cstdint>

#include "serve/step_cost.h"

namespace ridge::serve {

struct RequestMetrics {
  double queue_ns = 0;        // from its arrival until it got a slot
  double prefill_ns = 0;      // from the slot to the first token
  double decode_ns = 0;       // from the first token to the last
  int64_t later_tokens = 0;   // generated after the first token
  int64_t cached_tokens = 0;  // prompt tokens that the prefix cache held
  int64_t steps = 0;          // engine steps that computed a part of it
  double step_ns = 0;         // duration of these steps
  double shared_ns = 0;       // its share of step_ns, by executed FLOPs
  StepCost cost;              // its share of the cost of these steps
  // The plan predicts these times for the steps up to the first token and after it. 0 = unknown.
  double predicted_prefill_ns = 0, predicted_decode_ns = 0;
  // Its MACs take at least this time at the peak of their type, and its needed bytes at the
  // memory's read bandwidth. 0 = unknown.
  double least_multiply_ns = 0, least_read_ns = 0;

  double mfu() const { return shared_ns > 0 ? least_multiply_ns / shared_ns : 0; }
  double mbu() const { return shared_ns > 0 ? least_read_ns / shared_ns : 0; }
};

}  // namespace ridge::serve
