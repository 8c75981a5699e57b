// SPDX-License-Identifier: Apache-2.0
// The list of the passes of all backends, as text and as JSON. Not a subcommand.
#pragma once

#include <string>

namespace ridge::apps {

// The passes in the order in which they run, with summary and trade-off. No line is wider than
// `columns`.
std::string pass_list_text(int columns);

// The same as a JSON array.
std::string pass_list_json();

}  // namespace ridge::apps
