// SPDX-License-Identifier: Apache-2.0
// Writes GGUF version 3: metadata in the order it is set, then tensors in the given order. It does
// not quantize (quantize.h). The keys of models are in models/.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "files/gguf_metadata.h"
#include "files/gguf_types.h"
#include "files/tensor_table.h"

namespace ridge::files {

// A metadata value with its exact type, because readers are strict about types:
// GgufValue(uint32_t{30}) is a u32.
class GgufValue {
 public:
  template <typename T>
  requires std::is_arithmetic_v<T>
  explicit GgufValue(T value) : type_(type_of<T>()) { append(value); }
  explicit GgufValue(std::string_view value);
  explicit GgufValue(const char* value) : GgufValue(std::string_view(value)) {}
  explicit GgufValue(const GgufEntry& entry);  // copies a value read from a file

  template <typename T>
  requires std::is_arithmetic_v<T>
  static GgufValue list(std::span<const T> values) {
    GgufValue array(type_of<T>(), values.size());
    for (const T value : values) array.append(value);
    return array;
  }
  static GgufValue list(std::span<const std::string> values);
  static GgufValue list(std::span<const std::string_view> values);
  // An array of arrays of one element type; all elements must be arrays.
  static GgufValue nested(std::span<const GgufValue> arrays);

  GgufType type() const { return type_; }
  std::string_view encoded() const { return encoded_; }  // as in the file, without the leading type

 private:
  GgufValue(GgufType element_type, uint64_t count);  // the start of an array

  template <typename T>
  static constexpr GgufType type_of() {
    if constexpr (std::is_same_v<T, bool>)
      return GgufType::kBool;
    else if constexpr (std::is_same_v<T, float>)
      return GgufType::kF32;
    else if constexpr (std::is_same_v<T, double>)
      return GgufType::kF64;
    else if constexpr (sizeof(T) == 1)
      return std::is_signed_v<T> ? GgufType::kI8 : GgufType::kU8;
    else if constexpr (sizeof(T) == 2)
      return std::is_signed_v<T> ? GgufType::kI16 : GgufType::kU16;
    else if constexpr (sizeof(T) == 4)
      return std::is_signed_v<T> ? GgufType::kI32 : GgufType::kU32;
    else
      return std::is_signed_v<T> ? GgufType::kI64 : GgufType::kU64;
  }
  template <typename T>
  void append(T value) {
    encoded_.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  void append_string(std::string_view value);

  GgufType type_;
  std::string encoded_;
};

class GgufWriter {
 public:
  // Sets a key; a key that is set again keeps its place. Empty or oversized keys are usage Errors.
  // "general.alignment" may be set to a power of two (u32); otherwise tensors are aligned to 32
  // bytes.
  void set(std::string_view key, GgufValue value);
  template <typename T>
  void set(std::string_view key, const T& value) {
    set(key, GgufValue(value));
  }
  void set_all(const GgufMetadata& metadata);  // every key of a file, in its order

  // Writes the file, which appears complete or not at all. Usage Errors: names that are empty,
  // duplicate or over 63 bytes (other readers keep a terminating zero in their 64), rank over 4,
  // dtypes that GGUF lacks, and rows that are not whole blocks.
  void write(const std::filesystem::path& path, std::span<const TensorSource> tensors) const;

 private:
  struct KeyValue {
    std::string key;
    GgufValue value;
  };
  int64_t alignment_bytes() const;
  std::string header_text(std::span<const TensorSource> tensors) const;

  std::vector<KeyValue> entries_;
  std::map<std::string, size_t, std::less<>> index_;  // key to its index in entries_
};

}  // namespace ridge::files
