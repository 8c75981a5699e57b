// SPDX-License-Identifier: Apache-2.0
// The numbers of a valid file, found by walking over what it holds, and the file with an extreme in
// place of one of them. The walk over GGUF is independent of the reader under test. No tests.
#pragma once

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "files/damage.h"
#include "files/gguf_types.h"

namespace ridge::files {

// Lists and tables are alike in all elements; only the first of them are walked.
inline constexpr size_t kAlike = 3;

// The extremes of every numeric option and field, as text.
inline std::vector<std::string> extreme_numbers() {
  return {"-1",
          "0",
          "1",
          "2147483647",
          "2147483648",
          "4294967296",
          "9007199254740993",
          "4611686018427387904",
          "9223372036854775807",
          "9223372036854775808",
          "1e308",
          "nan",
          ""};
}

// The same as JSON text, which has no nan, and values of other types.
inline std::vector<std::string> extreme_json_numbers() {
  std::vector<std::string> values = extreme_numbers();
  values.resize(values.size() - 2);
  for (const char* each : {"1e999", "1e-300", "1.5", "null", "\"7\"", "[]", "{}", "true"})
    values.emplace_back(each);
  return values;
}

// A file with another value in place of one of its numbers.
struct ChangedFile {
  std::string what;  // the number's place and the value
  std::string bytes;
};
using TakeChangedFile = std::function<void(const ChangedFile&)>;

// Takes turns: every n-th value of each number, from another one on for each number.
class Sampling {
 public:
  explicit Sampling(size_t every) : every_(every) {}
  // Calls use(value) for the values of the next number.
  template <typename Use>
  void each(const std::vector<std::string>& values, Use use) {
    for (size_t i = numbers_++ % every_; i < values.size(); i += every_) use(values[i]);
  }
  size_t numbers() const { return numbers_; }

 private:
  size_t every_;
  size_t numbers_ = 0;
};

// The places of the numbers in a document.
inline std::vector<JsonPlace> number_places(const nlohmann::json& value,
                                            const JsonPlace& at = JsonPlace()) {
  if (value.is_number()) return {at};
  if (!value.is_structured()) return {};
  constexpr size_t kRecord = 64;  // an object of more keys is a table, not a record
  size_t left = value.is_array() || value.size() > kRecord ? kAlike : value.size();
  std::vector<JsonPlace> found;
  for (const auto& [key, each] : value.items()) {
    if (left-- == 0) break;
    const auto more = number_places(each, value.is_array() ? at / std::stoul(key) : at / key);
    found.insert(found.end(), more.begin(), more.end());
  }
  return found;
}

inline void change_json_numbers(const nlohmann::json& good,
                                Sampling& sampling,
                                const TakeChangedFile& take) {
  for (const JsonPlace& at : number_places(good))
    sampling.each(extreme_json_numbers(), [&](const std::string& value) {
      take({at.to_string() + " = " + value, with_text(good, at, value)});
    });
}

// The numbers of a safetensors file: the length of its header and those of the header.
inline void change_safetensors_numbers(const std::string& good,
                                       Sampling& sampling,
                                       const TakeChangedFile& take) {
  uint64_t size = 0;
  std::memcpy(&size, good.data(), sizeof(size));
  auto with_header = [&](uint64_t says, const std::string& header) {
    std::string bytes(reinterpret_cast<const char*>(&says), sizeof(says));
    return bytes + header + good.substr(sizeof(size) + size);
  };
  const std::string header = good.substr(sizeof(size), size);
  sampling.each(extreme_numbers(), [&](const std::string& value) {
    take({"header length = " + value,
          with_header(std::strtoull(value.c_str(), nullptr, 10), header)});
  });
  change_json_numbers(nlohmann::json::parse(header), sampling, [&](const ChangedFile& changed) {
    take({changed.what, with_header(changed.bytes.size(), changed.bytes)});
  });
}

// A number of a GGUF file. A value of the metadata has its type in the 4 bytes before it.
struct GgufNumber {
  std::string place;
  size_t at = 0;
  GgufType type = GgufType::kU64;
  bool is_typed = false;
};

// Every type of one value.
inline constexpr GgufType kScalars[] = {GgufType::kU8,  GgufType::kI8,   GgufType::kU16,
                                        GgufType::kI16, GgufType::kU32,  GgufType::kI32,
                                        GgufType::kU64, GgufType::kI64,  GgufType::kF32,
                                        GgufType::kF64, GgufType::kBool, GgufType::kString};

// Walks over a valid GGUF file.
class GgufWalk {
 public:
  explicit GgufWalk(std::string_view file) : file_(file) {
    at_ = 4;  // the magic
    number("version", GgufType::kU32);
    const uint64_t tensors = number("tensor count", GgufType::kU64);
    const uint64_t entries = number("metadata count", GgufType::kU64);
    for (uint64_t i = 0; i < entries; ++i) entry(i);
    for (uint64_t i = 0; i < tensors; ++i) tensor(i);
    header_bytes_ = at_;
  }

