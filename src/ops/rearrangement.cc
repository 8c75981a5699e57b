// SPDX-License-Identifier: Apache-2.0
// Parses einops' notation and finds the axes that move together.
#include "ops/rearrangement.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <string>

#include "base/error.h"
#include "base/printable.h"

namespace ridge::ops {
namespace {

constexpr const char* kDots = "...";
constexpr size_t kMostAxes = 64;

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// The axes of one side; each is a group of names, an empty one has extent 1.
using Side = std::vector<std::vector<std::string>>;

class Parser {
 public:
  Parser(std::string_view pattern, std::string_view side) : pattern_(pattern), side_(side) {}

  Side parse() {
    Side axes;
    bool in_group = false;
    while (at_ < side_.size()) {
      const char c = side_[at_];
      if (c == ' ') {
        ++at_;
      } else if (c == '(' && !in_group) {
        in_group = true;
        axes.emplace_back();
        ++at_;
      } else if (c == ')' && in_group) {
        in_group = false;
        ++at_;
      } else if (side_.substr(at_, 3) == kDots && !in_group) {
        add(kDots);
        axes.push_back({kDots});
        at_ += 3;
      } else if (is_word(c)) {
        const std::string name = word();
        if (!in_group) axes.emplace_back();
        if (name == "1") continue;  // an axis of 1
        if (name[0] >= '0' && name[0] <= '9') fail("names and 1 as axes");
        add(name);
        axes.back().push_back(name);
      } else {
        fail("names, groups in ( ) and one ...");
      }
    }
    if (in_group) fail("a closing )");
    return axes;
  }
  const std::set<std::string>& names() const { return names_; }

 private:
  [[noreturn]] void fail(const char* expected) const {
    throw usage_error("[rearrange] expected {} in {}", expected, printable(pattern_));
  }
  void add(const std::string& name) {
    if (!names_.insert(name).second)
      throw usage_error("[rearrange] {} stands twice on one side of {}", name, printable(pattern_));
    if (names_.size() > kMostAxes) fail("fewer axes");
  }
  std::string word() {
    const size_t begin = at_;
    while (at_ < side_.size() && is_word(side_[at_])) ++at_;
    return std::string(side_.substr(begin, at_ - begin));
  }

  std::string_view pattern_, side_;
  size_t at_ = 0;
  std::set<std::string> names_;
};

using Sizes = std::map<std::string, int64_t>;

Sizes parse_sizes(std::string_view text) {
  Sizes sizes;
  for (size_t at = 0; at < text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const std::string_view item = text.substr(at, comma - at);
    at = comma + 1;
    const size_t equals = item.find('=');
    int64_t size = 0;
    const std::string_view digits = equals == std::string_view::npos ? "" : item.substr(equals + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), size);
    if (error != std::errc() || end != digits.data() + digits.size() || size < 1)
      throw usage_error("[rearrange] expected sizes such as h=8,e=64, got {}", printable(text));
    if (!sizes.emplace(std::string(item.substr(0, equals)), size).second)
      throw usage_error("[rearrange] expected one size of each axis, got {}", printable(text));
  }
  return sizes;
}

// Replaces the dots of both sides by names of their axes, which no word can be.
void open_dots(Side& side, int64_t count) {
  auto dots = std::find(side.begin(), side.end(), std::vector<std::string>{kDots});
  if (dots == side.end()) return;
  Side axes;
  for (int64_t i = 0; i < count; ++i) axes.push_back({fmt::format("...{}", i)});
  dots = side.erase(dots);
  side.insert(dots, axes.begin(), axes.end());
}

// The size of every name, from the operand's shape.
Sizes extents_of(std::string_view pattern, const Side& from, const Shape& shape, Sizes sizes) {
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const std::vector<std::string>& names = from[static_cast<size_t>(axis)];
    int64_t known = 1;
    std::string missing;
    for (const std::string& name : names) {
      const auto found = sizes.find(name);
      if (found != sizes.end())
        known = checked_product(known, found->second, "rearrange");
      else if (missing.empty())
        missing = name;
      else
        throw usage_error("[rearrange] expected the size of {} or {} of {}", missing, name,
                          printable(pattern));
    }
    if (!missing.empty() && known > 0 && shape[axis] % known == 0) {
      sizes[missing] = shape[axis] / known;
      known = shape[axis];
    }
    if (known != shape[axis])
      throw usage_error("[rearrange] axis {} of {} is not the product of its parts in {}", axis,
                        shape.str(), printable(pattern));
  }
  return sizes;
}

