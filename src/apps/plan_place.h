// SPDX-License-Identifier: Apache-2.0
// The machine that a plan is for: this one, one of the
// table, or a user's description. Not a subcommand.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "apps/model_options.h"
#include "base/terminal.h"
#include "cost/ceilings.h"
#include "passes/pass.h"

namespace ridge::apps {

// Ceilings, and a target that says what kernels take.
struct Place {
  std::string title;
  std::string target;
  cost::Ceilings ceilings;
  std::unique_ptr<passes::PassTarget> planned;
  int64_t memory_bytes = 0;
  std::string source;
};

// "this", a name of cost/hardware.h's table, or a JSON file; a usage Error for what is neither.
Place choose_place(const std::string& hardware,
                   const MachineOptions& machine,
                   const passes::Selection& selection,
                   const TerminalOptions& terminal);

// The peak that MFU is of: the data sheet's, or the measured one where theory is silent.
double theoretical_flops_per_ns(const cost::Ceilings& ceilings, DType dtype);

}  // namespace ridge::apps
