// SPDX-License-Identifier: Apache-2.0
// The measured links between ranks as tables, as a picture and in JSON.
#pragma once

#include <span>
#include <string>

#include "cost/link_curves.h"
#include "report/terminal.h"

namespace ridge::report {

// A row for each kind of collective and size; without `verbose` the least and the greatest.
std::string links_text(std::span<const cost::LinkCurves> links,
                       bool verbose,
                       const TerminalOptions& terminal);
// The times by size as a picture (SVG). Throws a usage Error if no links were measured.
std::string links_chart(std::span<const cost::LinkCurves> links, const std::string& device);
// The JSON of ceilings with the curves of their links as "link_curves".
std::string ceilings_json(const cost::Ceilings& ceilings, std::span<const cost::LinkCurves> links);

}  // namespace ridge::report
