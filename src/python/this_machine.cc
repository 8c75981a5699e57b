// SPDX-License-Identifier: Apache-2.0
// Measures without a word, and looks for Ctrl-C meanwhile.
#include "python/this_machine.h"

#include <string>
#include <string_view>

#include "python/errors.h"

namespace ridge::python {

cost::Ceilings machine_ceilings(const backends::MachineOptions& machine,
                                measure::CeilingsRequest request) {
  request.on_gpu = backends::is_gpu(machine);
  return measure::machine_ceilings(
      request, [](double, std::string_view) { throw_if_interrupted(); }, [](const std::string&) {});
}

planning::ThisMachine this_machine(const backends::MachineOptions& machine,
                                   const passes::Selection& selection) {
  const auto target = [selection](const backends::MachineOptions& on) {
    return [on, selection] { return backends::make_backend(on, selection); };
  };
  return {.target = target(machine), .cpu_target = target({.device = "cpu"}), .ceilings = [=] {
            return machine_ceilings(machine, {.tf32 = selection.has("tf32")});
          }};
}

}  // namespace ridge::python
