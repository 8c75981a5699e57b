// SPDX-License-Identifier: Apache-2.0
// The interface of a subcommand to the program: it declares its options and the function that runs
// it. main.cc lists the subcommands.
#pragma once

#include <string>

#include "apps/command.h"
#include "files/interrupt.h"
#include "report/terminal.h"

namespace ridge::apps {

using files::end_by_interrupt;
using files::InterruptRequest;

extern const char* const kProgram;  // name and version, "ridge 0.1.0"

struct AppContext {
  TerminalOptions terminal;
  std::string command;  // as typed, for reports
};

// Adds the subcommand to the program; its callback runs it and throws Errors. The context outlives
// the callback.
using Register = void (*)(Command program, const AppContext& context);

void register_bench(Command program, const AppContext& context);
void register_convert(Command program, const AppContext& context);
void register_data(Command program, const AppContext& context);
void register_demo(Command program, const AppContext& context);  // with courses/ alone
void register_diff(Command program, const AppContext& context);
void register_explain(Command program, const AppContext& context);
void register_generate(Command program, const AppContext& context);
void register_inspect(Command program, const AppContext& context);
void register_import(Command program, const AppContext& context);
void register_infer_lab(Command program, const AppContext& context);
void register_lab(Command program, const AppContext& context);
void register_logits(Command program, const AppContext& context);
void register_machine(Command program, const AppContext& context);
void register_perplexity(Command program, const AppContext& context);
void register_plan(Command program, const AppContext& context);
void register_report(Command program, const AppContext& context);
void register_serve(Command program, const AppContext& context);
void register_study(Command program, const AppContext& context);
void register_tokenizer(Command program, const AppContext& context);
void register_train(Command program, const AppContext& context);
void register_tune(Command program, const AppContext& context);

}  // namespace ridge::apps
