// SPDX-License-Identifier: Apache-2.0
// Writes the files from which transformers reads a tokenizer, as its own tools would.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"
#include "base/printable.h"
#include "models/tokenizer_file.h"
#include "text/token_index.h"
#include "text/tokenizer_tables.h"
#include "text/utf8.h"

namespace ridge::models {
namespace {

using json = nlohmann::ordered_json;
using text::PreTokenizer;
using text::TokenizerKind;
using text::TokenizerSpec;
using text::TokenType;

std::string json_text(std::string_view text) {
  if (!text::is_valid_utf8(text))
    throw file_error("[tokenizer] JSON cannot hold {}, which is not UTF-8", printable(text));
  return json(text).dump();
}

bool is_pieces(const TokenizerSpec& spec) { return spec.kind == TokenizerKind::kSentencePieceBpe; }

bool is_special(TokenType type) {
  return type == TokenType::kControl || type == TokenType::kUnknown;
}

const std::string* name_of(const TokenizerSpec& spec, int32_t id) {
  return id == text::kNoToken ? nullptr : &spec.tokens[static_cast<size_t>(id)];
}

json byte_level_step(bool use_regex) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", use_regex}};
}

json pre_tokenizer(const TokenizerSpec& spec) {
  if (is_pieces(spec)) return nullptr;
  json first;
  switch (spec.pre_tokenizer) {
    case PreTokenizer::kNone:
      return byte_level_step(false);
    case PreTokenizer::kGpt2:
      return byte_level_step(true);
    case PreTokenizer::kSmolLm:
      first = {{"type", "Digits"}, {"individual_digits", true}};
      return {{"type", "Sequence"}, {"pretokenizers", {first, byte_level_step(true)}}};
    case PreTokenizer::kLlama3:
    case PreTokenizer::kQwen2:
      first = {{"type", "Split"},
               {"pattern",
                {{"Regex", spec.pre_tokenizer == PreTokenizer::kQwen2 ? text::kQwen2Pattern
                                                                      : text::kLlama3Pattern}}},
               {"behavior", "Isolated"},
               {"invert", false}};
      return {{"type", "Sequence"}, {"pretokenizers", {first, byte_level_step(false)}}};
  }
  RIDGE_CHECK(false, "pre-tokenizer {}", static_cast<int>(spec.pre_tokenizer));
}

json normalizer(const TokenizerSpec& spec) {
  if (!is_pieces(spec)) return spec.nfc ? json{{"type", "NFC"}} : json();
  json replace = {
      {"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", text::kSpaceMark}};
  if (!spec.add_space_prefix) return replace;
  json prepend = {{"type", "Prepend"}, {"prepend", text::kSpaceMark}};
  return {{"type", "Sequence"}, {"normalizers", {prepend, replace}}};
}

json decoder(const TokenizerSpec& spec) {
  if (!is_pieces(spec)) return byte_level_step(true);
  json steps = json::array(
      {{{"type", "Replace"}, {"pattern", {{"String", text::kSpaceMark}}}, {"content", " "}},
       {{"type", "ByteFallback"}},
       {{"type", "Fuse"}}});
  if (spec.add_space_prefix)
    steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return {{"type", "Sequence"}, {"decoders", steps}};
}

json post_processor(const TokenizerSpec& spec) {
  json bytes = is_pieces(spec) ? json() : byte_level_step(true);
  const std::string* bos = spec.add_bos ? name_of(spec, spec.bos) : nullptr;
  const std::string* eos = spec.add_eos ? name_of(spec, spec.eos) : nullptr;
  if (bos == nullptr && eos == nullptr) return bytes;
  json single = json::array(), pair = json::array(), tokens = json::object();
  auto add_special = [&](const std::string* token, int32_t id) {
    if (token == nullptr) return;
    single.push_back({{"SpecialToken", {{"id", *token}, {"type_id", 0}}}});
    tokens[*token] = {{"id", *token}, {"ids", {id}}, {"tokens", {*token}}};
  };
  add_special(bos, spec.bos);
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  add_special(eos, spec.eos);
  pair = single;
  for (json part : single) {
    for (auto& each : part) each["type_id"] = 1;
    if (part.contains("Sequence")) part["Sequence"]["id"] = "B";
    pair.push_back(part);
  }
  json words = {{"type", "TemplateProcessing"},
                {"single", single},
                {"pair", pair},
                {"special_tokens", tokens}};
  if (bytes.is_null()) return words;
  return {{"type", "Sequence"}, {"processors", {bytes, words}}};
}

json added_tokens(const TokenizerSpec& spec) {
  json list = json::array();
  for (size_t id = 0; id < spec.types.size(); ++id) {
    bool special = is_special(spec.types[id]);
    if (spec.tokens[id].empty() || (!special && spec.types[id] != TokenType::kUserDefined))
      continue;
    list.push_back({{"id", id},
                    {"content", spec.tokens[id]},
                    {"single_word", false},
                    {"lstrip", false},
                    {"rstrip", false},
                    {"normalized", false},
                    {"special", special}});
  }
  return list;
}

// One token per line, in the order of ids. Not built as json, which would sort or copy a vocabulary
// of 262,144 tokens.
std::string vocabulary_text(const TokenizerSpec& spec, std::string_view indent) {
  std::string out = "{";
  for (size_t id = 0; id < spec.tokens.size(); ++id)
    if (!spec.tokens[id].empty())
      out += fmt::format("{}\n{}  {}: {}", out.size() > 1 ? "," : "", indent,
                         json_text(spec.tokens[id]), id);
  return out + fmt::format("\n{}}}", indent);
}

struct Pair {
  float score;
  int32_t token;
  uint32_t cut;  // bytes of the left part
};

// One merge for each split of a token into two others, in the order in which scores would join
// them.
std::vector<Pair> pairs_by_score(const TokenizerSpec& spec) {
  text::TokenIndex index(spec.tokens.size());
  auto joins = [&](size_t id) {
    TokenType type = text::type_of(spec, static_cast<int32_t>(id));
    return !is_special(type) && type != TokenType::kByte && type != TokenType::kUserDefined;
  };
  for (size_t id = 0; id < spec.tokens.size(); ++id)
    if (joins(id)) index.insert(spec.tokens[id], static_cast<int32_t>(id));
  std::vector<Pair> pairs;
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    std::string_view token = spec.tokens[id];
    if (!joins(id)) continue;
    for (size_t cut = 1; cut < token.size(); ++cut)
      if (index.find(token.substr(0, cut)) >= 0 && index.find(token.substr(cut)) >= 0)
        pairs.push_back({spec.scores[id], static_cast<int32_t>(id), static_cast<uint32_t>(cut)});
  }
  std::stable_sort(pairs.begin(), pairs.end(),
                   [](const Pair& a, const Pair& b) { return a.score > b.score; });
  return pairs;
}

