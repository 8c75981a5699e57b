// SPDX-License-Identifier: Apache-2.0
// Requests and places of the planners' tests. All hardware is that of data sheets.
#pragma once

#include <string>
#include <vector>

#include "models/config.h"
#include "planning/plans.h"
#include "planning/target_hardware.h"

namespace ridge::planning {

// Tests plan for no hardware but data sheets and files.
inline ThisMachine no_machine() { return {}; }

inline std::vector<TargetHardware> hardware_list(const std::string& hardware, bool tf32 = false) {
  return choose_hardware_list(hardware, no_machine(), tf32);
}

inline TrainingPlanRequest request_of(const std::string& name,
                                      const models::ModelConfig& config,
                                      const std::string& level = "compiled",
                                      const std::string& switches = "") {
  TrainingPlanRequest request;
  request.setup.setting.model = name;
  request.setup.setting.level = level;
  request.setup.setting.switches = switches;
  request.setup.config = config;
  request.setup.selection = passes::Selection(level, switches);
  request.tokens = 1e9;
  request.assumed_mfu = 0.4;
  return request;
}

inline TrainingPlanRequest preset_request(const std::string& name,
                                          const std::string& level = "compiled",
                                          const std::string& switches = "") {
  const models::Preset& preset = models::preset(name);
  TrainingPlanRequest request = request_of(name, preset.config, level, switches);
  request.setup.step.batch_size = preset.batch_size;
  request.setup.step.sequence = preset.sequence;
  return request;
}

inline void ignore_trials(std::string_view, std::string_view, const std::string&) {}

inline std::vector<record::TrainingPlan> plan_training(const TrainingPlanRequest& request,
                                                       const std::string& hardware) {
  return plan_training(request, hardware_list(hardware, request.setup.selection.has("tf32")),
                       ignore_trials);
}

inline int64_t bytes_of(const record::DeviceMemory& memory, std::string_view memory_class) {
  for (const auto& [name, bytes] : memory.classes)
    if (name == memory_class) return bytes;
  return 0;
}

}  // namespace ridge::planning
