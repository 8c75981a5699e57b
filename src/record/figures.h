// SPDX-License-Identifier: Apache-2.0
// The rows of the list of figures. A record has a function figures(see, record), which calls
// see(figure, value) or see(figure, value, Unknown) for each of its figures. The writers in
// report/json_text.h and the reader in summary_file.cc get all values by it: a new figure is a row.
#pragma once

#include <concepts>
#include <string_view>
#include <type_traits>

namespace ridge::record {

struct Figure {
  std::string_view key, unit, says;  // a key that says all has no sentence
  int since;                         // the version of a file; readers do without a later figure

  constexpr Figure(const char* k, const char* u = "", const char* sentence = "", int from = 1)
      : key(k), unit(u), says(sentence), since(from) {}
};

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