std::string merges_text(const TokenizerSpec& spec) {
  std::string out = "[";
  auto add = [&](std::string_view left, std::string_view right) {
    out += fmt::format("{}\n      [{}, {}]", out.size() > 1 ? "," : "", json_text(left),
                       json_text(right));
  };
  if (is_pieces(spec)) {
    for (const Pair& pair : pairs_by_score(spec)) {
      std::string_view token = spec.tokens[static_cast<size_t>(pair.token)];
      add(token.substr(0, pair.cut), token.substr(pair.cut));
    }
  } else {
    for (std::string_view merge : spec.merges) {
      size_t space = merge.find(' ');
      add(merge.substr(0, space), merge.substr(space + 1));
    }
  }
  return out + "\n    ]";
}

std::string tokenizer_json(const TokenizerSpec& spec) {
  const std::string* unknown = name_of(spec, spec.unknown);
  std::string out = "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n";
  auto add = [&](const char* key, const json& value) {
    out += fmt::format("  \"{}\": {},\n", key, value.dump());
  };
  // Throws if JSON cannot represent a token, before json sees it.
  for (const std::string& token : spec.tokens) json_text(token);
  add("added_tokens", added_tokens(spec));
  add("normalizer", normalizer(spec));
  add("pre_tokenizer", pre_tokenizer(spec));
  add("post_processor", post_processor(spec));
  add("decoder", decoder(spec));
  json unk_token = is_pieces(spec) && unknown != nullptr ? json(*unknown) : json();
  out += fmt::format(
      "  \"model\": {{\n    \"type\": \"BPE\",\n    \"dropout\": null,\n    \"unk_token\": {},\n"
      "    \"continuing_subword_prefix\": null,\n    \"end_of_word_suffix\": null,\n    "
      "\"fuse_unk\": {},\n"
      "    \"byte_fallback\": {},\n    \"ignore_merges\": {},\n    \"vocab\": {},\n    \"merges\": "
      "{}\n  }}\n}}\n",
      unk_token.dump(), is_pieces(spec), is_pieces(spec), spec.whole_piece_first,
      vocabulary_text(spec, "    "), merges_text(spec));
  return out;
}

std::string tokenizer_config(const TokenizerSpec& spec, std::string_view chat_template) {
  json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                 {"add_bos_token", spec.add_bos},
                 {"add_eos_token", spec.add_eos},
                 {"clean_up_tokenization_spaces", false}};
  auto add = [&](const char* key, int32_t id) {
    if (const std::string* token = name_of(spec, id)) config[key] = *token;
  };
  add("bos_token", spec.bos);
  add("eos_token", spec.eos);
  add("unk_token", spec.unknown);
  add("pad_token", spec.padding);
  if (!chat_template.empty()) {
    json_text(chat_template);
    config["chat_template"] = chat_template;
  }
  return config.dump(2) + "\n";
}

std::string generation_config(const TokenizerSpec& spec) {
  json config = json::object();
  if (spec.bos != text::kNoToken) config["bos_token_id"] = spec.bos;
  if (!spec.end_of_generation.empty()) config["eos_token_id"] = spec.end_of_generation;
  if (spec.padding != text::kNoToken) config["pad_token_id"] = spec.padding;
  return config.dump(2) + "\n";
}

}  // namespace

std::vector<std::pair<std::string, std::string>> tokenizer_files(const TokenizerSpec& spec,
                                                                 std::string_view chat_template) {
  std::vector<std::pair<std::string, std::string>> files;
  files.emplace_back("tokenizer.json", tokenizer_json(spec));
  files.emplace_back("tokenizer_config.json", tokenizer_config(spec, chat_template));
  files.emplace_back("generation_config.json", generation_config(spec));
  if (is_pieces(spec)) return files;
  files.emplace_back("vocab.json", vocabulary_text(spec, "") + "\n");
  std::string merges = "#version: 0.2\n";
  for (const std::string& merge : spec.merges) merges += merge + "\n";
  files.emplace_back("merges.txt", merges);
  return files;
}

}  // namespace ridge::models
