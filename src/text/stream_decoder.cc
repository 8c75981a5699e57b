// SPDX-License-Identifier: Apache-2.0
// Decodes a stream of ids into whole characters.
#include "text/stream_decoder.h"

#include "text/utf8.h"

namespace ridge::text {

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, const DecodeOptions& options)
    : tokenizer_(tokenizer), options_(options), next_(options) {}

std::string StreamDecoder::push(int32_t id) {
  held_ += tokenizer_.decode({&id, 1}, next_);
  // A new text begins after a special token, and encode put its space prefix before that text.
  next_.continuation = !tokenizer_.starts_text_after(id);
  size_t incomplete = incomplete_suffix_bytes(held_);
  std::string out = to_valid_utf8(std::string_view(held_).substr(0, held_.size() - incomplete));
  held_.erase(0, held_.size() - incomplete);
  return out;
}

std::string StreamDecoder::finish() {
  std::string out = to_valid_utf8(held_);
  held_.clear();
  next_ = options_;
  return out;
}

}  // namespace ridge::text
