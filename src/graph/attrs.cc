// SPDX-License-Identifier: Apache-2.0
// Attribute look-up.
#include "graph/attrs.h"

#include <algorithm>

#include "base/error.h"
#include "graph/text_form.h"

namespace ridge::inline graph {

Attrs::Attrs(std::initializer_list<std::pair<std::string, AttrValue>> attrs) {
  for (const auto& [name, value] : attrs) set(name, value);
}

void Attrs::set(std::string name, AttrValue value) {
  auto at =
      std::lower_bound(entries_.begin(), entries_.end(), name,
                       [](const auto& entry, const std::string& key) { return entry.first < key; });
  if (at != entries_.end() && at->first == name) {
    at->second = std::move(value);
  } else {
    entries_.insert(at, {std::move(name), std::move(value)});
  }
}

const AttrValue* Attrs::find(std::string_view name) const {
  for (const auto& [key, value] : entries_)
    if (key == name) return &value;
  return nullptr;
}

template <typename T>
const T& Attrs::get(std::string_view name) const {
  const AttrValue* value = find(name);
  RIDGE_CHECK(value != nullptr, "attribute '{}' is missing", name);
  const T* typed = std::get_if<T>(value);
  RIDGE_CHECK(typed != nullptr, "attribute '{}' has another type", name);
  return *typed;
}

template const int64_t& Attrs::get(std::string_view) const;
template const double& Attrs::get(std::string_view) const;
template const std::string& Attrs::get(std::string_view) const;
template const std::vector<int64_t>& Attrs::get(std::string_view) const;
template const NestedGraph& Attrs::get(std::string_view) const;

bool Attrs::flag(std::string_view name) const {
  const AttrValue* value = find(name);
  return value != nullptr && std::get<bool>(*value);
}

bool Attrs::operator==(const Attrs& other) const {
  return std::equal(begin(), end(), other.begin(), other.end(), [](const auto& a, const auto& b) {
    if (a.first != b.first || a.second.index() != b.second.index()) return false;
    if (const auto* nested = std::get_if<NestedGraph>(&a.second))
      return print(**nested) == print(*std::get<NestedGraph>(b.second));
    return a.second == b.second;
  });
}

}  // namespace ridge::inline graph
