// SPDX-License-Identifier: Apache-2.0
// Implements a subcommand's options with CLI11. Not a subcommand.
#include "apps/command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "base/printable.h"
#include "report/terminal.h"

namespace ridge::apps {
namespace {

// CLI11 indents the lines of a help text but does not break them.
std::string help_lines(const std::string& help) {
  constexpr int kColumns = 70;  // the options' names have the first 30
  std::string lines = wrap_lines(help, kColumns);
  if (!lines.empty()) lines.pop_back();
  return lines;
}

// Checks the text of a number and rewrites it in plain decimal: CLI11 would read 010 as octal, wrap
// -1 to a large unsigned number and cut a number that is too large. Some options are lists in one
// subcommand and single numbers in another.
template <class T>
std::string read_number(std::string& text) {
  if (text.find(',') != std::string::npos)
    return fmt::format("expected one number, got the list {}", printable(text));
  T number{};
  const std::string_view digits = std::string_view(text).substr(text.starts_with('+') ? 1 : 0);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool is_whole = end == digits.data() + digits.size();
  if constexpr (std::is_integral_v<T>) {
    if (is_whole && error == std::errc::result_out_of_range)
      return digits.starts_with('-') ? fmt::format("expected at least {}, got {}",
                                                   std::numeric_limits<T>::min(), printable(text))
                                     : fmt::format("expected at most {}, got {}",
                                                   std::numeric_limits<T>::max(), printable(text));
    if (!is_whole || error != std::errc())
      return fmt::format("expected a whole number{}, got {}",
                         std::is_unsigned_v<T> ? " from 0 on" : "", printable(text));
    text = fmt::to_string(number);
  } else {
    if (!is_whole || error != std::errc())
      return fmt::format("expected a number, got {}", printable(text));
    text = digits;
  }
  return "";
}

template <class T>
struct NumberOf {
  using Type = T;
};
template <class T>
struct NumberOf<std::optional<T>> {
  using Type = T;
};

constexpr const char* kNotEmpty = "not empty";

std::string refuse_empty(std::string& text) {
  return text.empty() ? "expected a text, got an empty one" : "";
}

}  // namespace

Option Option::required() {
  option_->required()->default_str("");
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

Option Option::may_be_empty() {
  option_->get_validator(kNotEmpty)->active(false);
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
  using Number = typename NumberOf<T>::Type;
  if constexpr (std::is_arithmetic_v<Number>)
    option->transform(CLI::Validator(read_number<Number>, "", ""));
  else
    option->check(CLI::Validator(refuse_empty, "", kNotEmpty));
  if (help.find("default") == std::string::npos) option->capture_default_str();
  if (option->get_default_str() == "[]") option->default_str("");  // an empty list
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
template Option Command::add_option(const std::string&, std::optional<double>&, const std::string&);
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

Option Command::add_verbose_flag(bool& target) {
  return add_flag("--verbose", target, "print all tables and notes, not only what fits a screen");
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
