// SPDX-License-Identifier: Apache-2.0
// Text and JSON of a model file's contents (record/model_contents.h).
#pragma once

#include <string>

#include "record/model_contents.h"
#include "report/json_text.h"
#include "report/terminal.h"

namespace ridge::report {

std::string contents_text(const record::ModelContents& contents, const TerminalOptions& terminal);
Json contents_json(const record::ModelContents& contents);

}  // namespace ridge::report