std::vector<std::string> flat(const Side& side) {
  std::vector<std::string> names;
  for (const auto& group : side) names.insert(names.end(), group.begin(), group.end());
  return names;
}

int64_t product(const std::vector<std::string>& names, const Sizes& sizes) {
  int64_t extent = 1;
  for (const std::string& name : names)
    extent = checked_product(extent, sizes.at(name), "rearrange");
  return extent;
}

}  // namespace

Rearrangement parse_rearrangement(std::string_view pattern,
                                  std::string_view size_text,
                                  const Shape& shape) {
  const size_t arrow = pattern.find("->");
  if (arrow == std::string_view::npos)
    throw usage_error("[rearrange] expected 'axes -> axes', got {}", printable(pattern));
  Parser left(pattern, pattern.substr(0, arrow)), right(pattern, pattern.substr(arrow + 2));
  Side from = left.parse(), to = right.parse();
  if (left.names() != right.names())
    throw usage_error("[rearrange] expected the same axes on both sides of {}", printable(pattern));
  Sizes sizes = parse_sizes(size_text);
  for (const auto& [name, size] : sizes)
    if (!left.names().contains(name))
      throw usage_error("[rearrange] {} is no axis of {}", printable(name), printable(pattern));
  const bool has_dots = left.names().contains(kDots);
  const int64_t dots = shape.rank() - static_cast<int64_t>(from.size()) + (has_dots ? 1 : 0);
  if (dots < 0 || (!has_dots && dots != 0))
    throw usage_error("[rearrange] {} names {} axes, the operand is {}", printable(pattern),
                      from.size() - (has_dots ? 1 : 0), shape.str());
  open_dots(from, dots);
  open_dots(to, dots);
  sizes = extents_of(pattern, from, shape, std::move(sizes));
  // Runs of names that follow one another on both sides are one axis in between.
  const std::vector<std::string> before = flat(from), after = flat(to);
  std::map<std::string, size_t> place;
  for (size_t i = 0; i < after.size(); ++i) place[after[i]] = i;
  std::vector<std::pair<size_t, int64_t>> runs;  // where the run goes, and its extent
  for (size_t i = 0; i < before.size(); ++i) {
    const bool continues = i > 0 && place[before[i]] == place[before[i - 1]] + 1;
    if (!continues) runs.emplace_back(place[before[i]], 1);
    runs.back().second = checked_product(runs.back().second, sizes[before[i]], "rearrange");
  }
  if (runs.size() > static_cast<size_t>(kMaxRank))
    throw usage_error("[rearrange] expected at most {} axes that move, got {} in {}", kMaxRank,
                      runs.size(), printable(pattern));
  Rearrangement made;
  std::vector<int64_t> split, merged;
  for (const auto& run : runs) split.push_back(run.second);
  for (size_t i = 0; i < runs.size(); ++i) made.permutation.push_back(static_cast<int64_t>(i));
  std::sort(made.permutation.begin(), made.permutation.end(), [&](int64_t a, int64_t b) {
    return runs[static_cast<size_t>(a)].first < runs[static_cast<size_t>(b)].first;
  });
  for (const auto& group : to) merged.push_back(product(group, sizes));
  if (merged.size() > static_cast<size_t>(kMaxRank))
    throw usage_error("[rearrange] expected at most {} axes in the result of {}", kMaxRank,
                      printable(pattern));
  made.split = Shape(split);
  made.merged = Shape(merged);
  return made;
}

}  // namespace ridge::ops
