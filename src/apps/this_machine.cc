// SPDX-License-Identifier: Apache-2.0
// Makes backends and reads ceilings when a planner asks for them. Not a subcommand.
#include "apps/this_machine.h"

#include "apps/machine_ceilings.h"

namespace ridge::apps {

planning::ThisMachine this_machine(const MachineOptions& machine,
                                   const passes::Selection& selection,
                                   const TerminalOptions& terminal,
                                   bool has_inference) {
  return {.target = [=] { return make_backend(machine, selection); },
          .cpu_target =
              [=] {
                MachineOptions cpu;
                cpu.device = "cpu";
                return make_backend(cpu, selection);
              },
          .ceilings =
              [=] {
                return machine_ceilings(
                    machine, {.tf32 = selection.has("tf32"), .has_inference = has_inference},
                    terminal);
              }};
}

}  // namespace ridge::apps
