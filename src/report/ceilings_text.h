// SPDX-License-Identifier: Apache-2.0
// Tables of a machine's measured rates next to the theoretical ones.
#pragma once

#include <span>
#include <string>

#include "cost/ceilings.h"
#include "report/terminal.h"

namespace ridge::report {

// One of a machine's records of ceilings. A GPU has a second record with its fp32 GEMMs in TF32,
// which otherwise repeats the first.
struct MeasuredCeilings {
  cost::Ceilings ceilings;
  bool tf32 = false;
  bool is_second = false;
};

// Memory, GEMMs and the other rates; with `verbose` by type, size and number of tokens.
std::string ceilings_text(std::span<const MeasuredCeilings> records,
                          bool verbose,
                          const TerminalOptions& terminal);

// "3.2 h" since an ISO 8601 time.
std::string age_text(const std::string& measured_at);

}  // namespace ridge::report
