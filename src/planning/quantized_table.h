// SPDX-License-Identifier: Apache-2.0
// The table by which the CPU chooses the kernels of quantized_matmul, as text.
#pragma once

#include <string>

#include "backends/cpu/kernels/quantized/choose.h"
#include "report/terminal.h"

namespace ridge::planning {

// The rows of backends/cpu/kernels/quantized/choose.cc, in order, and what passes choose on `isa`.
std::string quantized_table_text(backends::cpu::QuantizedIsa isa,
                                 const report::TerminalOptions& options);

}  // namespace ridge::planning
