// SPDX-License-Identifier: Apache-2.0
// Token ids to text as they come, one at a time. The tokenizer itself decodes whole sequences.
#pragma once

#include <cstdint>
#include <string>

#include "text/tokenizer.h"

namespace ridge::text {

// Never half a character: bytes wait until theirs is complete. Bytes that cannot become UTF-8 come
// out as U+FFFD, so all output together is what decode() gives, made valid UTF-8. The tokenizer
// must outlive it.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, const DecodeOptions& options = {});

  // Valid UTF-8, empty while a character is incomplete.
  std::string push(int32_t id);
  // What is still held back, as U+FFFD. The decoder is as new afterwards.
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  DecodeOptions options_;
  DecodeOptions next_;
  std::string held_;
};

}  // namespace ridge::text
