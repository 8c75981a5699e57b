// SPDX-License-Identifier: Apache-2.0
// Validates values while walking over them, and implements the getters.
#include "files/gguf_metadata.h"

#include <cmath>
#include <optional>
#include <utility>

#include "base/printable.h"

namespace ridge::files {
namespace {

constexpr int kMaxArrayDepth = 4;  // files in use have no arrays of arrays at all
constexpr uint64_t kMinArrayBytes = 12;
constexpr uint64_t kMinStringBytes = 8;

GgufType read_type(ByteCursor& cursor, const char* field) {
  const auto number = cursor.read<uint32_t>(field);
  const auto type = gguf_type_of(number);
  if (!type) throw cursor.fault("{}: unknown metadata type {}", field, number);
  return *type;
}

void check_bools(const ByteCursor& cursor, std::span<const std::byte> bytes) {
  for (const std::byte byte : bytes)
    if (byte > std::byte{1})
      throw cursor.fault("expected a bool of 0 or 1, found {}", static_cast<int>(byte));
}

GgufEntry read_value(ByteCursor& cursor, GgufType type, int depth);

GgufEntry read_array(ByteCursor& cursor, int depth) {
  if (depth >= kMaxArrayDepth)
    throw cursor.fault("arrays are nested deeper than {}", kMaxArrayDepth);
  GgufEntry entry;
  entry.type = GgufType::kArray;
  entry.element_type = read_type(cursor, "array element type");
  const uint64_t size = fixed_bytes(entry.element_type);
  const uint64_t min_bytes = size > 0                                  ? size
                             : entry.element_type == GgufType::kString ? kMinStringBytes
                                                                       : kMinArrayBytes;
  entry.count = cursor.read_count("array length", min_bytes);
  const uint64_t begin = cursor.offset();
  if (size > 0) {
    const auto bytes = cursor.take(entry.count * size, "array");
    if (entry.element_type == GgufType::kBool) check_bools(cursor, bytes);
  } else {
    for (uint64_t i = 0; i < entry.count; ++i) read_value(cursor, entry.element_type, depth + 1);
  }
  entry.payload = cursor.since(begin);
  return entry;
}

GgufEntry read_value(ByteCursor& cursor, GgufType type, int depth) {
  if (type == GgufType::kArray) return read_array(cursor, depth);
  const uint64_t begin = cursor.offset();
  if (type == GgufType::kString)
    cursor.read_string("string");
  else if (const auto bytes = cursor.take(fixed_bytes(type), "value"); type == GgufType::kBool)
    check_bools(cursor, bytes);
  return {type, type, 1, cursor.since(begin)};
}

template <typename T>
T load(std::span<const std::byte> payload) {
  T value;
  std::memcpy(&value, payload.data(), sizeof(T));
  return value;
}

bool is_integer_type(GgufType type) {
  return type != GgufType::kF32 && type != GgufType::kF64 && type != GgufType::kBool &&
         type != GgufType::kString && type != GgufType::kArray;
}

bool is_real_type(GgufType type) { return type == GgufType::kF32 || type == GgufType::kF64; }

// nullopt for other types and for u64 values beyond 63 bits.
std::optional<int64_t> integer_value(GgufType type, std::span<const std::byte> payload) {
  switch (type) {
    case GgufType::kU8:
      return load<uint8_t>(payload);
    case GgufType::kI8:
      return load<int8_t>(payload);
    case GgufType::kU16:
      return load<uint16_t>(payload);
    case GgufType::kI16:
      return load<int16_t>(payload);
    case GgufType::kU32:
      return load<uint32_t>(payload);
    case GgufType::kI32:
      return load<int32_t>(payload);
    case GgufType::kI64:
      return load<int64_t>(payload);
    case GgufType::kU64: {
      const auto value = load<uint64_t>(payload);
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
      return static_cast<int64_t>(value);
    }
    default:
      return std::nullopt;
  }
}

std::optional<double> real_value(GgufType type, std::span<const std::byte> payload) {
  if (type == GgufType::kF32) return static_cast<double>(load<float>(payload));
  if (type == GgufType::kF64) return load<double>(payload);
  if (const auto integer = integer_value(type, payload)) return static_cast<double>(*integer);
  return std::nullopt;
}

std::string_view string_value(std::span<const std::byte> payload) {
  return {reinterpret_cast<const char*>(payload.data()) + kMinStringBytes,
          payload.size() - kMinStringBytes};
}

// Converts the elements of an array, which all have one size: values[i] = convert(i, bytes of
// element i).
template <typename T, typename Convert>
std::vector<T> converted(const GgufEntry& array, const Convert& convert) {
  std::vector<T> values(array.count);
  const uint64_t size = fixed_bytes(array.element_type);
  for (uint64_t i = 0; i < array.count; ++i)
    values[i] = convert(i, array.payload.subspan(i * size, size));
  return values;
}

}  // namespace

template <typename... Args>
Error GgufMetadata::fault(std::string_view key,
                          fmt::format_string<Args...> format,
                          Args&&... args) const {
  return file_error("[{}] key {}: {}", source_, printable(key),
                    fmt::format(format, std::forward<Args>(args)...));
}

void GgufMetadata::read_entry(ByteCursor& cursor) {
  cursor.set_context(fmt::format("metadata entry {}", keys_.size()));
  const std::string_view key = cursor.read_string("key");
  if (key.empty() || key.size() > kGgufMaxKeyBytes)
    throw cursor.fault("expected a key of 1 to {} bytes, found {}", kGgufMaxKeyBytes, key.size());
  cursor.set_context(fmt::format("key {}", printable(key)));
  const GgufType type = read_type(cursor, "type");
  if (!entries_.emplace(key, read_value(cursor, type, 0)).second)
    throw cursor.fault("the key appears twice");
  keys_.push_back(key);
}

const GgufEntry* GgufMetadata::find(std::string_view key) const {
  const auto found = entries_.find(key);
  return found == entries_.end() ? nullptr : &found->second;
}

const GgufEntry& GgufMetadata::require(std::string_view key) const {
  const GgufEntry* entry = find(key);
  if (entry == nullptr) throw fault(key, "expected in the metadata, not found");
  return *entry;
}

int64_t GgufMetadata::integer(std::string_view key, IntegerRange range) const {
  const GgufEntry& entry = require(key);
  if (!is_integer_type(entry.type))
    throw fault(key, "expected an integer, found {}", name(entry.type));
  const auto value = integer_value(entry.type, entry.payload);
  if (!value || *value < range.min || *value > range.max)
    throw fault(key, "expected an integer from {} to {}, found {}", range.min, range.max,
                describe(entry));
  return *value;
}

int64_t GgufMetadata::integer_or(std::string_view key, int64_t fallback, IntegerRange range) const {
  return contains(key) ? integer(key, range) : fallback;
}

double GgufMetadata::real(std::string_view key) const {
  const GgufEntry& entry = require(key);
  const auto value = real_value(entry.type, entry.payload);
  if (!value) throw fault(key, "expected a number, found {}", name(entry.type));
  if (!std::isfinite(*value)) throw fault(key, "expected a finite number, found {}", *value);
  return *value;
}

double GgufMetadata::real_or(std::string_view key, double fallback) const {
  return contains(key) ? real(key) : fallback;
}

bool GgufMetadata::boolean(std::string_view key) const {
  const GgufEntry& entry = require(key);
  if (entry.type != GgufType::kBool)
    throw fault(key, "expected a bool, found {}", name(entry.type));
  return entry.payload[0] != std::byte{0};
}

bool GgufMetadata::boolean_or(std::string_view key, bool fallback) const {
  return contains(key) ? boolean(key) : fallback;
}

std::string_view GgufMetadata::string(std::string_view key) const {
  const GgufEntry& entry = require(key);
  if (entry.type != GgufType::kString)
    throw fault(key, "expected a string, found {}", name(entry.type));
  return string_value(entry.payload);
}

std::string_view GgufMetadata::string_or(std::string_view key, std::string_view fallback) const {
  return contains(key) ? string(key) : fallback;
}

const GgufEntry& GgufMetadata::require_list(std::string_view key) const {
  const GgufEntry& entry = require(key);
  if (entry.type != GgufType::kArray)
    throw fault(key, "expected an array, found {}", name(entry.type));
  if (entry.count > kMaxListElements)
    throw fault(key, "expected at most {} elements, found {}", kMaxListElements, entry.count);
  return entry;
}

std::vector<std::string_view> GgufMetadata::strings(std::string_view key) const {
  const GgufEntry& list = require_list(key);
  if (list.element_type != GgufType::kString)
    throw fault(key, "expected an array of strings, found {}", name(list.element_type));
  std::vector<std::string_view> values;
  values.reserve(list.count);
  ByteCursor cursor(list.payload, source_);
  for (uint64_t i = 0; i < list.count; ++i) values.push_back(cursor.read_string("string"));
  return values;
}

std::vector<int64_t> GgufMetadata::integers(std::string_view key) const {
  const GgufEntry& list = require_list(key);
  if (!is_integer_type(list.element_type))
    throw fault(key, "expected an array of integers, found {}", name(list.element_type));
  return converted<int64_t>(list, [&](uint64_t i, std::span<const std::byte> bytes) {
    if (const auto value = integer_value(list.element_type, bytes)) return *value;
    throw fault(key, "element {} exceeds 63 bits", i);
  });
}

std::vector<float> GgufMetadata::reals(std::string_view key) const {
  const GgufEntry& list = require_list(key);
  if (!is_real_type(list.element_type))
    throw fault(key, "expected an array of f32 or f64, found {}", name(list.element_type));
  return converted<float>(list, [&](uint64_t i, std::span<const std::byte> bytes) {
    const double value = *real_value(list.element_type, bytes);
    if (std::isnan(value)) throw fault(key, "element {} is not a number", i);
    return static_cast<float>(value);
  });
}

std::vector<GgufEntry> GgufMetadata::elements(const GgufEntry& array) const {
  RIDGE_CHECK(array.type == GgufType::kArray, "not an array");
  if (array.count > kMaxListElements)
    throw file_error("[{}] expected at most {} elements, found {}", source_, kMaxListElements,
                     array.count);
  std::vector<GgufEntry> values;
  values.reserve(array.count);
  ByteCursor cursor(array.payload, source_);
  for (uint64_t i = 0; i < array.count; ++i)
    values.push_back(read_value(cursor, array.element_type, 1));
  return values;
}

std::string GgufMetadata::describe(const GgufEntry& entry, size_t max_elements) const {
  if (entry.type == GgufType::kString) return printable(string_value(entry.payload));
  if (entry.type == GgufType::kBool) return entry.payload[0] != std::byte{0} ? "true" : "false";
  if (entry.type == GgufType::kU64) return fmt::to_string(load<uint64_t>(entry.payload));
  if (entry.type == GgufType::kF32) return fmt::to_string(load<float>(entry.payload));
  if (entry.type != GgufType::kArray) {
    if (const auto value = integer_value(entry.type, entry.payload)) return fmt::to_string(*value);
    return fmt::to_string(*real_value(entry.type, entry.payload));
  }
  std::string text = fmt::format("{}[{}]", name(entry.element_type), entry.count);
  ByteCursor cursor(entry.payload, source_);
  for (uint64_t i = 0; i < entry.count && i < max_elements; ++i)
    text +=
        (i == 0 ? " " : ", ") + describe(read_value(cursor, entry.element_type, 1), max_elements);
  if (entry.count > max_elements) text += ", ...";
  return text;
}

}  // namespace ridge::files
