// SPDX-License-Identifier: Apache-2.0
// A subcommand's options: their names, targets and help. The classes are handles; only command.cc
// and main.cc include CLI11, whose headers take seconds to compile.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "report/terminal.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace ridge::apps {

// All subcommands write to the terminal in these terms.
using report::Align;
using report::Colour;
using report::paint;
using report::Progress;
using report::Table;
using report::TerminalOptions;
using report::wrap_lines;

class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option required();
  Option excludes(Option other);  // the two cannot be given together
  Option numbers();               // the help shows that the text is a list of numbers
  Option one_value();             // a list takes one value each time its name is given
  Option may_be_empty();          // "" is a text; for other options it is a usage error
  bool given() const;             // after parsing

 private:
  CLI::Option* option_;
};

// A mode of a subcommand, and the options that have no effect in it.
struct Mode {
  bool is_chosen = false;
  std::string name;                      // "without --chat"
  std::vector<std::string> unused = {};  // names as in "--system"; or
  std::vector<std::string> used = {};    // the only options that have an effect
};

// Targets must live until the subcommand has run. Only main.cc creates a Command that is not a
// subcommand.
class Command {
 public:
  explicit Command(CLI::App* app, std::string heading = "")
      : app_(app), heading_(std::move(heading)) {}

  Command add_subcommand(const std::string& name, const std::string& summary);
  void require_subcommand();  // a usage error without one
  // The same command; the help lists options added through it under this heading.
  Command under(std::string heading) const { return Command(app_, std::move(heading)); }
  // `names` is "-n,--tokens", or "MODEL" for a positional argument. The help shows the target's
  // value, unless its text names a default, the value is empty or the option is required.
  // command.cc lists the types T.
  template <class T>
  Option add_option(const std::string& names, T& target, const std::string& help);
  Option add_flag(const std::string& names, bool& target, const std::string& help);
  Option add_json_flag(bool& target);
  // --verbose: the whole output instead of one screen.
  Option add_verbose_flag(bool& target);
  void footer(const std::string& text);
  void callback(std::function<void()> run);  // when the subcommand was chosen
  bool given(const std::string& option) const;
  // After parsing: throws a usage Error if an option was given that has no effect in a chosen mode.
  void refuse_unused(const std::vector<Mode>& modes) const;

 private:
  CLI::App* app_;
  std::string heading_;  // empty: CLI11's "Options"
};

}  // namespace ridge::apps
