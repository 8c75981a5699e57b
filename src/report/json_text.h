// SPDX-License-Identifier: Apache-2.0
// JSON conventions of the report files (ordered keys, two spaces of indent, invalid UTF-8 replaced)
// and the parts that several files share.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>
#include <vector>

#include "plan/planner.h"
#include "record/lab_figures.h"

namespace ridge::report {

using Json = nlohmann::ordered_json;

// Ends with a newline. Never throws for invalid UTF-8; numbers that are not finite become null.
std::string json_text(const Json& json);
// The same on one line, without a newline.
std::string json_line(const Json& json);
// All figures of a record (record/figures.h).
template <record::HasFigures R>
Json to_json(const R& record);

// The value of a figure.
Json value_json(const int64_t (&bytes)[plan::kMemoryClasses]);  // {parameters: ..., ...}
inline Json value_json(const plan::MemoryMoment& live) { return value_json(live.bytes); }
template <class T>
Json value_json(const T& value) {
  if constexpr (record::HasFigures<T>)
    return to_json(value);
  else if constexpr (std::is_enum_v<T>)
    return name(value);
  else if constexpr (requires { value.has_value(); })
    return value ? Json(*value) : Json();
  else if constexpr (requires { value.front().second; })
    return Json(Json::object_t(value.begin(), value.end()));
  else
    return value;
}
template <record::HasFigures R>
Json value_json(const std::vector<R>& list) {
  Json json = Json::array();
  for (const R& each : list) json.push_back(to_json(each));
  return json;
}

// A list with what `make` makes of each item.
template <class Items, class Make>
Json json_list(const Items& items, const Make& make) {
  Json json = Json::array();
  for (const auto& each : items) json.push_back(make(each));
  return json;
}

// Writes an unknown value as its row says.
void put(Json& json, std::string_view key, Json value, record::Unknown unknown);
template <record::HasFigures R>
Json to_json(const R& record) {
  using enum record::Unknown;
  Json json = Json::object();
  const auto see = [&](const record::Figure& f, const auto& value, record::Unknown u = kWritten) {
    put(json, f.key, value_json(value), u);
  };
  figures(see, record);
  return json;
}

// A choice of figures: "key", "name=key" where a file has another name for it, "key:format" in CSV.
struct Choice {
  std::string name, key, format;
};
std::vector<Choice> choices(std::string_view keys);  // with a space between two
// Adds the chosen ones of `figures` in the order of the choice.
void add(Json& json, const Json& figures, std::string_view keys);
template <record::HasFigures R>
Json to_json(const R& record, std::string_view keys) {
  Json json = Json::object();
  add(json, to_json(record), keys);
  return json;
}

// The first figures of each file, and the roofs of a roofline.
inline Json heading(const record::LabRecord& lab) { return to_json(record::LabHeading{lab}); }
inline Json roofs_json(const cost::Ceilings& ceilings) { return to_json(record::Roofs{ceilings}); }

// One sentence with medians per step, beside the planned bytes, or why there are none; empty if
// nothing was to be counted.
std::string hardware_note(const record::RunRecord& run);

}  // namespace ridge::report
