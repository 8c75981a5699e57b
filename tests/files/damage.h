// SPDX-License-Identifier: Apache-2.0
// Seeded damage to valid files, and the check that a damaged file is read or refused. Works for the
// parsers of any room and, from outside, for the program. No tests.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/printable.h"
#include "base/random.h"

namespace ridge::files {

// A place in a JSON document.
using JsonPlace = nlohmann::json::json_pointer;

// The document as text with `text`, which need not be JSON, in place of the value at `at`.
inline std::string with_text(nlohmann::json document, const JsonPlace& at, std::string_view text) {
  constexpr std::string_view kMark = "\"@here@\"";
  document[at] = "@here@";
  std::string whole = document.dump();
  return whole.replace(whole.find(kMark), kMark.size(), text);
}

// Whether `read` succeeds. A failure must be a bad-file Error of one short line that is harmless on
// a terminal; anything else fails the test. `what` describes the damage.
inline bool reads_or_refuses(const std::function<void()>& read, const std::string& what) {
  try {
    read();
    return true;
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(error.code(), ExitCode::kBadFile) << what << ": " << message;
    EXPECT_LT(message.size(), kLongestMessage) << what << ": " << message.substr(0, 200);
    EXPECT_EQ(message, terminal_safe(message, kLongestMessage)) << what;
  } catch (const std::exception& error) {
    ADD_FAILURE() << what << ": " << error.what();
  }
  return false;
}

struct Outcomes {
  int read = 0;
  int refused = 0;
  void add(bool fine) { ++(fine ? read : refused); }
};

// One case of damage, determined by its seed.
class Damage {
 public:
  explicit Damage(uint32_t seed) : random_(seed) {}

  // The text with bytes flipped or overwritten, a part cut off, left out, repeated or moved.
  std::string bytes(std::string text) {
    if (text.empty()) return text;
    const size_t at = below(text.size()),
                 size = 1 + below(std::min(text.size() - at, kLongestPart));
    const std::string part = text.substr(at, size);
    switch (below(6)) {
      case 0:
        for (size_t left = 1 + below(16); left > 0; --left)
          text[below(text.size())] ^= static_cast<char>(1 << below(8));
        return text;
      case 1:
        return text.substr(0, at);
      case 2:
        return text.erase(at, size);
      case 3:
        return text.insert(below(text.size()), part);
      case 4:
        return text.erase(at, size).insert(below(text.size() + 1), part);
      default:
        return text.replace(at, size, size, below(2) == 0 ? '\0' : '\xff');
    }
  }

  // The document as text with one value of another type, of an extreme size, deeply nested, often
  // repeated, under a hostile key, exchanged for another one or deleted.
  std::string document(const nlohmann::json& good) {
    const JsonPlace at = any_place(good), other = any_place(good);
    nlohmann::json bad = good;
    switch (at.empty() ? below(3) : below(8)) {
      case 0:
        return with_text(bad, at, any_of(kOthers));
      case 1:
        return with_text(bad, at, nested(good[at].dump(), size_t{1} << below(18)));
      case 2:
        return with_text(bad, at, '"' + repeated(any_of(kPieces), size_t{1} << below(19)) + '"');
      case 3:
        return with_text(bad, at, repeated_value(good, at));
      case 4:
        bad[at] = good[other];
        return bad.dump();
      case 5:
        return with_text(bad, at, any_of(kNumbers));
      case 6:
        if (nlohmann::json& parent = bad[at.parent_pointer()]; parent.is_object()) {
          parent[repeated(any_of(kHostileKeys), 1 + below(4000))] = good[at];
          parent.erase(at.back());
          return bad.dump();
        }
        [[fallthrough]];
      default:
        if (nlohmann::json& parent = bad[at.parent_pointer()]; parent.is_object())
          parent.erase(at.back());
        else
          parent.erase(std::stoul(at.back()));
        return bad.dump();
    }
  }

 private:
  static constexpr size_t kLongestPart = 4096;
  static constexpr std::string_view kOthers[] = {"null",  "true", "0",    "-7", "1.5",      "\"\"",
                                                 "\"7\"", "[]",   "[[]]", "{}", "{\"a\":1}"};
  static constexpr std::string_view kNumbers[] = {
      "-1",    "0",      "1",      "2147483648", "4611686018427387904",       "9223372036854775808",
      "1e308", "-1e308", "1e-320", "1e999",      "99999999999999999999999999"};
  static constexpr std::string_view kPieces[] = {
      "a", "\xE2\x96\x81", "\\u001b[2J", "\xE2\x80\xAE", "\\u0000", "\\n", "<0x0A>"};
  static constexpr std::string_view kHostileKeys[] = {"k", "\x1b[2J", "\xE2\x80\xAE", "/~", "\n"};

  size_t below(size_t bound) { return random_.below(static_cast<uint32_t>(bound)); }
  template <size_t N>
  std::string any_of(const std::string_view (&choices)[N]) {
    return std::string(choices[below(N)]);
  }

  // Goes down from the root and stops at each level with a chance of one in five.
  JsonPlace any_place(const nlohmann::json& document) {
    JsonPlace at;
    const nlohmann::json* value = &document;
    while (value->is_structured() && !value->empty() && below(5) > 0) {
      auto child = std::next(value->begin(), static_cast<std::ptrdiff_t>(below(value->size())));
      if (value->is_array())
        at /= static_cast<size_t>(child - value->begin());
      else
        at /= child.key();
      value = &*child;
    }
    return at;
  }

  static std::string repeated(std::string_view piece, size_t times) {
    std::string all;
    while (times-- > 0) all += piece;
    return all;
  }
  static std::string nested(const std::string& value, size_t levels) {
    return std::string(levels, '[') + value + std::string(levels, ']');
  }
  // A key twice, or an element of a list many times.
  std::string repeated_value(const nlohmann::json& good, const JsonPlace& at) {
    constexpr size_t kMostBytes = size_t{8} << 20;
    const std::string value = good[at].dump();
    if (good[at.parent_pointer()].is_object())
      return value + ',' + nlohmann::json(at.back()).dump() + ':' + value;
    const size_t times = std::min(size_t{1} << below(16), kMostBytes / value.size());
    return value + repeated("," + value, times);
  }

  Random random_;
};

// Reads `rounds` damaged versions of a valid file: every other one with damaged bytes, the rest
// with damaged values if the file is JSON.
inline Outcomes read_damaged(const std::string& good,
                             const std::function<void(const std::string&)>& read,
                             int rounds) {
  EXPECT_TRUE(reads_or_refuses([&] { read(good); }, "undamaged"));
  const nlohmann::json document = nlohmann::json::parse(good, nullptr, false);
  Outcomes outcomes;
  for (int seed = 0; seed < rounds; ++seed) {
    Damage damage(static_cast<uint32_t>(seed));
    const bool as_bytes = document.is_discarded() || seed % 2 == 0;
    const std::string bad = as_bytes ? damage.bytes(good) : damage.document(document);
    outcomes.add(reads_or_refuses([&] { read(bad); }, fmt::format("damage of seed {}", seed)));
  }
  return outcomes;
}

}  // namespace ridge::files
