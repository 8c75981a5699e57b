// SPDX-License-Identifier: Apache-2.0
// Plans inference of a model: time and memory of prefill and decode by batch and length, the
// largest batches and the longest contexts that fit.
#pragma once

#include <cstdint>
#include <vector>

#include "models/model_file.h"
#include "planning/search_listener.h"
#include "planning/target_hardware.h"
#include "serve/phase.h"

namespace ridge::planning {

struct InferencePlanRequest {
  serve::PhaseSetup setup;       // for each batch and length
  std::vector<int64_t> batches;  // if empty, 1, 8 and 32
  std::vector<int64_t> lengths;  // if empty, three usual ones that the model's context allows
};

// Throws usage Errors for batches and lengths that a session of the model cannot have.
record::InferencePlan plan_inference(const models::ModelFile& file,
                                     const InferencePlanRequest& request,
                                     const TargetHardware& hardware,
                                     const SearchListener& listener);

}  // namespace ridge::planning
