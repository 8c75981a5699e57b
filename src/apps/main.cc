// SPDX-License-Identifier: Apache-2.0
// The main program: registers the subcommands. It is the only place that turns an Error into a
// message and an exit code.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "apps/environment.h"
#include "apps/subcommand.h"
#include "base/error.h"
#include "base/nearest_name.h"
#include "base/printable.h"
#ifdef RIDGE_COURSES
#include "courses/courses.h"
#endif
#include "report/terminal.h"

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

// Subcommands and options that had another name before, or have one in vLLM, llama.cpp or
// transformers. Both are accepted where the subcommand has the present one, which --help lists.
struct Renamed {
  std::string_view before, now;
};
constexpr Renamed kRenamed[] = {
    {"--ctx-size", "--context"},
    {"--gradient-accumulation-steps", "--micro-batches"},
    {"--learning-rate", "--lr"},
    {"--max-new-tokens", "--max-tokens"},
    {"--max-steps", "--steps"},
    {"--n-predict", "--max-tokens"},
    {"--out", "--output"},
    {"--output", "--out"},
    {"--output-dir", "--save"},
    {"--output-dir", "--out"},
    {"--parallel", "--max-sequences"},
    {"--per-device-train-batch-size", "--batch-size"},
    {"--temp", "--temperature"},
    {"--tokens", "--max-tokens"},
    {"--warmup-steps", "--lr-warmup"},
    {"-c", "--context"},
    {"-m", "--model"},
    {"-n", "--max-tokens"},
    {"-np", "--max-sequences"},
    {"-o", "--out"},
    {"-p", "--prompt"},
    {"-t", "--threads"},
    {"run", "generate"},
    {"--attention-lens", "--attention-seq-len"},
    {"--batch", "--batch-size"},
    {"--batch-sizes", "--batch-size"},
    {"--dtypes", "--dtype"},
    {"--latency-batches", "--latency-batch-size"},
    {"--levels", "--level"},
    {"--max-num-batched-tokens", "--max-batched-tokens"},
    {"--max-num-seqs", "--max-sequences"},
    {"--profile-levels", "--profile-level"},
    {"--prompt", "--prompt-tokens"},
    {"--seq-lens", "--seq-len"},
    {"--slots", "--max-sequences"},
    {"--step-tokens", "--max-batched-tokens"},
    {"exhibit", "demo"},
};

// Names of other programs for what is done in another way here.
struct Elsewhere {
  std::string_view name, here;
};
constexpr Elsewhere kElsewhere[] = {
    {"--epochs", "--steps or --tokens sets the length; `ridge data inspect` counts a data set"},
    {"--lora", "--pass +lora trains adapters"},
    {"--n-gpu-layers", "--device cuda computes all layers on a GPU"},
    {"--num-train-epochs",
     "--steps or --tokens sets the length; `ridge data inspect` counts a data set"},
    {"-f", "a prompt comes on stdin: < FILE"},
    {"-ngl", "--device cuda computes all layers on a GPU"},
    {"chat", "`ridge generate MODEL --chat` is a conversation"},
    {"finetune", "`ridge train --model MODEL --data FILE` fine-tunes a model"},
    {"quantize", "`ridge convert IN OUT.gguf --type q4_k` quantizes a model"},
};

// The option that a subcommand has instead of an argument.
constexpr Elsewhere kArguments[] = {
    {"ridge generate", "a prompt of several words needs quotes"},
    {"ridge lab", "--preset chooses the model's size"},
    {"ridge logits", "--ids takes the tokens, which `ridge tokenizer encode` prints"},
    {"ridge plan", "--preset or --model chooses the model"},
    {"ridge tokenizer encode", "the text comes on stdin"},
    {"ridge train", "--data takes a text or data set, --preset the model's size"},
};

// The same name with hyphens, as transformers writes --learning_rate.
std::string hyphenated(std::string name) {
  if (name.starts_with("--")) std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

std::string elsewhere(const std::string& name, std::span<const Elsewhere> names = kElsewhere) {
  for (const Elsewhere& each : names)
    if (hyphenated(name) == each.name) return fmt::format(": {}", each.here);
  return "";
}

std::vector<std::string> subcommands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* each : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(each->get_name());
  return names;
}

// Puts the present names into the arguments, which are in reverse order, of the subcommand that
// they choose.
void use_present_names(const CLI::App& program, std::vector<std::string>& reversed) {
  const CLI::App* at = &program;
  for (auto word = reversed.rbegin(); word != reversed.rend() && *word != "--"; ++word) {
    const std::vector<std::string> subcommands = subcommands_of(*at);
    const auto is_known = [&](std::string_view name) {
      return at->get_option_no_throw(std::string(name)) != nullptr ||
             std::ranges::count(subcommands, name) > 0;
    };
    const std::string name = word->substr(0, word->find('=')), present = hyphenated(name);
    if (!is_known(name) && is_known(present)) word->replace(0, name.size(), present);
    for (const Renamed& each : kRenamed)
      if (present == each.before && !is_known(present) && is_known(each.now)) {
        word->replace(0, name.size(), each.now);
        break;
      }
    if (std::ranges::count(subcommands, *word) > 0) at = at->get_subcommand(*word);
  }
}

