// SPDX-License-Identifier: Apache-2.0
// A tokenizer as model files bring it: GGUF's metadata, or Hugging Face's tokenizer.json and the
// files beside it, read into text/'s plain specification and written from it. Knows the files'
// fields; the algorithms are text/'s.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "files/gguf_file.h"
#include "files/gguf_writer.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace ridge::models {

struct TokenizerFile {
  text::TokenizerSpec spec;   // not validated yet: make_tokenizer or text::validate does
  std::string chat_template;  // Jinja source; empty: the file has none
  std::string source;         // the path, for messages
};

// Model "gpt2" is byte-level BPE under the pre-tokenizers of GPT-2, Llama 3 and SmolLM, "llama" is
// SentencePiece-style. A bad-file Error names the key. Time and memory are linear in the file.
TokenizerFile read_tokenizer(const files::GgufFile& file);

// A GGUF file, a tokenizer.json, or a folder that holds one. Beside a tokenizer.json, where they
// exist: tokenizer_config.json (special tokens, add_bos_token, chat template), chat_template.jinja,
// generation_config.json and config.json (what ends a generation). BPE with byte_fallback becomes
// SentencePiece-style: a token's score is minus the rank of the first merge that makes it. What
// Ridge would tokenize otherwise than the file says is refused by its field.
TokenizerFile read_tokenizer(const std::filesystem::path& path);

// One tokenizer.json; its neighbours are not looked at. `source` names it in messages.
text::TokenizerSpec parse_tokenizer(const nlohmann::json& document, std::string_view source);

// Checks and builds; the Error names the source.
text::Tokenizer make_tokenizer(TokenizerFile file);
inline text::Tokenizer load_tokenizer(const std::filesystem::path& path) {
  return make_tokenizer(read_tokenizer(path));
}

// The keys tokenizer.* of a GGUF file. The specification has been validated.
void set_tokenizer(files::GgufWriter& writer,
                   const text::TokenizerSpec& spec,
                   std::string_view chat_template);

// Name and text of the files that transformers reads a tokenizer from:
// tokenizer.json, tokenizer_config.json and generation_config.json (what ends a
// generation), and for byte-level BPE vocab.json and merges.txt, which older
// programs read. SentencePiece's scores become ranked merges: a merge for each pair
// of tokens that joins to a token, best score first. The specification has been
// validated; a token that is not UTF-8 is a usage Error, since JSON cannot say it.
std::vector<std::pair<std::string, std::string>> tokenizer_files(const text::TokenizerSpec& spec,
                                                                 std::string_view chat_template);

// Control tokens of these names end a turn or a text, in whatever file they stand.
bool ends_generation(std::string_view token);

}  // namespace ridge::models
