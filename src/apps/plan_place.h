// SPDX-License-Identifier: Apache-2.0
// The hardware of a plan: this machine, a data sheet, or a JSON file. Not a subcommand.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "apps/model_options.h"
#include "cost/ceilings.h"
#include "passes/pass.h"
#include "report/terminal.h"

namespace ridge::apps {

// Ceilings, and a target that reports which nodes its kernels support.
struct Place {
  std::string name;  // as it was chosen
  std::string title;
  std::string target;
  cost::Ceilings ceilings;
  std::unique_ptr<passes::PassTarget> planned;
  int64_t memory_bytes = 0;
  std::string source;
  // Of data sheets; 0 or empty: unknown.
  double link_bytes_per_s = 0;  // to other devices of a node, in one direction
  std::string link;             // "NVLink 4"
  double board_watts = 0;
};

// `hardware` is "this", a name in cost/hardware.h's table, or a JSON file: a data sheet or the output
// of `ridge machine --json`. Anything else is a usage Error.
Place choose_place(const std::string& hardware,
                   const MachineOptions& machine,
                   const passes::Selection& selection,
                   const TerminalOptions& terminal);
// The places of a list of names: "A100,H100".
std::vector<Place> choose_places(const std::string& hardware,
                                 const MachineOptions& machine,
                                 const passes::Selection& selection,
                                 const TerminalOptions& terminal);
// Whether that hardware is planned as a GPU: all are, except CPUs that `ridge machine` measured.
bool is_gpu_plan(const std::string& hardware, const MachineOptions& machine);

}  // namespace ridge::apps