  const std::vector<GgufNumber>& numbers() const { return numbers_; }

  // The file with the value in the number's place, once for each type that can hold it there. A
  // typed value may take any type, which moves the data; the others keep theirs.
  std::vector<ChangedFile> with(const GgufNumber& number, const std::string& value) const {
    std::vector<ChangedFile> made;
    auto add = [&](std::string_view type, std::string bytes) {
      made.push_back({fmt::format("{} = {} as {}", number.place, value, type), std::move(bytes)});
    };
    std::string file(file_);
    const size_t bytes = fixed_bytes(number.type);
    if (!number.is_typed) {
      std::optional<std::string> same = encoded(number.type, value);
      if (!same && value == "-1")  // as a reader of signed numbers would see it
        same = std::string(bytes, '\xff');
      if (same) add(name(number.type), file.replace(number.at, bytes, *same));
      return made;
    }
    for (const GgufType type : kScalars) {
      const std::optional<std::string> other = encoded(type, value);
      if (!other) continue;
      const auto type_number = static_cast<uint32_t>(type);
      std::string typed(reinterpret_cast<const char*>(&type_number), sizeof(type_number));
      typed += *other;
      const size_t size = sizeof(type_number) + bytes;
      std::string changed(file_);
      changed.replace(number.at - sizeof(type_number), size, typed);
      const size_t header = header_bytes_ - size + typed.size();
      add(name(type), changed.replace(header, padded(header_bytes_) - header_bytes_,
                                      std::string(padded(header) - header, '\0')));
    }
    return made;
  }

 private:
  static size_t padded(size_t size) {
    return (size + kGgufDefaultAlignmentBytes - 1) / kGgufDefaultAlignmentBytes *
           kGgufDefaultAlignmentBytes;
  }

  template <typename T>
  static std::optional<std::string> integer(const std::string& value) {
    T number{};
    const char* end = value.data() + value.size();
    const auto [stop, error] = std::from_chars(value.data(), end, number);
    if (error != std::errc() || stop != end || value.empty()) return std::nullopt;
    return std::string(reinterpret_cast<const char*>(&number), sizeof(number));
  }
  template <typename T>
  static std::optional<std::string> real(const std::string& value) {
    if (value.empty()) return std::nullopt;
    const T number = static_cast<T>(std::strtod(value.c_str(), nullptr));
    return std::string(reinterpret_cast<const char*>(&number), sizeof(number));
  }
  // The value as the file has it; none if the type lacks it. A string may only be empty.
  static std::optional<std::string> encoded(GgufType type, const std::string& value) {
    switch (type) {
      case GgufType::kU8:
        return integer<uint8_t>(value);
      case GgufType::kI8:
        return integer<int8_t>(value);
      case GgufType::kU16:
        return integer<uint16_t>(value);
      case GgufType::kI16:
        return integer<int16_t>(value);
      case GgufType::kU32:
        return integer<uint32_t>(value);
      case GgufType::kI32:
        return integer<int32_t>(value);
      case GgufType::kU64:
        return integer<uint64_t>(value);
      case GgufType::kI64:
        return integer<int64_t>(value);
      case GgufType::kF32:
        return real<float>(value);
      case GgufType::kF64:
        return real<double>(value);
      case GgufType::kBool:  // only 0 and 1 are values
        return integer<uint8_t>(value == "-1" ? "255" : value);
      default:
        return value.empty() ? std::optional(std::string(8, '\0')) : std::nullopt;
    }
  }

