// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: any bytes as a safetensors file, and as JSON. They are read or cause a bad-file
// Error; anything else ends the program.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "files/json.h"
#include "files/safetensors.h"
#include "fuzz/refusal.h"

using ridge::files::SafetensorsFile;
using ridge::fuzz::allow_refusal;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  allow_refusal([&] { ridge::fuzz::read_tensors(SafetensorsFile::parse(bytes, "fuzz")); });
  allow_refusal([&] {
    ridge::files::parse_json(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz");
  });
  return 0;
}
