// SPDX-License-Identifier: Apache-2.0
// Reads Hugging Face's tokenizer.json, for byte-level BPE and SentencePiece-style BPE. A file that
// Ridge cannot follow exactly (another normalizer, another split, lossy options) is rejected;
// nothing is guessed.
#include <algorithm>
#include <limits>
#include <unordered_map>

#include "files/json_field.h"
#include "models/tokenizer_file.h"
#include "text/tokenizer_tables.h"

namespace ridge::models {
namespace {

using files::JsonField;
using nlohmann::json;
using text::PreTokenizer;
using text::TokenizerKind;
using text::TokenizerSpec;
using text::TokenType;

// The most unused ids in a file. They are limited because each id up to the last one takes memory.
constexpr size_t kMostHoles = 65536;
constexpr const char* kSpaceMarkName = "\"\\xe2\\x96\\x81\"";  // U+2581 as messages show it

// Other spellings of the patterns in text/: Llama 3's without the case flag, as Ridge wrote it
// before, and GPT-2's.
constexpr std::string_view kLlama3WithoutCase =
    R"('(?:[sS]|[tT]|[rR][eE]|[vV][eE]|[mM]|[lL][lL]|[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kGpt2AsWritten =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// The steps of a normalizer, pre-tokenizer or post-processor, which may be none, one or a
// "Sequence".
std::vector<JsonField> steps(const JsonField& file, const char* key, const char* members) {
  if (!file.has(key)) return {};
  JsonField one = file.at(key);
  if (one.at("type").text() != "Sequence") return {one};
  JsonField list = one.at(members);
  std::vector<JsonField> all;
  for (size_t i = 0; i < list.list().size(); ++i) all.push_back(list.at(i));
  return all;
}

bool is_type(const JsonField& step, const char* type) { return step.at("type").text() == type; }

void read_model_options(const JsonField& model, TokenizerSpec& spec) {
  JsonField type = model.at("type");
  if (type.text() != "BPE") throw type.fault("\"BPE\"");
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (!model.text_or(key, "").empty()) throw model.at(key).fault("none");
  if (model.has("dropout") && model.at("dropout").value() != 0.0)
    throw model.at("dropout").fault("none");
  bool pieces = model.flag_or("byte_fallback", false);
  spec.kind = pieces ? TokenizerKind::kSentencePieceBpe : TokenizerKind::kByteLevelBpe;
  spec.whole_piece_first = model.flag_or("ignore_merges", false);
  if (pieces && spec.whole_piece_first)
    throw model.at("ignore_merges").fault("false next to byte_fallback");
}

// SentencePiece files spell the spaces of a token as U+2581.
std::string unescaped(std::string_view token) {
  std::string plain;
  for (size_t mark; (mark = token.find(text::kSpaceMark)) != std::string_view::npos;) {
    plain.append(token.substr(0, mark)) += ' ';
    token.remove_prefix(mark + text::kSpaceMark.size());
  }
  return plain.append(token);
}

// An added token that is normalized would be searched for in the text's NFC.
void check_added_tokens(const JsonField& file) {
  if (!file.has("added_tokens")) return;
  for (const JsonField& each : file.at("added_tokens").items())
    if (each.flag_or("normalized", false))
      throw each.at("normalized").fault("false next to the normalizer NFC", "true");
}

PreTokenizer pattern(const JsonField& split) {
  if (split.text_or("behavior", "") != "Isolated")
    throw split.fault("the behavior \"Isolated\"", "another");
  if (split.flag_or("invert", false)) throw split.at("invert").fault("false");
  const std::string& regex = split.at("pattern").at("Regex").text();
  if (regex == text::kLlama3Pattern || regex == kLlama3WithoutCase) return PreTokenizer::kLlama3;
  if (regex == text::kQwen2Pattern) return PreTokenizer::kQwen2;
  if (regex == kGpt2AsWritten || regex == text::kGpt2Pattern) return PreTokenizer::kGpt2;
  throw split.at("pattern").at("Regex").fault("the pattern of GPT-2, Llama 3 or Qwen 2");
}

void read_byte_level_steps(const JsonField& file, TokenizerSpec& spec) {
  for (const JsonField& step : steps(file, "normalizer", "normalizers")) {
    if (!is_type(step, "NFC")) throw step.at("type").fault("\"NFC\" or none for byte-level BPE");
    spec.nfc = true;
  }
  if (spec.nfc) check_added_tokens(file);
  std::vector<JsonField> cuts = steps(file, "pre_tokenizer", "pretokenizers");
  if (cuts.empty() || !is_type(cuts.back(), "ByteLevel"))
    throw file.fault("a pre_tokenizer that ends in ByteLevel, or byte_fallback in the model",
                     "neither");
  const JsonField& bytes = cuts.back();
  if (bytes.flag_or("add_prefix_space", true)) throw bytes.fault("add_prefix_space false", "true");
  bool gpt2_cuts = bytes.flag_or("use_regex", true);
  if (cuts.size() == 1 && gpt2_cuts) {
    spec.pre_tokenizer = PreTokenizer::kGpt2;
  } else if (cuts.size() == 1) {
    spec.pre_tokenizer = PreTokenizer::kNone;
  } else if (cuts.size() == 2 && is_type(cuts[0], "Digits") && gpt2_cuts) {
    if (!cuts[0].flag_or("individual_digits", false))
      throw cuts[0].fault("individual_digits true", "false");
    spec.pre_tokenizer = PreTokenizer::kSmolLm;
  } else if (cuts.size() == 2 && is_type(cuts[0], "Split") && !gpt2_cuts) {
    spec.pre_tokenizer = pattern(cuts[0]);
  } else {
    throw file.at("pre_tokenizer").fault("the cuts of GPT-2, Llama 3, SmolLM or Qwen 2", "others");
  }
}

void read_metaspace(const JsonField& step, TokenizerSpec& spec) {
  if (step.text_or("replacement", "\u2581") != text::kSpaceMark)
    throw step.at("replacement").fault(kSpaceMarkName);
  if (step.flag_or("split", true)) throw step.fault("split false", "true");
  bool prefix = step.flag_or("add_prefix_space", true);
  if (step.has("prepend_scheme")) {
    const std::string& scheme = step.at("prepend_scheme").text();
    if (scheme != "always" && scheme != "first" && scheme != "never")
      throw step.at("prepend_scheme").fault("\"always\", \"first\" or \"never\"");
    prefix = scheme != "never";
  }
  spec.add_space_prefix = prefix;
}

// Spaces become U+2581 by a normalizer, or by Metaspace, which may also put one before the text.
void read_sentencepiece_steps(const JsonField& file, TokenizerSpec& spec) {
  bool marks_spaces = false;
  for (const JsonField& step : steps(file, "normalizer", "normalizers")) {
    if (is_type(step, "Prepend")) {
      if (step.at("prepend").text() != text::kSpaceMark)
        throw step.at("prepend").fault(kSpaceMarkName);
      spec.add_space_prefix = true;
    } else if (is_type(step, "Replace")) {
      if (step.at("pattern").at("String").text() != " ")
        throw step.at("pattern").at("String").fault("\" \"");
      if (step.at("content").text() != text::kSpaceMark)
        throw step.at("content").fault(kSpaceMarkName);
      marks_spaces = true;
    } else {
      throw step.at("type").fault("\"Prepend\" or \"Replace\"");
    }
  }
  for (const JsonField& step : steps(file, "pre_tokenizer", "pretokenizers")) {
    if (is_type(step, "Metaspace")) {
      read_metaspace(step, spec);
      marks_spaces = true;
    } else if (!is_type(step, "Split") || step.at("pattern").at("String").text() != " " ||
               !marks_spaces) {
      // A split at spaces finds none once they are marked (Gemma's files have it).
      throw step.fault("Metaspace, or a Split at \" \" behind a normalizer that replaces it",
                       "another step");
    }
  }
  if (!marks_spaces)
    throw file.fault(fmt::format("spaces that become {}", kSpaceMarkName), "no step that does it");
}

class TokenizerJsonReader {
 public:
  TokenizerJsonReader(const json& document, std::string_view source)
      : file_(document, std::string(source)), model_(file_.at("model")) {}

