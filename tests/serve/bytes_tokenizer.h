// SPDX-License-Identifier: Apache-2.0
// A tokenizer for the small models, which have none.
#pragma once

#include <string>

#include "text/byte_alphabet.h"
#include "text/tokenizer.h"

namespace ridge::serve {

// One token for each byte, as far as the model's vocabulary goes, after the two of ChatML. The
// second ends what is generated, if `ends`.
inline text::Tokenizer bytes_tokenizer(int64_t vocabulary, bool ends = true) {
  text::TokenizerSpec spec;
  spec.tokens = {"<|im_start|>", "<|im_end|>"};
  spec.types.assign(static_cast<size_t>(vocabulary), text::TokenType::kNormal);
  spec.types[0] = spec.types[1] = text::TokenType::kControl;
  for (int byte = 0; byte < 256 && std::ssize(spec.tokens) < vocabulary; ++byte)
    spec.tokens.push_back(text::to_byte_alphabet(std::string(1, static_cast<char>(byte))));
  spec.tokens.resize(static_cast<size_t>(vocabulary));
  if (ends) spec.eos = 1;
  return text::Tokenizer(spec);
}

}  // namespace ridge::serve
