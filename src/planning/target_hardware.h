// SPDX-License-Identifier: Apache-2.0
// The hardware of a plan: this machine, a data sheet, or a JSON file.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cost/ceilings.h"
#include "passes/pass.h"
#include "passes/pipeline.h"
#include "record/plan_record.h"

namespace ridge::planning {

// Hardware, and a target that reports which nodes its kernels support.
struct TargetHardware : record::PlannedHardware {
  std::string target;
  std::unique_ptr<passes::PassTarget> planned;
  // The same with its runs replayed, for a GPU that is not there; null for the present machine,
  // whose backend is made for a selection.
  std::unique_ptr<passes::PassTarget> replaying;

  // The one that runs graphs of this selection.
  const passes::PassTarget& target_of(const passes::Selection& selection) const {
    return replaying != nullptr && selection.has("capture") ? *replaying : *planned;
  }
  // Names the machine of a plan. Of a GPU elsewhere no threads are known.
  void name_in(record::Setting& setting) const {
    setting.device = target;
    if (replaying == nullptr) return;
    setting.isa = ceilings.machine.isa;
    setting.threads = 0;
  }
};

// The machine that makes the plan. Its functions are called only if a plan needs what they return:
// the ceilings may have to be measured.
struct ThisMachine {
  std::function<std::unique_ptr<passes::PassTarget>()> target;      // on the chosen device
  std::function<std::unique_ptr<passes::PassTarget>()> cpu_target;  // on its CPU
  std::function<cost::Ceilings()> ceilings;                         // after `target`
};

// The hardware of a list of names such as "A100,H100". A name is "this", one of cost/hardware.h's
// table, or a JSON file, which stands alone: a data sheet or the output of `ridge machine --json`.
// Anything else is a usage Error, as are ceilings with TF32 for a plan without and the reverse.
std::vector<TargetHardware> choose_hardware_list(const std::string& hardware,
                                                 const ThisMachine& machine,
                                                 bool tf32);
// The same for one name.
TargetHardware choose_hardware(const std::string& hardware, const ThisMachine& machine, bool tf32);
// Sets the time for which the host is busy with each kernel that it launches outside of a CUDA
// graph; 0 leaves what is measured or assumed. Throws usage Errors for times out of range and for
// CPUs, whose launches take no time of another processor.
void set_enqueue_time(TargetHardware& hardware, double microseconds);
// Whether the hardware is planned as a GPU: all is, except CPUs that `ridge machine` measured, and
// this machine without one.
bool is_gpu_plan(const std::string& hardware, bool this_is_gpu);

}  // namespace ridge::planning