  TokenizerSpec read() {
    read_model_options(model_, spec_);
    read_vocabulary();
    read_added_tokens();
    const bool is_pieces = spec_.kind == TokenizerKind::kSentencePieceBpe;
    is_pieces ? read_sentencepiece_steps(file_, spec_) : read_byte_level_steps(file_, spec_);
    read_unknown();
    is_pieces ? read_scores() : read_merges();
    read_post_processor();
    return std::move(spec_);
  }

 private:
  size_t checked_id(const JsonField& where, int64_t id, int64_t limit) const {
    if (id < 0 || id >= limit)
      throw where.fault(fmt::format("ids from 0 to {}", limit - 1), fmt::to_string(id));
    return static_cast<size_t>(id);
  }

  // The limit of the ids in a file, from the number of tokens that it lists.
  int64_t id_limit() const {
    size_t listed = model_.at("vocab").object().size();
    if (file_.has("added_tokens")) listed += file_.at("added_tokens").list().size();
    return static_cast<int64_t>(std::min(listed + kMostHoles, text::kMaxTokens));
  }

  void grow_to(size_t id) {
    if (id < spec_.tokens.size()) return;
    spec_.tokens.resize(id + 1);
    spec_.types.resize(id + 1, TokenType::kNormal);
  }

  void read_vocabulary() {
    JsonField vocab = model_.at("vocab");
    int64_t limit = id_limit();
    ids_.reserve(vocab.object().size());
    for (const auto& [token, value] : vocab.object().items()) {
      if (!value.is_number_integer())
        throw vocab.fault("an integer for " + printable(token), value.type_name());
      size_t id = checked_id(vocab, value.get<int64_t>(), limit);
      grow_to(id);
      if (!spec_.tokens[id].empty())
        throw vocab.fault(fmt::format("one token of id {}", id),
                          fmt::format("{} and {}", printable(spec_.tokens[id]), printable(token)));
      spec_.tokens[id] = token;
      ids_.emplace(token, static_cast<int32_t>(id));
      if (spec_.kind == TokenizerKind::kSentencePieceBpe && text::byte_of(token) >= 0)
        spec_.types[id] = TokenType::kByte;
    }
  }

