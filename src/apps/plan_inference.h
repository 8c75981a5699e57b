// SPDX-License-Identifier: Apache-2.0
// The inference part of ridge plan: prefill and decode by batch and context. Not a subcommand.
#pragma once

#include <cstdint>
#include <string>

#include "apps/command.h"
#include "apps/model_options.h"
#include "report/terminal.h"

namespace ridge::apps {

// --inference, --model, --chunk, --exact, --fast-8bit
struct InferencePlanOptions {
  bool inference = false;
  std::string model;
  int64_t chunk = 512;
  bool exact = false;
  bool fast_8bit = false;
  std::string cache_dtype;  // empty: the type of activations
};
void add_inference_plan_options(Command app, InferencePlanOptions& options);
// A model file always gets an inference plan.
inline bool is_asked(const InferencePlanOptions& o) { return o.inference || !o.model.empty(); }

// The options that inference plans share with training plans.
struct PlanRequest {
  const ModelOptions& model;
  const LevelOptions& level;
  const MachineOptions& machine;
  const std::string& hardware;
  std::string batch_sizes;  // empty: 1, 8 and 32
  std::string lengths;      // empty: three usual ones
  bool json = false;
  bool verbose = false;
};
void plan_inference(const PlanRequest& request,
                    const InferencePlanOptions& options,
                    const TerminalOptions& terminal);

}  // namespace ridge::apps
