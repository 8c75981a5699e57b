// SPDX-License-Identifier: Apache-2.0
// How a subcommand joins the program: it declares its options and says what to run. main.cc lists
// them.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "base/terminal.h"

namespace ridge::apps {

inline constexpr const char* kProgram = "ridge 0.1.0";

struct AppContext {
  TerminalOptions terminal;
  std::string command;  // as typed, for reports
};

// Adds the subcommand to the program; when it is chosen its callback runs it. Errors are thrown.
// The context outlives the callback.
using Register = void (*)(CLI::App& program, const AppContext& context);

void register_bench(CLI::App& program, const AppContext& context);
void register_convert(CLI::App& program, const AppContext& context);
void register_diff(CLI::App& program, const AppContext& context);
void register_explain(CLI::App& program, const AppContext& context);
void register_generate(CLI::App& program, const AppContext& context);
void register_inspect(CLI::App& program, const AppContext& context);
void register_infer_lab(CLI::App& program, const AppContext& context);
void register_lab(CLI::App& program, const AppContext& context);
void register_logits(CLI::App& program, const AppContext& context);
void register_machine(CLI::App& program, const AppContext& context);
void register_perplexity(CLI::App& program, const AppContext& context);
void register_plan(CLI::App& program, const AppContext& context);
void register_tokenizer(CLI::App& program, const AppContext& context);
void register_train(CLI::App& program, const AppContext& context);

}  // namespace ridge::apps
