// SPDX-License-Identifier: Apache-2.0
// A subcommand's options: their names, where their values go, and their help. Handles; CLI11, whose
// headers take seconds to compile, stands behind them in command.cc and main.cc alone.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace ridge::apps {

class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option required();
  Option show_default();                  // the target's value now, in the help
  Option group(const std::string& name);  // the heading in the help under which it stands
  Option excludes(Option other);          // the two cannot be given together
  Option one_value();                     // of a list: each value needs the option's name again
  bool given() const;                     // after parsing

 private:
  CLI::Option* option_;
};

// Targets must live until the subcommand has run. Only main.cc makes one that is no subcommand's.
class Command {
 public:
  explicit Command(CLI::App* app) : app_(app) {}

  Command add_subcommand(const std::string& name, const std::string& summary);
  void require_subcommand();  // without one: a usage error
  // `names` as "-n,--tokens" or, for what has no dashes, "MODEL". command.cc lists the types T.
  template <class T>
  Option add_option(const std::string& names, T& target, const std::string& help);
  Option add_flag(const std::string& names, bool& target, const std::string& help);
  void footer(const std::string& text);
  void callback(std::function<void()> run);  // when the subcommand was chosen
  bool given(const std::string& option) const;

 private:
  CLI::App* app_;
};

}  // namespace ridge::apps
