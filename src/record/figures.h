// SPDX-License-Identifier: Apache-2.0
// The rows of the list of figures. A record has a function figures(see, record), which calls
// see(figure, value) or see(figure, value, Unknown) for each of its figures. The writers in
// report/json_text.h, the reader in summary_file.cc, the labels of report.html and the table in
// docs/figures.md get all of them by it: a new figure is a row.
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace ridge::record {

// The unit that the end of a key stands for; empty for counts, texts and lists. "share" is a ratio
// that is shown in percent, "x" a factor.
constexpr std::string_view unit_of(std::string_view key) {
  constexpr std::pair<std::string_view, std::string_view> kUnits[] = {
      {"bytes_per_s", "B/s"}, {"flops_per_s", "FLOP/s"},
      {"_per_s", "1/s"},      {"_byte", "FLOP/B"},
      {"_ns", "ns"},          {"bytes", "B"},
      {"flops", "FLOP"},      {"macs", "MAC"}};
  for (const auto& [end, unit] : kUnits)
    if (key.ends_with(end)) return unit;
  return "";
}

struct Figure {
  std::string_view key, unit, says;  // a key that says all has no sentence
  int since;                         // the version of a file; readers do without a later figure

  constexpr Figure(const char* k, const char* u = "", const char* sentence = "", int from = 1)
      : key(k), unit(*u == 0 ? unit_of(key) : u), says(sentence), since(from) {}
};

// The name of a figure in tables for people: "time" of time_ns, "FLOPs/s" of flops_per_s.
std::string label(std::string_view key);

// How writers write a figure that is 0, or a text that is empty.
enum class Unknown { kWritten, kNull, kLeftOut };

// A record that is written or read.
template <class R, class Record>
concept Of = std::same_as<std::remove_const_t<R>, Record>;

template <class R>
concept HasFigures = requires(const R& record) {
  figures([](auto&&...) {}, record);
};

}  // namespace ridge::record
