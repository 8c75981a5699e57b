// SPDX-License-Identifier: Apache-2.0
// GGUF's metadata: a table of the location of each value in the file, and typed getters that check
// as they read. Nothing is copied until it is read, so a vocabulary of any size costs one walk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "files/byte_cursor.h"
#include "files/gguf_types.h"

namespace ridge::files {

// One value in its encoded form, already validated.
struct GgufEntry {
  GgufType type = GgufType::kU8;
  GgufType element_type = GgufType::kU8;  // an array has it
  uint64_t count = 1;                     // elements of an array
  std::span<const std::byte> payload;     // for an array: without its type and count
};

struct IntegerRange {
  int64_t min = std::numeric_limits<int64_t>::min();
  int64_t max = std::numeric_limits<int64_t>::max();
};

class GgufMetadata {
 public:
  explicit GgufMetadata(std::string source = {}) : source_(std::move(source)) {}

  // Reads one key and value at the cursor; duplicate keys, unknown types, strings and arrays that
  // run past the end, bools other than 0 and 1, and arrays nested too deep are bad-file Errors.
  void read_entry(ByteCursor& cursor);

  bool contains(std::string_view key) const { return entries_.contains(key); }
  const GgufEntry* find(std::string_view key) const;  // null if absent
  // Sorted by key. The keys point into the file.
  const std::map<std::string_view, GgufEntry>& entries() const { return entries_; }
  const std::vector<std::string_view>& keys() const { return keys_; }  // in the file's order

  // Each getter throws a bad-file Error that names the key if it is absent, of another type or out
  // of range. The _or variants return the fallback only if the key is absent. Integers may be
  // stored in any integer type, reals in any number type (finite).
  int64_t integer(std::string_view key, IntegerRange range = {}) const;
  int64_t integer_or(std::string_view key, int64_t fallback, IntegerRange range = {}) const;
  double real(std::string_view key) const;
  double real_or(std::string_view key, double fallback) const;
  bool boolean(std::string_view key) const;
  bool boolean_or(std::string_view key, bool fallback) const;
  std::string_view string(std::string_view key) const;  // points into the file; any bytes
  std::string_view string_or(std::string_view key, std::string_view fallback) const;

  // Arrays of at most kMaxListElements. Reals may be infinite but not NaN.
  static constexpr uint64_t kMaxListElements = uint64_t{1} << 24;
  std::vector<std::string_view> strings(std::string_view key) const;
  std::vector<int64_t> integers(std::string_view key) const;
  std::vector<float> reals(std::string_view key) const;

  // The elements of an array as entries, at most kMaxListElements. Elements may be arrays
  // themselves.
  std::vector<GgufEntry> elements(const GgufEntry& array) const;
  // One line for people: `"llama"`, `30`, `string[49152] "<|endoftext|>", "<|im_start|>", ...`.
  std::string describe(const GgufEntry& entry, size_t max_elements = 6) const;

 private:
  const GgufEntry& require(std::string_view key) const;
  const GgufEntry& require_list(std::string_view key) const;
  template <typename... Args>
  Error fault(std::string_view key, fmt::format_string<Args...> format, Args&&... args) const;

  std::string source_;
  std::map<std::string_view, GgufEntry> entries_;
  std::vector<std::string_view> keys_;
};

}  // namespace ridge::files
