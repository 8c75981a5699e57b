// SPDX-License-Identifier: Apache-2.0
// What a request took: times, steps, counts, and what was predicted. Plain data.
#pragma once

#include <cstdint>

#include "serve/step_cost.h"

namespace ridge::serve {

struct Account {
  double queue_ns = 0;       // until it got a slot
  double prefill_ns = 0;     // from there to the first token
  double decode_ns = 0;      // from the first token to the last
  int64_t later_tokens = 0;  // after the first
  int64_t cached_tokens = 0;
  int64_t steps = 0;     // that it had a part in
  double step_ns = 0;    // their time
  double shared_ns = 0;  // its part of their time, by executed FLOPs
  StepCost cost;         // its part of their cost
  // Of the steps up to the first token, and after it: the time that the plan predicts. 0 = unknown.
  double predicted_prefill_ns = 0, predicted_decode_ns = 0;
  // The time that its MACs would take at the peak of their type, and its needed bytes at the read
  // bandwidth of memory. 0 = unknown.
  double least_multiply_ns = 0, least_read_ns = 0;

  double mfu() const { return shared_ns > 0 ? least_multiply_ns / shared_ns : 0; }
  double mbu() const { return shared_ns > 0 ? least_read_ns / shared_ns : 0; }
};

}  // namespace ridge::serve
