// SPDX-License-Identifier: Apache-2.0
// Typed attributes of a node: a small map from name to value that never changes between runs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace ridge::inline graph {

class Graph;

// A nested graph (the program of a generated cluster) is shared: copies of a node point to the same
// one.
using NestedGraph = std::shared_ptr<const Graph>;
using AttrValue =
    std::variant<int64_t, double, bool, std::string, std::vector<int64_t>, NestedGraph>;

class Attrs {
 public:
  Attrs() = default;
  Attrs(std::initializer_list<std::pair<std::string, AttrValue>> attrs);

  void set(std::string name, AttrValue value);
  const AttrValue* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }

  // The value of a required attribute; RIDGE_CHECKs its presence and type (the verifier rejects any
  // other).
  int64_t integer(std::string_view name) const { return get<int64_t>(name); }
  double real(std::string_view name) const { return get<double>(name); }
  bool flag(std::string_view name) const;  // absent = false
  const std::string& text(std::string_view name) const { return get<std::string>(name); }
  const std::vector<int64_t>& integers(std::string_view name) const {
    return get<std::vector<int64_t>>(name);
  }
  const Graph& nested(std::string_view name) const { return *get<NestedGraph>(name); }

  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  bool operator==(const Attrs& other) const;

 private:
  template <typename T>
  const T& get(std::string_view name) const;

  std::vector<std::pair<std::string, AttrValue>> entries_;  // sorted by name
};

}  // namespace ridge::inline graph