// The command as a shell reads it.
std::string command_line(int argc, char** argv) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
  std::string line = "ridge";
  for (const std::string_view word : std::span(argv, static_cast<size_t>(argc)).subspan(1)) {
    line += ' ';
    if (!word.empty() && word.find_first_not_of(kPlain) == std::string_view::npos) {
      line += word;
      continue;
    }
    line += '\'';
    for (const char c : word) line += c == '\'' ? std::string("'\\''") : std::string(1, c);
    line += '\'';
  }
  return line;
}

// A positional argument that has a name as well (-m of llama.cpp) is listed once.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    const bool is_listed = !is_positional && option->get_positional();
    return is_listed ? "" : CLI::Formatter::make_option(option, is_positional);
  }
};

// CLI11's "--steps: 1 required INT missing" in the words of our own messages.
std::string argument_message(const CLI::App& at, const CLI::ParseError& error) {
  const std::string text = error.what();
  for (const CLI::Option* each : at.get_options())
    if (each->get_positional() && text == each->get_name() + " is required")
      return each->get_name(true) + " is required";
  const size_t colon = text.find(": ");
  if (colon == std::string::npos) return text;
  const size_t begin = std::min(text.find_first_not_of('-'), colon);
  std::string name = text.substr(begin, colon - begin);
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  std::string fault = text.substr(colon + 2);
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    constexpr std::string_view kReceived = "received ";
    const size_t received = fault.rfind(kReceived);
    fault = received == std::string::npos
                ? "expected a value, got none"
                : "expected one value, got " + fault.substr(received + kReceived.size());
  } else if (dynamic_cast<const CLI::ValidationError*>(&error) == nullptr) {
    return text;
  }
  return fmt::format("[{}] {}", name, fault);
}

constexpr size_t kNames = 30;  // columns for the names of an option or a subcommand
constexpr int kHelpColumns = 100;

// Whether the line has an option's text after its names, or goes on with it below them. No text
// begins with a minus: that is a name which reaches beyond its columns.
bool has_option_text(std::string_view line) {
  if (line.size() <= kNames || line.find_first_not_of(' ') == std::string_view::npos) return false;
  const size_t begin = line.find_first_not_of(' ');
  const bool has_names =
      begin == 2 && (line[2] == '-' || std::isalpha(static_cast<unsigned char>(line[2])) != 0) &&
      line[kNames - 1] == ' ' && line[kNames] != ' ' && line[kNames] != '-';
  return has_names || begin == kNames;
}

// Whether the next line goes on with this one's text, which --help breaks for 100 columns.
bool is_continued(std::string_view line, std::string_view next) {
  constexpr size_t kFull = 75;  // a shorter line of prose ends its paragraph
  if (has_option_text(line)) return next.find_first_not_of(' ') == kNames;
  if (next.starts_with("Usage: ")) return false;
  return line.size() > kFull && line[0] != ' ' && !line.ends_with('.') && !next.empty() &&
         next[0] != ' ';
}

// The help for a terminal of this width. The rest of a broken line starts where the text of an
// option does; the examples' commands stay whole, to be copied.
std::string fitted_help(const std::string& help, int columns) {
  columns = std::min(columns, kHelpColumns);
  std::istringstream lines(help);
  std::vector<std::string> paragraphs;
  std::string before;
  for (std::string line; std::getline(lines, line); before = line) {
    if (!is_continued(before, line))
      paragraphs.push_back(line);
    else
      paragraphs.back() += " " + line.substr(line.find_first_not_of(' '));
  }
  std::string text;
  for (const std::string& line : paragraphs) {
    if (line.starts_with("  ridge ")) {
      text += line + "\n";
    } else if (has_option_text(line)) {
      const std::string rest =
          ridge::report::wrap_lines(line.substr(kNames), columns, std::string(kNames, ' '));
      text += line.substr(0, kNames) + rest.substr(kNames);
    } else {
      text += line.empty() ? "\n" : ridge::report::wrap_lines(line, columns);
    }
  }
  return text;
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
  const auto dashes = std::find(left.begin(), left.end(), "--");
  const auto options_end = left.erase(dashes, dashes == left.end() ? dashes : dashes + 1);
  if (const auto names = subcommands_of(*at); left.empty() && !names.empty())
    return fmt::format("expected a subcommand: {}; see `{} --help`", fmt::join(names, ", "), path);
  if (left.empty()) return fmt::format("{}; see `{} --help`", argument_message(*at, error), path);
  // CLI11 leaves an unknown option with its value; name the option. After "--" there is none.
  auto option = std::find_if(left.begin(), options_end, [](auto& w) { return w.starts_with("-"); });
  if (option != options_end) {
    std::string word = option->substr(0, option->find('='));
    for (const CLI::Option* each : at->get_options())
      for (const std::string& name : each->get_lnames()) known.push_back("--" + name);
    const auto options = at->get_options();
    const bool takes_arguments = std::any_of(options.begin(), options.end(),
                                             [](auto* each) { return each->get_positional(); });
    const std::string here = elsewhere(word);
    return fmt::format(
        "unknown option {}{}; see `{} --help`{}", printable(word),
        here.empty() ? did_you_mean(word, known) : here, path,
        takes_arguments && here.empty() ? " (after --, arguments may begin with -)" : "");
  }
  known = subcommands_of(*at);
  if (known.empty())
    return fmt::format("unexpected argument {}{}; see `{} --help`", printable(left[0]),
                       elsewhere(path, kArguments), path);
  std::string here = elsewhere(left[0]);
  if (here.empty()) here = did_you_mean(left[0], known);
  if (here.empty() && at != &program)
    here = fmt::format("; expected one of {}", fmt::join(known, ", "));
  return fmt::format("unknown subcommand {}{}; see `{} --help`", printable(left[0]), here, path);
}

