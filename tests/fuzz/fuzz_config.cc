// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: any bytes as a model's configuration and tokenizer, in JSON or in GGUF
// metadata. They are read and then used, or refused as a bad file.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "files/gguf_file.h"
#include "files/json.h"
#include "fuzz/refusal.h"
#include "models/config_gguf.h"
#include "models/config_json.h"
#include "models/tokenizer_file.h"

namespace {

using namespace ridge;  // NOLINT: a program of one file
using fuzz::allow_refusal;
using fuzz::expect;

void use(models::TokenizerFile file) {
  const text::Tokenizer tokenizer = models::make_tokenizer(std::move(file));
  constexpr std::string_view kText = "a b\xE2\x96\x81<s>  12\n\xFF";
  for (int32_t id : tokenizer.encode(kText, {.parse_special = true}))
    expect(id >= 0 && id < tokenizer.vocab_size());
}

void read_json(std::string_view text) {
  const nlohmann::json document = files::parse_json(text, "fuzz.json");
  allow_refusal([&] { expect(models::parse_config(document, "fuzz.json").parameters() > 0); });
  allow_refusal([&] { use({models::parse_tokenizer(document, "fuzz.json"), "", "fuzz.json"}); });
}

void read_gguf(std::span<const std::byte> bytes) {
  const auto file = files::GgufFile::parse(bytes, "fuzz.gguf");
  allow_refusal([&] { expect(models::config_of_gguf(file).parameters() > 0); });
  allow_refusal([&] { use(models::read_tokenizer(file)); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  allow_refusal([&] { read_json({reinterpret_cast<const char*>(data), size}); });
  allow_refusal([&] { read_gguf(std::as_bytes(std::span(data, size))); });
  return 0;
}
