// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: any bytes as a safetensors file, and as JSON. They read, or throw a bad-file
// Error; anything else ends the program.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/error.h"
#include "files/json.h"
#include "files/safetensors.h"

namespace {

using ridge::Error;
using ridge::ExitCode;
using ridge::files::FileTensor;
using ridge::files::SafetensorsFile;

volatile unsigned sink;  // keeps the reads below

template <typename Act>
void allow_refusal(Act act) {
  try {
    act();
  } catch (const Error& error) {
    if (error.code() != ExitCode::kBadFile) throw;
  }
}

void read(std::span<const std::byte> bytes) {
  const auto file = SafetensorsFile::parse(bytes, "fuzz");
  for (const FileTensor& tensor : file.tensors().all())
    for (const std::byte byte : tensor.bytes) sink = sink + static_cast<unsigned>(byte);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  allow_refusal([&] { read(std::as_bytes(std::span(data, size))); });
  allow_refusal([&] {
    ridge::files::parse_json(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz");
  });
  return 0;
}