  // Notes a number and returns it if it is an unsigned one.
  uint64_t number(const std::string& place, GgufType type, bool is_typed = false) {
    const size_t size = fixed_bytes(type);
    uint64_t value = 0;
    std::memcpy(&value, file_.data() + at_, size);
    if (is_noted_) numbers_.push_back({place, at_, type, is_typed});
    at_ += size;
    return value;
  }
  std::string text(const std::string& place) {
    const uint64_t size = number(place, GgufType::kU64);
    at_ += size;
    return std::string(file_.substr(at_ - size, size));
  }

  void entry(uint64_t index) {
    const std::string key = text(fmt::format("length of key {}", index));
    value(key, static_cast<GgufType>(number("type of " + key, GgufType::kU32)), true);
  }
  void value(const std::string& place, GgufType type, bool is_typed) {
    if (type == GgufType::kString) {
      text("length of " + place);
    } else if (type == GgufType::kArray) {
      const auto element =
          static_cast<GgufType>(number("element type of " + place, GgufType::kU32));
      const uint64_t count = number("count of " + place, GgufType::kU64);
      for (uint64_t i = 0; i < count; ++i)
        quietly_from(kAlike, i, [&] { value(fmt::format("{}[{}]", place, i), element, false); });
    } else {
      number(place, type, is_typed);
    }
  }
  void tensor(uint64_t index) {
    quietly_from(kAlike, index, [&] {
      const std::string name = text(fmt::format("length of the name of tensor {}", index));
      const uint64_t rank = number("rank of " + name, GgufType::kU32);
      for (uint64_t i = 0; i < rank; ++i)
        number(fmt::format("dimension {} of {}", i, name), GgufType::kU64);
      number("type of " + name, GgufType::kU32);
      number("offset of " + name, GgufType::kU64);
    });
  }
  // Elements from `limit` on are walked over, but their numbers are not noted.
  template <typename Walk>
  void quietly_from(size_t limit, uint64_t index, Walk walk) {
    const bool was_noted = is_noted_;
    is_noted_ = is_noted_ && index < limit;
    walk();
    is_noted_ = was_noted;
  }

  std::string_view file_;
  size_t at_ = 0;
  size_t header_bytes_ = 0;
  bool is_noted_ = true;
  std::vector<GgufNumber> numbers_;
};

// The numbers of a GGUF file of the usual alignment.
inline void change_gguf_numbers(const std::string& good,
                                Sampling& sampling,
                                const TakeChangedFile& take) {
  const GgufWalk walk(good);
  for (const GgufNumber& number : walk.numbers())
    sampling.each(extreme_numbers(), [&](const std::string& value) {
      for (const ChangedFile& changed : walk.with(number, value)) take(changed);
    });
}

// Chooses the format by the file's name.
inline void change_numbers(std::string_view path,
                           const std::string& good,
                           Sampling& sampling,
                           const TakeChangedFile& take) {
  if (path.ends_with(".gguf"))
    change_gguf_numbers(good, sampling, take);
  else if (path.ends_with(".safetensors"))
    change_safetensors_numbers(good, sampling, take);
  else
    change_json_numbers(nlohmann::json::parse(good), sampling, take);
}

}  // namespace ridge::files