int run(int argc, char** argv) {
  using namespace ridge;
  CLI::App program{
      "Ridge trains and runs Llama, Mistral, Qwen 2 and 3 and Gemma 3 models, and accounts for\n"
      "every microsecond and byte. A model is one graph: gradients, optimization passes, costs,\n"
      "memory plans, measurements and reports all work on it.\n\n"
      "  train:    train, data, tokenizer, and lab, which compares the levels of optimization\n"
      "  run:      generate, serve, perplexity, logits, and infer-lab, which measures both phases\n"
      "  files:    inspect, convert\n"
      "  predict:  plan, explain, machine\n"
      "  measure:  bench, study, tune, demo\n"
      "  look:     report, diff, import\n"};
  program.name("ridge");
  program.formatter(std::make_shared<HelpFormatter>());  // subcommands take it over
  program.require_subcommand(1);
  program.set_version_flag("--version", apps::kProgram);
  program.footer(
      "After --, arguments may begin with -, as in ridge generate model.gguf -- \"--help means\".\n"
      "Exit codes: 0 success, 1 runtime failure, 2 usage error, 3 bad model or data file,\n"
      "4 out of memory, 5 device error; 129, 130 and 143 ended by SIGHUP, Ctrl-C and SIGTERM.\n"
      "Start with: ridge lab --preset tiny");
#ifdef RIDGE_COURSES
  courses::add_to_program();
#endif
  apps::AppContext context{apps::terminal_options_from_environment(), command_line(argc, argv)};
  for (apps::Register add :
       {apps::register_lab,        apps::register_infer_lab, apps::register_train,
        apps::register_generate,   apps::register_serve,     apps::register_logits,
        apps::register_perplexity, apps::register_explain,   apps::register_bench,
#ifdef RIDGE_COURSES
        apps::register_demo,
#endif
        apps::register_study,      apps::register_tune,      apps::register_diff,
        apps::register_report,     apps::register_import,    apps::register_machine,
        apps::register_plan,       apps::register_data,      apps::register_inspect,
        apps::register_convert,    apps::register_tokenizer})
    add(apps::Command(&program), context);
  try {
    std::vector<std::string> given = arguments(argc, argv);
    use_present_names(program, given);
    program.parse(given);
  } catch (const CLI::ParseError& error) {
    if (dynamic_cast<const CLI::CallForHelp*>(&error) != nullptr) {
      fmt::print("{}", fitted_help(program.help(), context.terminal.columns));
      return 0;
    }
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
  std::string text = "ridge: " + ridge::terminal_safe(message, ridge::kLongestMessage) + "\n";
  const ridge::report::TerminalOptions terminal = ridge::apps::terminal_options_from_environment();
  if (terminal.progress)
    text = ridge::report::wrap_lines(text, terminal.columns);  // stderr is a terminal
  // fmt::print would throw if stderr is closed, and the exit code would be lost.
  std::fputs(text.c_str(), stderr);
  return static_cast<int>(code);
}

// Destructors of JSON values allocate, and what they throw while an exception is under way ends the
// program. So the first allocation that fails gives them some memory before it throws.
std::atomic<char*> spare_memory = nullptr;

void keep_spare_memory() {
  constexpr size_t kSpareBytes = size_t{1} << 20;  // addresses: no page is touched
  spare_memory = new (std::nothrow) char[kSpareBytes];
  std::set_new_handler([] {
    delete[] spare_memory.exchange(nullptr);
    throw std::bad_alloc();
  });
}

}  // namespace

int main(int argc, char** argv) {
  keep_spare_memory();
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // in step with stderr, in a file too
  ridge::apps::limit_spinning(argv);
  try {
    ridge::files::end_cleanly_on_signals();
    return run(argc, argv);
  } catch (const ridge::Error& error) {
    return report(error.what(), error.code());
  } catch (const std::system_error& error) {
    // For example a full disk behind stdout, a closed pipe, or a folder that was removed.
    const std::string lost = "[stdout] cannot write the output: " + error.code().message();
    return report(std::ferror(stdout) != 0 ? lost : error.what(), ridge::ExitCode::kRuntime);
  } catch (const std::bad_alloc&) {
    return report("out of memory", ridge::ExitCode::kOutOfMemory);
  } catch (const std::exception& error) {
    return report(fmt::format("internal error: {}", error.what()), ridge::ExitCode::kRuntime);
  }
}
