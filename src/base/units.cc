// SPDX-License-Identifier: Apache-2.0
// Unit formatting.
#include "base/units.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/printable.h"

namespace ridge {
inline namespace base {
namespace {

// Three significant digits without an exponent: 1.23, 12.3, 123.
std::string three_digits(double value) {
  double size = std::abs(value);
  if (size != 0 && size < 9.995) return fmt::format("{:.2f}", value);
  if (size < 99.95) return fmt::format("{:.1f}", value);
  return fmt::format("{:.0f}", value);
}

constexpr std::array kDecimal = {"", "k", "M", "G", "T", "P", "E"};

// The value scaled below 1000 and its prefix.
std::pair<double, const char*> scale_decimal(double value) {
  size_t i = 0;
  while (std::abs(value) >= 999.5 && i + 1 < kDecimal.size()) {
    value /= 1000;
    ++i;
  }
  return {value, kDecimal[i]};
}

}  // namespace

std::string format_bytes(int64_t bytes) {
  constexpr std::array kBinary = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes);
  size_t i = 0;
  while (std::abs(value) >= 1023.5 && i + 1 < kBinary.size()) {
    value /= 1024;
    ++i;
  }
  return i == 0 ? fmt::format("{} B", bytes)
                : fmt::format("{} {}", three_digits(value), kBinary[i]);
}

int64_t parse_bytes(const std::string& text, std::string_view option) {
  constexpr std::string_view kPrefixes = "KMGT";
  const auto refuse = [&] {
    return usage_error("[{}] expected a number of bytes such as 4GiB, 500MB or 1000000, got {}",
                       option, printable(text));
  };
  double value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string_view unit = std::string_view(text).substr(static_cast<size_t>(end - text.data()));
  if (fault != std::errc() || !(value >= 0)) throw refuse();
  if (unit.starts_with(' ')) unit.remove_prefix(1);
  const size_t power = unit.empty() ? std::string_view::npos : kPrefixes.find(unit[0]);
  if (power != std::string_view::npos) {
    unit.remove_prefix(1);
    const bool is_binary = unit.starts_with('i');
    if (is_binary) unit.remove_prefix(1);
    value *= std::pow(is_binary ? 1024.0 : 1000.0, static_cast<double>(power + 1));
  }
  if (unit != "" && unit != "B") throw refuse();
  if (!(value <= 9e18)) throw refuse();
  return static_cast<int64_t>(value);
}

double parse_budget_ns(const std::string& text, std::string_view option) {
  constexpr double kMostBudget = 24 * 3600;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string unit(end, text.data() + text.size() - end);
  const double seconds = unit == "m" ? 60 * value : value;
  if (error != std::errc() || (unit != "" && unit != "s" && unit != "m") ||
      !(seconds > 0 && seconds <= kMostBudget))
    throw usage_error("[{}] expected a time such as 60s or 2m, above 0 and at most a day, got {}",
                      option, printable(text));
  return 1e9 * seconds;
}

std::string format_count(double count) {
  auto [value, prefix] = scale_decimal(count);
  if (*prefix == '\0') return three_digits(value);
  return fmt::format("{} {}", three_digits(value), prefix);
}

std::string format_rate(double per_second, const char* unit) {
  auto [value, prefix] = scale_decimal(per_second);
  return fmt::format("{} {}{}", three_digits(value), prefix, unit);
}

std::string format_ns(double ns) {
  double size = std::abs(ns);
  if (size < 999.5) return fmt::format("{} ns", three_digits(ns));
  if (size < 999.5e3) return fmt::format("{} us", three_digits(ns / 1e3));
  if (size < 999.5e6) return fmt::format("{} ms", three_digits(ns / 1e6));
  if (size < 180e9) return fmt::format("{} s", three_digits(ns / 1e9));
  if (size < 180 * 60e9) return fmt::format("{} min", three_digits(ns / 60e9));
  if (size < 72 * 3600e9) return fmt::format("{} h", three_digits(ns / 3600e9));
  return fmt::format("{} days", three_digits(ns / 86400e9));
}

std::string format_integer(int64_t value) {
  std::string digits = std::to_string(value);
  size_t sign = value < 0 ? 1 : 0;
  for (size_t at = digits.size(); at > 3 + sign;) digits.insert(at -= 3, ",");
  return digits;
}

std::string counted(int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", format_integer(count), noun, count == 1 ? "" : "s");
}

}  // namespace base
}  // namespace ridge
