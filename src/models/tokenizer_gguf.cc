// SPDX-License-Identifier: Apache-2.0
// Reads and writes GGUF's keys tokenizer.*.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/printable.h"
#include "models/tokenizer_file.h"

namespace ridge::models {
namespace {

using files::GgufMetadata;
using text::PreTokenizer;
using text::TokenizerKind;
using text::TokenizerSpec;
using text::TokenType;

constexpr const char* kTokens = "tokenizer.ggml.tokens";
constexpr const char* kTypes = "tokenizer.ggml.token_type";
constexpr const char* kScores = "tokenizer.ggml.scores";
constexpr const char* kMerges = "tokenizer.ggml.merges";
constexpr const char* kChatTemplate = "tokenizer.chat_template";

// tokenizer.ggml.pre of byte-level models; the first name of a kind is the one that is written.
struct GgufPreTokenizer {
  std::string_view name;
  PreTokenizer kind;
  bool whole_piece_first, nfc;
};
constexpr std::array<GgufPreTokenizer, 7> kGgufPreTokenizers = {{
    {"gpt-2", PreTokenizer::kGpt2, false, false},
    {"llama-bpe", PreTokenizer::kLlama3, true, false},
    {"llama3", PreTokenizer::kLlama3, true, false},
    {"llama-v3", PreTokenizer::kLlama3, true, false},
    {"smollm", PreTokenizer::kSmolLm, false, false},
    {"qwen2", PreTokenizer::kQwen2, false, true},
    {"deepseek-r1-qwen", PreTokenizer::kQwen2, false, false},
}};

class GgufTokenizerReader {
 public:
  explicit GgufTokenizerReader(const files::GgufFile& file)
      : m_(file.metadata()), source_(file.tensors().source()) {}

  TokenizerFile read() {
    read_kind();
    read_tokens();
    if (spec_.kind == TokenizerKind::kSentencePieceBpe)
      spec_.scores = m_.reals(kScores);
    else
      for (std::string_view merge : m_.strings(kMerges)) spec_.merges.emplace_back(merge);
    read_ids();
    std::string_view chat_template = m_.string_or(kChatTemplate, "");
    if (chat_template.size() > text::ChatTemplate::kMaxTemplateBytes)
      throw fault(kChatTemplate,
                  fmt::format("expected at most {} bytes, found {}",
                              text::ChatTemplate::kMaxTemplateBytes, chat_template.size()));
    return {std::move(spec_), std::string(chat_template), source_};
  }

 private:
  Error fault(const char* key, const std::string& message) const {
    return file_error("[{}] key {}: {}", source_, key, message);
  }

  void read_kind() {
    std::string_view model = m_.string("tokenizer.ggml.model");
    if (model == "llama") {
      spec_.kind = TokenizerKind::kSentencePieceBpe;
      return;
    }
    if (model != "gpt2")
      throw fault("tokenizer.ggml.model",
                  fmt::format("expected \"gpt2\" or \"llama\", found {}", printable(model)));
    spec_.kind = TokenizerKind::kByteLevelBpe;
    std::string_view pre = m_.string("tokenizer.ggml.pre");
    std::string known;
    for (const GgufPreTokenizer& each : kGgufPreTokenizers) {
      known += fmt::format("{}\"{}\"", known.empty() ? "" : ", ", each.name);
      if (each.name != pre) continue;
      spec_.pre_tokenizer = each.kind;
      spec_.whole_piece_first = each.whole_piece_first;
      spec_.nfc = each.nfc;
      return;
    }
    throw fault("tokenizer.ggml.pre",
                fmt::format("expected one of {}, found {}", known, printable(pre)));
  }

  void read_tokens() {
    const std::vector<std::string_view> tokens = m_.strings(kTokens);
    spec_.tokens.reserve(tokens.size());
    for (std::string_view token : tokens) spec_.tokens.emplace_back(token);
    if (!m_.contains(kTypes)) return;
    const std::vector<int64_t> types = m_.integers(kTypes);
    spec_.types.reserve(types.size());
    for (size_t id = 0; id < types.size(); ++id) {
      if (types[id] < 1 || types[id] > 6)
        throw fault(kTypes, fmt::format("expected 1 to 6 for token {}, found {}", id, types[id]));
      spec_.types.push_back(static_cast<TokenType>(types[id] - 1));
    }
  }

  int32_t id(const char* key, int32_t fallback = text::kNoToken) const {
    auto count = static_cast<int64_t>(spec_.tokens.size());
    if (!m_.contains(key)) return fallback < count ? fallback : text::kNoToken;
    return static_cast<int32_t>(m_.integer(key, {0, std::min<int64_t>(count, INT32_MAX) - 1}));
  }

