// SPDX-License-Identifier: Apache-2.0
// Parses extents and sweeps.
#include "bench/extents.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "base/error.h"
#include "base/nearest_name.h"
#include "base/printable.h"
#include "base/split.h"

namespace ridge::bench {
namespace {

int64_t parse_extent(std::string_view text, std::string_view option) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_whole = end == text.data() + text.size();
  if (error == std::errc::result_out_of_range && is_whole)
    throw usage_error("[{}] expected extents from 1 to {}, got {}", option, kMostExtent,
                      printable(text));
  if (error != std::errc() || !is_whole)
    throw usage_error("[{}] expected a whole number, got {}", option, printable(text));
  if (value < 1 || value > kMostExtent)
    throw usage_error("[{}] expected extents from 1 to {}, got {}", option, kMostExtent, value);
  return value;
}

void check_letters(const std::vector<std::string>& letters, std::string_view option) {
  for (const std::string& letter : letters)
    if (letter.empty() || letter.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") != letter.npos)
      throw usage_error("[{}] expected letters such as n=1024,k=512, got {}", option,
                        printable(letter));
}

void expect_few(int64_t count, std::string_view option) {
  if (count > kMostPoints)
    throw usage_error("[{}] expected at most {} points, got {}", option, kMostPoints, count);
}

void append(std::vector<int64_t>& values, int64_t value, std::string_view option) {
  values.push_back(value);
  expect_few(std::ssize(values), option);
}

// "64", "1:9", "1:9+2" or "256:4096*2"
void append_values(std::vector<int64_t>& values, const std::string& text, std::string_view option) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos) return append(values, parse_extent(text, option), option);
  const size_t sign = text.find_first_of("*+", colon);
  const int64_t from = parse_extent(std::string_view(text).substr(0, colon), option);
  const int64_t to = parse_extent(
      std::string_view(text).substr(colon + 1, sign == text.npos ? sign : sign - colon - 1),
      option);
  const int64_t step =
      sign == text.npos ? 1 : parse_extent(std::string_view(text).substr(sign + 1), option);
  if (from > to)
    throw usage_error("[{}] expected a range from small to large, got {}", option, printable(text));
  if (sign != text.npos && text[sign] == '*') {
    if (step < 2)
      throw usage_error("[{}] expected a factor of at least 2, got {}", option, printable(text));
    for (int64_t at = from; at <= to; at *= step) {
      append(values, at, option);
      if (at > to / step) break;
    }
    return;
  }
  expect_few((to - from) / step + 1, option);
  for (int64_t at = from; at <= to; at += step) append(values, at, option);
}

}  // namespace

record::Extents parse_extents(const std::string& text, std::string_view option) {
  record::Extents extents;
  for (const std::string& item : split(text, ',')) {
    std::vector<std::string> parts = split(item, '=');
    if (parts.size() < 2)
      throw usage_error("[{}] expected letters such as n=1024,k=512, got {}", option,
                        printable(item));
    const int64_t extent = parse_extent(parts.back(), option);
    parts.pop_back();
    check_letters(parts, option);
    for (std::string& letter : parts) {
      if (record::find(extents, letter) != nullptr)
        throw usage_error("[{}] expected each letter once, got {} twice", option, letter);
      extents.emplace_back(std::move(letter), extent);
    }
  }
  return extents;
}

std::vector<Sweep> parse_sweeps(const std::string& text, std::string_view option) {
  std::vector<Sweep> sweeps;
  for (const std::string& item : split(text, ',')) {
    std::vector<std::string> parts = split(item, '=');
    if (parts.size() == 1 && sweeps.empty())
      throw usage_error("[{}] expected letters such as n=256:4096*2, got {}", option,
                        printable(item));
    const std::string values = std::move(parts.back());
    parts.pop_back();
    if (!parts.empty()) {
      check_letters(parts, option);
      sweeps.push_back({std::move(parts), {}});
    }
    append_values(sweeps.back().values, values, option);
  }
  return sweeps;
}

std::vector<record::Extents> points(const std::vector<Letter>& letters,
                                    const record::Extents& shape,
                                    const std::vector<Sweep>& sweeps) {
  std::vector<std::string> known;
  for (const Letter& each : letters) known.push_back(each.name);
  auto expect_known = [&](const std::string& letter, const char* option) {
    if (std::find(known.begin(), known.end(), letter) == known.end())
      throw usage_error("[{}] expected the letters {}, got {}{}", option, describe(letters),
                        printable(letter), did_you_mean(letter, known));
  };
  record::Extents usual;
  for (const Letter& each : letters) usual.emplace_back(each.name, each.usual);
  auto set = [](record::Extents& extents, const std::string& letter, int64_t value) {
    for (auto& [name, extent] : extents)
      if (name == letter) extent = value;
  };
  std::set<std::string> given;
  for (const auto& [letter, extent] : shape) {
    expect_known(letter, "shape");
    given.insert(letter);
    set(usual, letter, extent);
  }
  std::vector<record::Extents> all{usual};
  for (const Sweep& sweep : sweeps) {
    expect_few(checked_product(std::ssize(all), std::ssize(sweep.values), "points"), "sweep");
    for (const std::string& letter : sweep.letters) {
      expect_known(letter, "sweep");
      if (!given.insert(letter).second)
        throw usage_error("[sweep] expected each letter once in --shape and --sweep, got {} twice",
                          letter);
    }
    std::vector<record::Extents> more;
    for (const record::Extents& each : all)
      for (int64_t value : sweep.values) {
        more.push_back(each);
        for (const std::string& letter : sweep.letters) set(more.back(), letter, value);
      }
    all = std::move(more);
  }
  return all;
}

std::string swept_letter(const std::vector<Sweep>& sweeps) {
  return sweeps.size() == 1 && sweeps[0].values.size() > 1 ? sweeps[0].letters[0] : "";
}

std::string describe(const std::vector<Letter>& letters) {
  std::string text;
  for (const Letter& each : letters)
    text +=
        fmt::format("{}{} ({}, {})", text.empty() ? "" : ", ", each.name, each.meaning, each.usual);
  return text;
}

std::vector<int64_t> usual_lengths(int64_t context) {
  return context <= 128 ? std::vector<int64_t>{context}
                        : std::vector<int64_t>{128, std::min<int64_t>(512, context)};
}

}  // namespace ridge::bench
