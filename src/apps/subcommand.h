// SPDX-License-Identifier: Apache-2.0
// How a subcommand joins the program: it declares its options and says what to run. main.cc lists them.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "base/terminal.h"

namespace ridge::apps {

struct AppContext {
  TerminalOptions terminal;
};

// Adds the subcommand to the program; when it is chosen its callback runs it. Errors are thrown.
using Register = void (*)(CLI::App& program, const AppContext& context);

void register_train(CLI::App& program, const AppContext& context);

}  // namespace ridge::apps