  void read_added_tokens() {
    if (!file_.has("added_tokens")) return;
    JsonField added = file_.at("added_tokens");
    int64_t limit = id_limit();
    for (size_t i = 0; i < added.list().size(); ++i) {
      JsonField each = added.at(i);
      for (const char* option : {"lstrip", "rstrip", "single_word"})
        if (each.flag_or(option, false)) throw each.at(option).fault("false");
      const std::string& content = each.at("content").text();
      size_t id = checked_id(each.at("id"), each.at("id").integer(0, INT32_MAX), limit);
      grow_to(id);
      if (!spec_.tokens[id].empty() && spec_.tokens[id] != content)
        throw each.at("id").fault(fmt::format("an id of its own for {}", printable(content)),
                                  fmt::format("{}, which is {}", id, printable(spec_.tokens[id])));
      spec_.tokens[id] = content;
      ids_.emplace(content, static_cast<int32_t>(id));
      bool special = each.flag_or("special", false);
      spec_.types[id] = special ? TokenType::kControl : TokenType::kUserDefined;
      // SentencePiece files spell the spaces of such a token as U+2581; text has spaces.
      if (!special && spec_.kind == TokenizerKind::kSentencePieceBpe)
        spec_.tokens[id] = unescaped(content);
    }
  }

  int32_t find(const std::string& token) const {
    auto found = ids_.find(token);
    return found == ids_.end() ? text::kNoToken : found->second;
  }

