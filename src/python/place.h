// SPDX-License-Identifier: Apache-2.0
// Where a graph runs, and what it gets there, from the arguments of a call.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "backends/machine.h"
#include "cost/ceilings.h"
#include "passes/pipeline.h"
#include "python/keywords.h"

namespace ridge::python {

// A device, and the passes that a graph gets on it.
struct Place {
  // Takes device, threads, isa, level and passes.
  explicit Place(Keywords& keywords, const std::string& device = "");
  // The known ceilings of the machine.
  std::optional<cost::Ceilings> ceilings() const;

  backends::MachineOptions machine;
  passes::Selection selection{"baseline", ""};
  std::unique_ptr<backends::Backend> backend;
};

// Takes device, threads and isa.
void take_machine(Keywords& keywords, backends::MachineOptions& machine);

// Whether dtype= asks for exact arithmetic in fp32. Throws a usage Error for another name.
bool expect_exact_or_default(const std::string& dtype);

// Throws a usage Error unless the seconds are above 0, up to 3600.
double budget_ns(double seconds);

}  // namespace ridge::python
