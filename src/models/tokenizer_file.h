// SPDX-License-Identifier: Apache-2.0
// Reads and writes a tokenizer in a model's files: GGUF's metadata, or Hugging Face's
// tokenizer.json and the files next to it. It is read into text/'s plain specification and written
// from it. The fields of the files are handled here, the algorithms in text/.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "files/gguf_file.h"
#include "files/gguf_writer.h"
#include "models/model_file.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace ridge::models {

struct TokenizerFile {
  text::TokenizerSpec spec;   // not validated yet: make_tokenizer or text::validate does
  std::string chat_template;  // Jinja source; empty if the file has none
  std::string source;         // the path, for messages
};

// Model "gpt2" is byte-level BPE with the pre-tokenizers of GPT-2, Llama 3, SmolLM and Qwen 2;
// "llama" is SentencePiece-style. Throws a bad-file Error that names the key. Time and memory are
// linear in the file.
TokenizerFile read_tokenizer(const files::GgufFile& file);

// Reads a GGUF file, a tokenizer.json, or a folder that contains one. These files next to a
// tokenizer.json are read if they exist: tokenizer_config.json (special tokens, add_bos_token, chat
// template), chat_template.jinja, generation_config.json and config.json (what ends a generation).
// BPE with byte_fallback becomes SentencePiece-style: a token's score is minus the rank of the
// first merge that makes it. A field that Ridge cannot follow exactly is rejected by name.
TokenizerFile read_tokenizer(const std::filesystem::path& path);

// The validated tokenizer of a model; nullopt if the model has none.
std::optional<TokenizerFile> find_tokenizer(const ModelFile& file);

// Parses one tokenizer.json without the files next to it. `source` names it in messages.
text::TokenizerSpec parse_tokenizer(const nlohmann::json& document, std::string_view source);

// Validates and builds; an Error names the source.
text::Tokenizer make_tokenizer(TokenizerFile file);
// Throws a bad-file Error too if it has tokens that the model does not have.
text::Tokenizer make_tokenizer(TokenizerFile file, const ModelFile& model);
inline text::Tokenizer load_tokenizer(const std::filesystem::path& path) {
  return make_tokenizer(read_tokenizer(path));
}

// Writes the keys tokenizer.* of a GGUF file. The specification must be validated.
void set_tokenizer(files::GgufWriter& writer,
                   const text::TokenizerSpec& spec,
                   std::string_view chat_template);

// Name and text of the files from which transformers reads a tokenizer: tokenizer.json,
// tokenizer_config.json and generation_config.json (what ends a generation), and for byte-level BPE
// vocab.json and merges.txt, which older programs read. SentencePiece's scores become ranked
// merges: one merge for each pair of tokens that joins to a token, best score first. The
// specification must be validated. A token that is not UTF-8 is a usage Error, because JSON cannot
// represent it.
std::vector<std::pair<std::string, std::string>> tokenizer_files(const text::TokenizerSpec& spec,
                                                                 std::string_view chat_template);

// Whether a control token of this name ends a turn or a text, in any file.
bool ends_generation(std::string_view token);

}  // namespace ridge::models
