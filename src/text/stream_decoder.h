// SPDX-License-Identifier: Apache-2.0
// Decodes token ids one at a time. The tokenizer itself decodes whole sequences.
#pragma once

#include <cstdint>
#include <string>

#include "text/tokenizer.h"

namespace ridge::text {

// Returns only whole characters: bytes are held back until their character is complete. Bytes that
// cannot become UTF-8 are returned as U+FFFD, so the whole output is that of decode(), made valid
// UTF-8. The tokenizer must outlive the decoder.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, const DecodeOptions& options = {});

  // Returns valid UTF-8, empty while a character is incomplete.
  std::string push(int32_t id);
  // Returns the bytes still held back, as U+FFFD, and resets the decoder.
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  DecodeOptions options_;
  DecodeOptions next_;
  std::string held_;
};

}  // namespace ridge::text
