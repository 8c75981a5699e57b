// SPDX-License-Identifier: Apache-2.0
// Makes backends and reads ceilings when a planner asks for them. Not a subcommand.
#include "apps/this_machine.h"

#include <fmt/format.h>

namespace ridge::apps {

std::optional<cost::Ceilings> known_ceilings(const MachineOptions& machine, bool tf32) {
  return measure::known_ceilings(is_gpu(machine), tf32, [](const std::string& note) {
    fmt::print(stderr, "{}\n", terminal_safe(note, kWholeText));
  });
}

cost::Ceilings machine_ceilings(const MachineOptions& machine,
                                CeilingsRequest request,
                                const TerminalOptions& terminal) {
  constexpr int64_t kSteps = 1000;
  request.on_gpu = is_gpu(machine);
  Progress bar("ceilings", kSteps, "", terminal);
  return measure::machine_ceilings(
      request,
      [&](double share, std::string_view step) {
        bar.reach(static_cast<int64_t>(share * kSteps), step);
      },
      [&](const std::string& note) {
        bar.hide();
        fmt::print(stderr, "{}", wrap_lines(note, terminal.columns));
      });
}

void add_enqueue_option(Command app, double& microseconds) {
  app.add_option("--enqueue-us", microseconds,
                 "microseconds for which the host is busy with each kernel that it launches outside "
                 "of a CUDA graph (default: measured, or 4 by a data sheet; eager PyTorch takes 5 "
                 "to 10); replayed graphs (--pass +capture) do not wait for it");
}

planning::ThisMachine this_machine(const MachineOptions& machine,
                                   const passes::Selection& selection,
                                   const TerminalOptions& terminal,
                                   bool has_inference) {
  const auto target = [=](const MachineOptions& on) {
    return [=] { return make_backend(on, selection); };
  };
  return {.target = target(machine), .cpu_target = target({.device = "cpu"}), .ceilings = [=] {
            return machine_ceilings(
                machine, {.tf32 = selection.has("tf32"), .has_inference = has_inference}, terminal);
          }};
}

}  // namespace ridge::apps