  // The defaults of SentencePiece are those of its own models: ids 0, 1 and 2 are <unk>, <s> and
  // </s>, and <s> and a space come before the text. Byte-level files have no such defaults, except
  // that Llama 3's models expect BOS.
  void read_ids() {
    bool pieces = spec_.kind == TokenizerKind::kSentencePieceBpe;
    spec_.unknown = id("tokenizer.ggml.unknown_token_id", pieces ? 0 : text::kNoToken);
    spec_.bos = id("tokenizer.ggml.bos_token_id", pieces ? 1 : text::kNoToken);
    spec_.eos = id("tokenizer.ggml.eos_token_id", pieces ? 2 : text::kNoToken);
    spec_.padding = id("tokenizer.ggml.padding_token_id");
    spec_.add_space_prefix = m_.boolean_or("tokenizer.ggml.add_space_prefix", pieces);
    bool wants_bos = pieces || spec_.pre_tokenizer == PreTokenizer::kLlama3;
    spec_.add_bos =
        m_.boolean_or("tokenizer.ggml.add_bos_token", wants_bos) && spec_.bos != text::kNoToken;
    spec_.add_eos =
        m_.boolean_or("tokenizer.ggml.add_eos_token", false) && spec_.eos != text::kNoToken;
    for (int32_t end :
         {spec_.eos, id("tokenizer.ggml.eot_token_id"), id("tokenizer.ggml.eom_token_id")})
      add_end(end);
    for (size_t token = 0; token < spec_.types.size() && token < spec_.tokens.size(); ++token)
      if (spec_.types[token] == TokenType::kControl && ends_generation(spec_.tokens[token]))
        add_end(static_cast<int32_t>(token));
  }

  void add_end(int32_t token) {
    std::vector<int32_t>& ends = spec_.end_of_generation;
    if (token != text::kNoToken && std::find(ends.begin(), ends.end(), token) == ends.end())
      ends.push_back(token);
  }

  const GgufMetadata& m_;
  std::string source_;
  TokenizerSpec spec_;
};

std::string_view pre_name(const TokenizerSpec& spec) {
  if (spec.kind == TokenizerKind::kSentencePieceBpe) return "default";
  for (const GgufPreTokenizer& each : kGgufPreTokenizers)
    if (each.kind == spec.pre_tokenizer && each.whole_piece_first == spec.whole_piece_first &&
        each.nfc == spec.nfc)
      return each.name;
  throw usage_error(
      "[tokenizer] GGUF has no name for the pre-tokenizer {} {} whole pieces first and {} NFC",
      text::name(spec.pre_tokenizer), spec.whole_piece_first ? "with" : "without",
      spec.nfc ? "with" : "without");
}

// GGUF numbers its types from 1 in the order of TokenType. An unused id needs a unique name there.
void set_vocabulary(files::GgufWriter& writer, const TokenizerSpec& spec) {
  std::vector<std::string> tokens = spec.tokens;
  std::vector<int32_t> types;
  types.reserve(tokens.size());
  for (size_t id = 0; id < tokens.size(); ++id) {
    TokenType type = spec.types.empty() ? TokenType::kNormal : spec.types[id];
    if (tokens[id].empty()) {
      tokens[id] = fmt::format("[PAD{}]", id);
      type = TokenType::kUnused;
    }
    types.push_back(static_cast<int32_t>(type) + 1);
  }
  writer.set(kTokens, files::GgufValue::list(std::span<const std::string>(tokens)));
  writer.set(kTypes, files::GgufValue::list(std::span<const int32_t>(types)));
}

}  // namespace

TokenizerFile read_tokenizer(const files::GgufFile& file) {
  return GgufTokenizerReader(file).read();
}

void set_tokenizer(files::GgufWriter& writer,
                   const TokenizerSpec& spec,
                   std::string_view chat_template) {
  bool pieces = spec.kind == TokenizerKind::kSentencePieceBpe;
  writer.set("tokenizer.ggml.model", files::GgufValue(pieces ? "llama" : "gpt2"));
  writer.set("tokenizer.ggml.pre", files::GgufValue(pre_name(spec)));
  set_vocabulary(writer, spec);
  if (pieces)
    writer.set(kScores, files::GgufValue::list(std::span<const float>(spec.scores)));
  else
    writer.set(kMerges, files::GgufValue::list(std::span<const std::string>(spec.merges)));
  auto set_id = [&](const char* key, int32_t id) {
    if (id != text::kNoToken) writer.set(key, files::GgufValue(static_cast<uint32_t>(id)));
  };
  set_id("tokenizer.ggml.bos_token_id", spec.bos);
  set_id("tokenizer.ggml.eos_token_id", spec.eos);
  set_id("tokenizer.ggml.unknown_token_id", spec.unknown);
  set_id("tokenizer.ggml.padding_token_id", spec.padding);
  // Readers find ends of a turn by name. One besides EOS that they would not find gets its own key.
  for (int32_t end : spec.end_of_generation)
    if (end != spec.eos && !ends_generation(spec.tokens[static_cast<size_t>(end)])) {
      set_id("tokenizer.ggml.eot_token_id", end);
      break;
    }
  writer.set("tokenizer.ggml.add_bos_token", files::GgufValue(spec.add_bos));
  writer.set("tokenizer.ggml.add_eos_token", files::GgufValue(spec.add_eos));
  writer.set("tokenizer.ggml.add_space_prefix", files::GgufValue(spec.add_space_prefix));
  if (!chat_template.empty()) writer.set(kChatTemplate, files::GgufValue(chat_template));
}

}  // namespace ridge::models
