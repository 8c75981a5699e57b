// SPDX-License-Identifier: Apache-2.0
// Implements a subcommand's options with CLI11. Not a subcommand.
#include "apps/command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "base/printable.h"
#include "base/terminal.h"

namespace ridge::apps {
namespace {

// CLI11 indents the lines of a help text but does not break them.
std::string help_lines(const std::string& help) {
  constexpr int kColumns = 70;  // the options' names have the first 30
  std::string lines = wrap_lines(help, kColumns);
  if (!lines.empty()) lines.pop_back();
  return lines;
}

// Some options are lists in one subcommand and single numbers in another.
std::string refuse_list(const std::string& text) {
  return text.find(',') == std::string::npos
             ? ""
             : fmt::format("expected one number, got the list {}", printable(text));
}

}  // namespace

Option Option::required() {
  option_->required();
  return *this;
}

Option Option::show_default() {
  option_->capture_default_str();
  return *this;
}

Option Option::excludes(Option other) {
  option_->excludes(other.option_);
  return *this;
}

Option Option::numbers() {
  option_->type_name("INT,...");
  return *this;
}

Option Option::one_value() {
  option_->allow_extra_args(false);
  return *this;
}

bool Option::given() const { return option_->count() > 0; }

Command Command::add_subcommand(const std::string& name, const std::string& summary) {
  return Command(app_->add_subcommand(name, summary));
}

void Command::require_subcommand() { app_->require_subcommand(1); }

template <class T>
Option Command::add_option(const std::string& names, T& target, const std::string& help) {
  CLI::Option* option = app_->add_option(names, target, help_lines(help));
  if constexpr (std::is_arithmetic_v<T>) option->check(refuse_list);
  if (!heading_.empty()) option->group(heading_);
  return Option(option);
}

template Option Command::add_option(const std::string&, double&, const std::string&);
template Option Command::add_option(const std::string&, float&, const std::string&);
template Option Command::add_option(const std::string&, int&, const std::string&);
template Option Command::add_option(const std::string&, int64_t&, const std::string&);
template Option Command::add_option(const std::string&, uint64_t&, const std::string&);
template Option Command::add_option(const std::string&, std::string&, const std::string&);
template Option Command::add_option(const std::string&,
                                    std::optional<std::string>&,
                                    const std::string&);
template Option Command::add_option(const std::string&,
                                    std::optional<int64_t>&,
                                    const std::string&);
template Option Command::add_option(const std::string&, std::vector<int64_t>&, const std::string&);
template Option Command::add_option(const std::string&,
                                    std::vector<std::string>&,
                                    const std::string&);

Option Command::add_flag(const std::string& names, bool& target, const std::string& help) {
  CLI::Option* option = app_->add_flag(names, target, help_lines(help));
  if (!heading_.empty()) option->group(heading_);
  return Option(option);
}

Option Command::add_json_flag(bool& target) {
  return add_flag("--json", target, "print JSON on stdout and nothing else");
}

void Command::footer(const std::string& text) { app_->footer(text); }

void Command::callback(std::function<void()> run) { app_->callback(std::move(run)); }

void Command::refuse_unused(const std::vector<Mode>& modes) const {
  for (const Mode& mode : modes) {
    if (!mode.is_chosen) continue;
    for (const CLI::Option* option : app_->get_options()) {
      auto is_it = [&](const std::string& name) { return option->check_name(name); };
      const bool has_effect = mode.used.empty()
                                  ? std::none_of(mode.unused.begin(), mode.unused.end(), is_it)
                                  : std::any_of(mode.used.begin(), mode.used.end(), is_it);
      if (option->count() > 0 && !has_effect) {
        const std::string name = option->get_name();
        throw usage_error("[{}] {} has no effect {}", name.substr(name.find_first_not_of('-')),
                          name, mode.name);
      }
    }
  }
}

bool Command::given(const std::string& option) const { return app_->count(option) > 0; }

}  // namespace ridge::apps
