// SPDX-License-Identifier: Apache-2.0
// Chooses the reader for a path, and reads the files next to a tokenizer.json.
#include "models/tokenizer_file.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/printable.h"
#include "files/json.h"
#include "files/json_field.h"
#include "files/mapped_file.h"

namespace ridge::models {
namespace {

using files::JsonField;

namespace fs = std::filesystem;
using nlohmann::json;
using text::TokenizerSpec;

constexpr size_t kMostEnds = 1024;  // ids that end a generation

// The document of an optional file; null if the file does not exist.
json read_if_there(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) return nullptr;
  return files::read_json(path);
}

int32_t id_of(const TokenizerSpec& spec, std::string_view token) {
  auto found = std::find(spec.tokens.begin(), spec.tokens.end(), token);
  return token.empty() || found == spec.tokens.end()
             ? text::kNoToken
             : static_cast<int32_t>(found - spec.tokens.begin());
}

// A special token of tokenizer_config.json: its text, or an object with the text as "content".
void read_named(const JsonField& config, const char* key, const TokenizerSpec& spec, int32_t& id) {
  if (!config.has(key)) return;
  JsonField value = config.at(key);
  std::string token = value.is_object() ? value.at("content").text() : value.text();
  id = id_of(spec, token);
  if (id == text::kNoToken) throw value.fault("a token of the vocabulary", printable(token));
}

void add_end(TokenizerSpec& spec, int32_t id) {
  std::vector<int32_t>& ends = spec.end_of_generation;
  if (id != text::kNoToken && std::find(ends.begin(), ends.end(), id) == ends.end())
    ends.push_back(id);
}

// "eos_token_id" is one id or a list of them.
void read_ends(const JsonField& config, TokenizerSpec& spec) {
  if (!config.has("eos_token_id")) return;
  JsonField value = config.at("eos_token_id");
  auto last = static_cast<int64_t>(spec.tokens.size()) - 1;
  if (!value.is_array()) return add_end(spec, static_cast<int32_t>(value.integer(0, last)));
  if (value.size() > kMostEnds)
    throw value.fault(fmt::format("at most {} ids", kMostEnds), fmt::to_string(value.size()));
  for (size_t i = 0; i < value.size(); ++i)
    add_end(spec, static_cast<int32_t>(value.at(i).integer(0, last)));
}

// The template is a text, or a list of named ones, of which "default" is used.
std::string template_in(const JsonField& config) {
  if (!config.has("chat_template")) return "";
  JsonField value = config.at("chat_template");
  if (!value.is_array()) return value.text();
  for (size_t i = 0; i < value.size(); ++i)
    if (value.at(i).at("name").text() == "default") return value.at(i).at("template").text();
  return "";
}

std::string read_chat_template(const fs::path& folder, const json& config) {
  std::error_code error;
  fs::path path = folder / "chat_template.jinja";
  if (fs::exists(path, error)) {
    files::MappedFile file(path);
    if (file.bytes().size() > text::ChatTemplate::kMaxTemplateBytes)
      throw file_error("[{}] expected at most {} bytes, found {}", file.source(),
                       text::ChatTemplate::kMaxTemplateBytes, file.bytes().size());
    return std::string(file.text());
  }
  return config.is_null() ? "" : template_in({config, (folder / "tokenizer_config.json").string()});
}

void read_tokenizer_config(const JsonField& config, TokenizerSpec& spec) {
  read_named(config, "bos_token", spec, spec.bos);
  read_named(config, "eos_token", spec, spec.eos);
  read_named(config, "unk_token", spec, spec.unknown);
  read_named(config, "pad_token", spec, spec.padding);
  if (config.has("add_bos_token")) spec.add_bos = config.at("add_bos_token").flag();
  if (config.has("add_eos_token")) spec.add_eos = config.at("add_eos_token").flag();
}

// Uses the first of the two files that has the ids; transformers prefers generation_config.json
// too.
void read_generation(const fs::path& folder, TokenizerSpec& spec) {
  add_end(spec, spec.eos);
  for (const char* name : {"generation_config.json", "config.json"}) {
    json document = read_if_there(folder / name);
    if (document.is_null()) continue;
    JsonField config(document, (folder / name).string());
    if (!config.has("eos_token_id")) continue;
    read_ends(config, spec);
    break;
  }
  for (size_t id = 0; id < spec.types.size(); ++id)
    if (spec.types[id] == text::TokenType::kControl && ends_generation(spec.tokens[id]))
      add_end(spec, static_cast<int32_t>(id));
  if (spec.eos == text::kNoToken && !spec.end_of_generation.empty())
    spec.eos = spec.end_of_generation.front();
}

TokenizerFile read_folder(const fs::path& path) {
  TokenizerFile file;
  file.source = path.string();
  file.spec = parse_tokenizer(files::read_json(path), file.source);
  fs::path folder = path.parent_path();
  json config = read_if_there(folder / "tokenizer_config.json");
  if (!config.is_null())
    read_tokenizer_config({config, (folder / "tokenizer_config.json").string()}, file.spec);
  read_generation(folder, file.spec);
  file.spec.add_bos = file.spec.add_bos && file.spec.bos != text::kNoToken;
  file.spec.add_eos = file.spec.add_eos && file.spec.eos != text::kNoToken;
  file.chat_template = read_chat_template(folder, config);
  return file;
}

}  // namespace

TokenizerFile read_tokenizer(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return read_folder(path / "tokenizer.json");
  if (path.extension() == ".json") return read_folder(path);
  return read_tokenizer(files::GgufFile::open(path));
}

std::optional<TokenizerFile> find_tokenizer(const ModelFile& file) {
  TokenizerFile found;
  if (file.is_gguf()) {
    if (file.gguf().metadata().string_or("tokenizer.ggml.model", "no_vocab") == "no_vocab")
      return std::nullopt;
    found = read_tokenizer(file.gguf());
  } else {
    std::error_code error;
    if (!fs::exists(file.path(), error)) return std::nullopt;  // a known shape, or in memory
    fs::path folder =
        fs::is_directory(file.path(), error) ? file.path() : file.path().parent_path();
    if (!fs::exists(folder / "tokenizer.json", error)) return std::nullopt;
    found = read_tokenizer(folder);
  }
  text::validate(found.spec);
  return found;
}

text::Tokenizer make_tokenizer(TokenizerFile file) {
  try {
    return text::Tokenizer(std::move(file.spec));
  } catch (const Error& error) {
    throw Error(fmt::format("{} in {}", error.what(), file.source), error.code());
  }
}

text::Tokenizer make_tokenizer(TokenizerFile file, const ModelFile& model) {
  text::Tokenizer tokenizer = make_tokenizer(std::move(file));
  if (tokenizer.vocab_size() > model.config().vocabulary)
    throw file_error("[model] {}: the tokenizer has {} tokens, but the model has {}",
                     model.path().string(), tokenizer.vocab_size(), model.config().vocabulary);
  return tokenizer;
}

bool ends_generation(std::string_view token) {
  constexpr std::array<std::string_view, 6> kNames = {"<|eot_id|>",    "<|eom_id|>",
                                                      "<|im_end|>",    "<end_of_turn>",
                                                      "<|endoftext|>", "<|end_of_text|>"};
  return std::find(kNames.begin(), kNames.end(), token) != kNames.end();
}

}  // namespace ridge::models
