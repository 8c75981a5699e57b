// SPDX-License-Identifier: Apache-2.0
// The exchanges of the ranks of a run as tables: each rank's communication and waiting, and the bus
// bandwidth of each kind of collective.
#pragma once

#include <string>

#include "record/exchange_record.h"
#include "report/terminal.h"

namespace ridge::report {

// Empty without ranks. Times are of a step.
std::string exchange_text(const record::ExchangeRecord& exchange, const TerminalOptions& terminal);

}  // namespace ridge::report
