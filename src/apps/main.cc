// SPDX-License-Identifier: Apache-2.0
// The program: subcommands, and the one place where an Error becomes a message and an exit code.
#include <fmt/format.h>

#include <new>

#include "apps/subcommand.h"
#include "base/error.h"

namespace {

int run(int argc, char** argv) {
  using namespace ridge;
  CLI::App program{
      "Ridge trains and runs Llama- and Gemma-family language models and accounts for every microsecond and byte.\n"
      "One graph, many views: the same graph is differentiated, optimised, costed, run, measured and reported."};
  program.name("ridge");
  program.require_subcommand(1);
  program.set_version_flag("--version", "ridge 0.1.0");
  program.footer("Exit codes: 0 fine, 1 run-time failure, 2 usage, 3 bad model or data file, 4 out of memory, 5 device.\n"
                 "Start with: ridge lab --preset tiny");
  apps::AppContext context{terminal_options_from_environment()};
  apps::register_train(program, context);
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    int code = program.exit(error);
    return code == 0 ? 0 : static_cast<int>(ExitCode::kUsage);
  }
  return 0;
}

int report(std::string_view message, ridge::ExitCode code) {
  fmt::print(stderr, "ridge: {}\n", message);
  return static_cast<int>(code);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const ridge::Error& error) {
    return report(error.what(), error.code());
  } catch (const std::bad_alloc&) {
    return report("out of memory", ridge::ExitCode::kOutOfMemory);
  } catch (const std::exception& error) {
    return report(fmt::format("internal error: {}", error.what()), ridge::ExitCode::kRuntime);
  }
}
