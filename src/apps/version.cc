// SPDX-License-Identifier: Apache-2.0
// The program's name and version. CMakeLists.txt has the number. Not a subcommand.
#include "apps/subcommand.h"

namespace ridge::apps {

const char* const kProgram = "ridge " RIDGE_VERSION;

}  // namespace ridge::apps
