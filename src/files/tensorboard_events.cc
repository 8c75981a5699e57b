// SPDX-License-Identifier: Apache-2.0
// Encodes the few fields of protocol buffers that scalars need, and TFRecord's checksums.
#include "files/tensorboard_events.h"

#include <array>
#include <bit>
#include <cstring>

namespace ridge::files {
namespace {

// CRC-32C (Castagnoli, RFC 3720), bits reflected.
constexpr std::array<uint32_t, 256> crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    table[byte] = crc;
  }
  return table;
}

// TFRecord rotates and shifts its checksums, so that one of data with checksums differs from them.
uint32_t masked_crc(std::string_view bytes) {
  static constexpr std::array<uint32_t, 256> kTable = crc_table();
  uint32_t crc = ~0u;
  for (char byte : bytes) crc = crc >> 8 ^ kTable[(crc ^ static_cast<uint8_t>(byte)) & 0xff];
  return std::rotr(~crc, 15) + 0xa282ead8u;
}

template <typename T>
std::string little_endian(T value) {
  static_assert(std::endian::native == std::endian::little);
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

std::string record(std::string_view data) {
  const std::string length = little_endian(static_cast<uint64_t>(data.size()));
  return length + little_endian(masked_crc(length)) + std::string(data) +
         little_endian(masked_crc(data));
}

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes += static_cast<char>(value);
}

// Fields of a message by number: what precedes the value is number * 8 + wire type.
std::string text_field(int number, std::string_view text) {
  return varint(static_cast<uint64_t>(number) * 8 + 2) + varint(text.size()) + std::string(text);
}
std::string integer_field(int number, int64_t value) {
  return varint(static_cast<uint64_t>(number) * 8) + varint(static_cast<uint64_t>(value));
}
std::string real_field(int number, double value) {
  return varint(static_cast<uint64_t>(number) * 8 + 1) + little_endian(value);
}
std::string real_field(int number, float value) {
  return varint(static_cast<uint64_t>(number) * 8 + 5) + little_endian(value);
}

}  // namespace

// Event: 1 wall_time, 2 step, 3 file_version, 5 summary. Summary: 1 value. Value: 1 tag, 2
// simple_value.
std::string version_event(double time_s) {
  return record(real_field(1, time_s) + text_field(3, "brain.Event:2"));
}

std::string scalars_event(double time_s, int64_t step, std::span<const EventScalar> scalars) {
  std::string summary;
  for (const EventScalar& each : scalars)
    summary += text_field(1, text_field(1, each.tag) + real_field(2, each.value));
  return record(real_field(1, time_s) + integer_field(2, step) + text_field(5, summary));
}

}  // namespace ridge::files
