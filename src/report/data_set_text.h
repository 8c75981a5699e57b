// SPDX-License-Identifier: Apache-2.0
// Data sets of token ids as text and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "record/data_set.h"
#include "report/terminal.h"

namespace ridge::report {

// The texts end in a newline.
std::string data_set_text(const record::DataSetSummary& summary);
// Without the text of the beginning.
std::string data_set_text(const record::DataSetContents& contents, const TerminalOptions& options);
nlohmann::ordered_json data_set_json(const record::DataSetSummary& summary);
nlohmann::ordered_json data_set_json(const record::DataSetContents& contents);

}  // namespace ridge::report
