// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: any bytes as the body of a completion, chat or not. It is read into a request
// within all bounds, or refused as an ApiError of the client's fault, in valid JSON. The same bytes
// as a stream of events, in pieces.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "fuzz/refusal.h"
#include "http/api_error.h"
#include "http/event_lines.h"
#include "http/generation.h"
#include "text/byte_alphabet.h"

namespace {

using namespace ridge;  // NOLINT: a program of one file
using fuzz::expect;

constexpr int64_t kContext = 64, kQueue = 8;

// A token for each byte, after the two of ChatML.
text::Tokenizer make_tokenizer() {
  text::TokenizerSpec spec;
  spec.tokens = {"<|im_start|>", "<|im_end|>"};
  for (int byte = 0; byte < 256; ++byte)
    spec.tokens.push_back(text::to_byte_alphabet(std::string(1, static_cast<char>(byte))));
  spec.types.assign(spec.tokens.size(), text::TokenType::kNormal);
  spec.types[0] = spec.types[1] = text::TokenType::kControl;
  spec.eos = 1;
  return text::Tokenizer(spec);
}

void expect_within(const http::Generation& made, const http::RequestBounds& bounds) {
  const serve::Request& request = made.request;
  expect(std::ssize(request.prompt) <= bounds.context);
  for (int32_t id : request.prompt) expect(id >= 0 && id < bounds.vocabulary);
  expect(request.max_tokens >= 1 && request.max_tokens <= bounds.context);
  expect(made.choices >= 1 && made.choices <= bounds.queue);
  expect(request.top_logprobs >= -1 && request.top_logprobs <= 20);
  serve::validate(request.sampling);  // throws nothing
}

void read(std::string_view text,
          const http::RequestBounds& bounds,
          http::Generation (*read)(const http::Body&, const http::RequestBounds&)) {
  try {
    expect_within(read(http::Body(text), bounds), bounds);
  } catch (const http::ApiError& error) {
    expect(error.status == 400 || error.status == 404 || error.status == 422);
    const nlohmann::json shown = nlohmann::json::parse(http::error_json(error));
    expect(!shown.at("error").at("message").get<std::string>().empty());
  }
}

void read_events(std::string_view text) {
  http::EventLines lines;
  for (size_t at = 0, piece = 1; at < text.size(); at += piece, piece = piece % 7 + 1)
    lines.push(text.substr(at, piece),
               [](std::string_view data) { expect(data.find('\n') == data.npos); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const text::Tokenizer tokenizer = make_tokenizer();
  static const http::RequestBounds bounds{
      .model = "small",
      .tokenizer = &tokenizer,
      .chat = serve::ChatFormat{text::ChatTemplate::named("chatml"), ""},
      .context = kContext,
      .vocabulary = tokenizer.vocab_size(),
      .queue = kQueue};
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  read(text, bounds, http::read_completion);
  read(text, bounds, http::read_chat);
  read_events(text);
  return 0;
}
