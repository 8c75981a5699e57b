// SPDX-License-Identifier: Apache-2.0
// Edit distance between names.
#include "base/nearest_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace ridge {
inline namespace base {
namespace {

constexpr size_t kMostLetters = 64;  // longer names are compared by their first letters

std::string plain(std::string_view name) {
  std::string letters;
  for (char c : name.substr(0, kMostLetters))
    if (c != '-' && c != '_')
      letters += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return letters;
}

size_t distance(const std::string& a, const std::string& b) {
  std::array<std::array<size_t, kMostLetters + 1>, kMostLetters + 1> table;
  for (size_t i = 0; i <= a.size(); ++i)
    for (size_t j = 0; j <= b.size(); ++j) {
      size_t& least = table[i][j] = std::max(i, j);
      if (i == 0 || j == 0) continue;
      bool same = a[i - 1] == b[j - 1];
      least = std::min({table[i - 1][j] + 1, table[i][j - 1] + 1, table[i - 1][j - 1] + !same});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        least = std::min(least, table[i - 2][j - 2] + 1);
    }
  return table[a.size()][b.size()];
}

}  // namespace

std::string nearest_name(std::string_view word, std::span<const std::string> names) {
  std::string found, asked = plain(word);
  size_t least = kMostLetters;
  for (const std::string& name : names) {
    std::string known = plain(name);
    size_t apart = distance(asked, known);
    if (apart >= least || 3 * apart > std::max(asked.size(), known.size())) continue;
    least = apart;
    found = name;
  }
  return found;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> names) {
  std::string name = nearest_name(word, names);
  return name.empty() ? "" : fmt::format(" (did you mean {}?)", name);
}

}  // namespace base
}  // namespace ridge
