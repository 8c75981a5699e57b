// SPDX-License-Identifier: Apache-2.0
// Tables of the choices that were made by timing (record/tuned_choices.h).
#pragma once

#include <span>
#include <string>

#include "record/tuned_choices.h"
#include "report/terminal.h"

namespace ridge::report {

std::string tuned_text(std::span<const record::TunedChoices> all, const TerminalOptions& terminal);

}  // namespace ridge::report
