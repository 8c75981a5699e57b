// SPDX-License-Identifier: Apache-2.0
// The list of figures (record/figures.h) for readers: the table of docs/figures.md, and the labels
// of report.html.
#pragma once

#include <string>

#include "report/json_text.h"

namespace ridge::report {

// {kind of record: {key: [label, unit, sentence, version]}}; the unit of texts is "text", and the
// version is that of the first file with the figure.
Json figures_json();
// The same as a page of Markdown.
std::string figures_page();

}  // namespace ridge::report
