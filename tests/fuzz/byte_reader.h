// SPDX-License-Identifier: Apache-2.0
// Takes a fuzzer's bytes one field after the other; fields beyond the end are zero or empty.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ridge::fuzz {

class ByteReader {
 public:
  ByteReader(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}

  uint8_t byte() {
    if (rest_.empty()) return 0;
    auto value = static_cast<uint8_t>(rest_[0]);
    rest_.remove_prefix(1);
    return value;
  }
  std::string bytes(size_t count) {
    std::string out(rest_.substr(0, count));
    rest_.remove_prefix(out.size());
    return out;
  }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

}  // namespace ridge::fuzz
