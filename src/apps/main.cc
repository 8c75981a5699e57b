// SPDX-License-Identifier: Apache-2.0
// The main program: registers the subcommands. It is the only place that turns an Error into a
// message and an exit code.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "apps/environment.h"
#include "apps/interrupt.h"
#include "apps/subcommand.h"
#include "base/error.h"
#include "base/nearest_name.h"
#include "base/printable.h"
#include "base/terminal.h"

namespace {

// CLI11 would read a value that begins with a minus as an option, so --pass -fuse_glu becomes
// --pass=-fuse_glu. After "--" there are no options.
std::vector<std::string> arguments(int argc, char** argv) {
  std::vector<std::string> all(argv + 1, argv + argc);
  for (size_t i = 0; i + 1 < all.size() && all[i] != "--"; ++i) {
    if (all[i] != "--pass" || !all[i + 1].starts_with("-") || all[i + 1].starts_with("--"))
      continue;
    all[i] += "=" + all[i + 1];
    all.erase(all.begin() + static_cast<std::ptrdiff_t>(i) + 1);
  }
  std::reverse(all.begin(), all.end());  // CLI11 takes arguments from the back
  return all;
}

// Options that had another name before. Both are accepted; --help lists the present one.
struct Renamed {
  std::string_view before, now;
};
constexpr Renamed kRenamed[] = {
    {"--attention-lens", "--attention-seq-len"},
    {"--batch", "--batch-size"},
    {"--batch-sizes", "--batch-size"},
    {"--latency-batches", "--latency-batch-size"},
    {"--levels", "--level"},
    {"--profile-levels", "--profile-level"},
    {"--prompt", "--prompt-tokens"},
    {"--seq-lens", "--seq-len"},
};

// Puts the present names into the arguments, which are in reverse order, of the subcommand that they
// choose.
void use_present_names(const CLI::App& program, std::vector<std::string>& reversed) {
  const CLI::App* at = &program;
  for (auto word = reversed.rbegin(); word != reversed.rend() && *word != "--"; ++word) {
    for (const CLI::App* each : at->get_subcommands([](const CLI::App*) { return true; }))
      if (each->get_name() == *word) at = each;
    const std::string_view name = std::string_view(*word).substr(0, word->find('='));
    for (const Renamed& each : kRenamed)
      if (name == each.before && at->get_option_no_throw(std::string(each.now)) != nullptr) {
        word->replace(0, name.size(), each.now);
        break;
      }
  }
}

std::string command_line(int argc, char** argv) {
  std::string line = "ridge";
  for (int i = 1; i < argc; ++i) line += std::string(" ") + argv[i];
  return line;
}

// Describes the error in the arguments and suggests what the user may have meant.
std::string usage_message(const CLI::App& program, const CLI::ParseError& error) {
  using namespace ridge;
  const CLI::App* at = &program;
  std::string path = program.get_name();
  while (!at->get_subcommands().empty()) {
    at = at->get_subcommands().front();
    path += " " + at->get_name();
  }
  std::vector<std::string> left = program.remaining(true), known;
  if (left.empty()) return fmt::format("{}; see `{} --help`", error.what(), path);
  // CLI11 leaves an unknown option with its value; name the option.
  auto option = std::find_if(left.begin(), left.end(), [](auto& w) { return w.starts_with("-"); });
  if (option != left.end()) {
    std::string word = option->substr(0, option->find('='));
    for (const CLI::Option* each : at->get_options())
      for (const std::string& name : each->get_lnames()) known.push_back("--" + name);
    const auto options = at->get_options();
    const bool takes_arguments = std::any_of(options.begin(), options.end(),
                                             [](auto* each) { return each->get_positional(); });
    return fmt::format("unknown option {}{}; see `{} --help`{}", printable(word),
                       did_you_mean(word, known), path,
                       takes_arguments ? " (after --, arguments may begin with -)" : "");
  }
  for (const CLI::App* each : at->get_subcommands([](const CLI::App*) { return true; }))
    known.push_back(each->get_name());
  return known.empty()
             ? fmt::format("unexpected argument {}; see `{} --help`", printable(left[0]), path)
             : fmt::format("unknown subcommand {}{}; see `{} --help`", printable(left[0]),
                           did_you_mean(left[0], known), path);
}

int run(int argc, char** argv) {
  using namespace ridge;
  CLI::App program{
      "Ridge trains Llama models, runs Llama and Gemma 3 models, and accounts for every "
      "microsecond\n"
      "and byte. A model is one graph: gradients, optimization passes, costs, memory plans,\n"
      "measurements and reports all work on it."};
  program.name("ridge");
  program.require_subcommand(1);
  program.set_version_flag("--version", apps::kProgram);
  program.footer(
      "After --, arguments may begin with -: ridge generate model.gguf -- \"--help means\"\n"
      "Exit codes: 0 success, 1 runtime failure, 2 usage error, 3 bad model or data file, 4 out "
      "of\n"
      "memory, 5 device error, 130 ended by Ctrl-C.\n"
      "Start with: ridge lab --preset tiny");
  apps::AppContext context{apps::terminal_options_from_environment(), command_line(argc, argv)};
  for (apps::Register add :
       {apps::register_lab, apps::register_infer_lab, apps::register_train, apps::register_generate,
        apps::register_serve, apps::register_logits, apps::register_perplexity,
        apps::register_explain, apps::register_bench, apps::register_diff, apps::register_report,
        apps::register_machine, apps::register_plan, apps::register_inspect, apps::register_convert,
        apps::register_tokenizer})
    add(apps::Command(&program), context);
  try {
    std::vector<std::string> given = arguments(argc, argv);
    use_present_names(program, given);
    program.parse(given);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return program.exit(error);  // --help, --version
    throw usage_error("{}", usage_message(program, error));
  }
  // Output lost to a full disk or a closed pipe is a failure, even if everything else succeeded.
  if (std::fflush(stdout) != 0)
    throw runtime_error("[stdout] cannot write the output: {}", std::strerror(errno));
  if (std::ferror(stdout) != 0) throw runtime_error("[stdout] cannot write the output");
  return 0;
}

// Messages contain foreign text: names from files, values of options.
int report(std::string_view message, ridge::ExitCode code) {
  const std::string safe = ridge::terminal_safe(message, ridge::kLongestMessage);
  // fmt::print would throw if stderr is closed, and the exit code would be lost.
  std::fprintf(stderr, "ridge: %s\n", safe.c_str());
  return static_cast<int>(code);
}

}  // namespace

int main(int argc, char** argv) {
  ridge::apps::limit_spinning(argv);
  try {
    ridge::apps::end_cleanly_on_signals();
    return run(argc, argv);
  } catch (const ridge::Error& error) {
    return report(error.what(), error.code());
  } catch (const std::system_error& error) {
    // For example a full disk behind stdout, a closed pipe, or a folder that was removed.
    return report(error.what(), ridge::ExitCode::kRuntime);
  } catch (const std::bad_alloc&) {
    return report("out of memory", ridge::ExitCode::kOutOfMemory);
  } catch (const std::exception& error) {
    return report(fmt::format("internal error: {}", error.what()), ridge::ExitCode::kRuntime);
  }
}
