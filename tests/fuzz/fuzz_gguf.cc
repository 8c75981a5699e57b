// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: any bytes as a GGUF file. The file is read, and then every request of a user
// works or is refused, or reading throws a bad-file Error; anything else ends the program.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "files/gguf_file.h"
#include "fuzz/refusal.h"

namespace {

using ridge::files::GgufEntry;
using ridge::files::GgufFile;
using ridge::files::GgufMetadata;
using ridge::files::GgufType;
using ridge::fuzz::allow_refusal;
using ridge::fuzz::read_tensors;

void ask_everything(const GgufMetadata& metadata) {
  for (const std::string_view key : metadata.keys()) {
    const GgufEntry& entry = *metadata.find(key);
    metadata.describe(entry);
    allow_refusal([&] { metadata.integer(key); });
    allow_refusal([&] { metadata.real(key); });
    allow_refusal([&] { metadata.boolean(key); });
    allow_refusal([&] { metadata.string(key); });
    allow_refusal([&] { metadata.strings(key); });
    allow_refusal([&] { metadata.integers(key); });
    allow_refusal([&] { metadata.reals(key); });
    if (entry.type == GgufType::kArray) allow_refusal([&] { metadata.elements(entry); });
  }
}

void read(std::span<const std::byte> bytes) {
  const auto file = GgufFile::parse(bytes, "fuzz");
  ask_everything(file.metadata());
  read_tensors(file);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  allow_refusal([&] { read(std::as_bytes(std::span(data, size))); });
  return 0;
}