  void read_unknown() {
    if (!model_.has("unk_token")) return;
    const JsonField name = model_.at("unk_token");
    spec_.unknown = find(name.text());
    if (spec_.kind == TokenizerKind::kByteLevelBpe) return;
    if (spec_.unknown == text::kNoToken) throw name.fault("a token of the vocabulary");
    spec_.types[static_cast<size_t>(spec_.unknown)] = TokenType::kUnknown;
  }

  // Calls take(rank, left, right) for each merge, which is "left right" or ["left", "right"].
  template <typename Take>
  void each_merge(Take take) const {
    JsonField merges = model_.at("merges");
    const json& list = merges.list();
    if (list.size() > text::kMaxTokens)
      throw merges.fault(fmt::format("at most {} merges", text::kMaxTokens),
                         fmt::to_string(list.size()));
    for (size_t rank = 0; rank < list.size(); ++rank) {
      const json& merge = list[rank];
      if (merge.is_string()) {
        std::string_view pair = merge.get_ref<const std::string&>();
        size_t space = pair.find(' ');
        if (space == std::string_view::npos)
          throw merges.at(rank).fault("two tokens with a space between");
        take(rank, pair.substr(0, space), pair.substr(space + 1));
      } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
                 merge[1].is_string()) {
        take(rank, std::string_view(merge[0].get_ref<const std::string&>()),
             std::string_view(merge[1].get_ref<const std::string&>()));
      } else {
        throw merges.at(rank).fault("\"left right\" or a list of two strings");
      }
    }
  }

  void read_merges() {
    spec_.merges.reserve(std::min(model_.at("merges").list().size(), text::kMaxTokens));
    each_merge([&](size_t, std::string_view left, std::string_view right) {
      spec_.merges.push_back(fmt::format("{} {}", left, right));
    });
  }

  // A token that no merge makes scores below all tokens that a merge makes.
  void read_scores() {
    const float last = -static_cast<float>(model_.at("merges").list().size()) - 1;
    spec_.scores.assign(spec_.tokens.size(), last);
    std::vector<bool> made(spec_.tokens.size());
    JsonField merges = model_.at("merges");
    std::string joined;
    each_merge([&](size_t rank, std::string_view left, std::string_view right) {
      joined.assign(left).append(right);
      int32_t id = find(joined);
      if (id == text::kNoToken)
        throw merges.at(rank).fault("a merge that makes a token", printable(joined));
      if (made[static_cast<size_t>(id)]) return;
      made[static_cast<size_t>(id)] = true;
      spec_.scores[static_cast<size_t>(id)] = -static_cast<float>(rank);
    });
  }

  // The template for a single text lists the special tokens before and after it.
  void read_post_processor() {
    for (const JsonField& step : steps(file_, "post_processor", "processors")) {
      if (is_type(step, "ByteLevel")) continue;
      if (!is_type(step, "TemplateProcessing"))
        throw step.at("type").fault("\"TemplateProcessing\" or \"ByteLevel\"");
      JsonField single = step.at("single");
      bool behind = false;
      for (size_t i = 0; i < single.list().size(); ++i) {
        JsonField part = single.at(i);
        if (part.has("Sequence")) {
          behind = true;
          continue;
        }
        JsonField name = part.at("SpecialToken").at("id");
        int32_t id = find(name.text());
        if (id == text::kNoToken) throw name.fault("a token of the vocabulary");
        (behind ? spec_.eos : spec_.bos) = id;
        (behind ? spec_.add_eos : spec_.add_bos) = true;
      }
    }
  }

  JsonField file_;
  JsonField model_;
  TokenizerSpec spec_;
  std::unordered_map<std::string, int32_t> ids_;  // by the text in the file
};

}  // namespace

TokenizerSpec parse_tokenizer(const json& document, std::string_view source) {
  return TokenizerJsonReader(document, source).read();
}

}  // namespace ridge::models
