// SPDX-License-Identifier: Apache-2.0
// Tokenizers from model files: the real models' ids against llama.cpp's, tokenizer.json against
// Hugging Face's tokenizers package, and round trips of each format.
#include "models/tokenizer_file.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "files/json.h"
#include "files/scratch.h"
#include "models/tokenizer_fixture.h"
#include "text/nfc.h"

namespace ridge::models {
namespace {

using nlohmann::json;
using text::PreTokenizer;
using text::TokenizerKind;
using text::TokenType;

// The file of a fetched model and llama.cpp's ids for it.
struct RealModel {
  const char* file;
  const char* expected;
};

class RealTokenizer : public testing::TestWithParam<RealModel> {
 protected:
  void SetUp() override {
    path_ = files::fetched_model(GetParam().file);
    if (!std::filesystem::exists(path_))
      GTEST_SKIP() << "no " << GetParam().file << "; make models fetches it";
  }
  std::filesystem::path path_;
};

void expect_published_ids(const text::Tokenizer& tokenizer, const std::string& name) {
  const json expected = files::read_json(test_data("text/" + name));
  ASSERT_EQ(expected.size(), 50u);
  for (const json& each : expected) {
    const std::string text = each["text"];
    for (bool special : {false, true}) {
      Ids ids = tokenizer.encode(text, {.parse_special = special});
      EXPECT_EQ(ids, each[special ? "ids_special" : "ids"].get<Ids>()) << special << ": " << text;
      EXPECT_EQ(tokenizer.decode(ids, {.special = true}), text);
    }
  }
}

TEST_P(RealTokenizer, IdsAgreeWithLlamaCpp) {
  text::Tokenizer tokenizer = load_tokenizer(path_);
  expect_published_ids(tokenizer, GetParam().expected);
}

// Through tokenizer.json, which turns scores into merges and back.
TEST_P(RealTokenizer, HuggingFaceFilesKeepTheIds) {
  TokenizerFile file = read_tokenizer(path_);
  files::ScratchFolder folder;
  write_files(folder, tokenizer_files(file.spec, file.chat_template));
  TokenizerFile back = read_tokenizer(folder.path());
  EXPECT_EQ(back.spec.tokens, file.spec.tokens);
  // tokenizer.json always names the unknown token, regardless of its type in the other file.
  if (file.spec.unknown != text::kNoToken && file.spec.kind == TokenizerKind::kSentencePieceBpe)
    file.spec.types[static_cast<size_t>(file.spec.unknown)] = TokenType::kUnknown;
  EXPECT_EQ(back.spec.types, file.spec.types);
  EXPECT_EQ(back.spec.merges, file.spec.merges);
  EXPECT_EQ(back.spec.end_of_generation, file.spec.end_of_generation);
  EXPECT_EQ(back.chat_template, file.chat_template);
  expect_same_settings(back.spec, file.spec);
  expect_published_ids(make_tokenizer(std::move(back)), GetParam().expected);
}

INSTANTIATE_TEST_SUITE_P(
    Model,
    RealTokenizer,
    testing::Values(RealModel{"gemma-3-270m-q4_k_m.gguf", "tokens_gemma3.json"},
                    RealModel{"SmolLM2-135M-Instruct.Q4_1.gguf", "tokens_smollm2.json"}),
    [](const auto& test) { return std::string(test.index == 0 ? "Gemma3" : "SmolLM2"); });

TEST(RealTokenizers, SaySpecialTokensAndTemplates) {
  std::filesystem::path gemma = files::fetched_model("gemma-3-270m-q4_k_m.gguf");
  std::filesystem::path smollm = files::fetched_model("SmolLM2-135M-Instruct.Q4_1.gguf");
  if (!std::filesystem::exists(gemma) || !std::filesystem::exists(smollm))
    GTEST_SKIP() << "no real models; make models fetches them";
  TokenizerFile g = read_tokenizer(gemma);
  EXPECT_EQ(g.spec.kind, TokenizerKind::kSentencePieceBpe);
  EXPECT_EQ(g.spec.bos, 2);
  EXPECT_EQ(g.spec.eos, 1);
  EXPECT_EQ(g.spec.end_of_generation, (Ids{1, 106}));
  EXPECT_TRUE(g.spec.add_bos);
  EXPECT_FALSE(g.spec.add_space_prefix);
  EXPECT_EQ(g.chat_template, "");
  TokenizerFile s = read_tokenizer(smollm);
  EXPECT_EQ(s.spec.kind, TokenizerKind::kByteLevelBpe);
  EXPECT_EQ(s.spec.pre_tokenizer, PreTokenizer::kSmolLm);
  EXPECT_EQ(s.spec.end_of_generation, (Ids{2, 0}));
  EXPECT_FALSE(s.spec.add_bos);
  EXPECT_EQ(text::ChatTemplate::recognise(s.chat_template).format(),
            text::ChatTemplate::Format::kChatMl);
}

class HuggingFaceTokenizer : public testing::TestWithParam<const char*> {
 protected:
  std::filesystem::path folder() const { return test_data("models/tokenizers") / GetParam(); }
};

TEST_P(HuggingFaceTokenizer, IdsAgreeWithItsOwnPackage) {
  text::Tokenizer tokenizer = load_tokenizer(folder());
  const json expected = files::read_json(folder() / "expected.json");
  for (size_t i = 0; i < expected["texts"].size(); ++i) {
    const std::string text = expected["texts"][i];
    Ids ids = tokenizer.encode(text, {.parse_special = true});
    EXPECT_EQ(ids, expected["ids"][i].get<Ids>()) << text;
    // Decoding the tokens of a text that the vocabulary covers returns the text.
    EXPECT_TRUE(tokenizer.covers_all_bytes());
    const std::optional<std::string> nfc = tokenizer.spec().nfc ? text::to_nfc(text) : std::nullopt;
    EXPECT_EQ(tokenizer.decode(ids, {.special = true}), nfc.value_or(text));
  }
}

TEST_P(HuggingFaceTokenizer, BothFormatsKeepTheSpecification) {
  TokenizerFile file = read_tokenizer(folder());
  file.spec.padding = 0;
  text::validate(file.spec);
  files::ScratchFolder scratch;
  write_files(scratch, tokenizer_files(file.spec, file.chat_template));
  expect_same(read_tokenizer(scratch.path()), file);
  files::GgufWriter writer;
  set_tokenizer(writer, file.spec, file.chat_template);
  writer.write(scratch / "model.gguf", {});
  expect_same(read_tokenizer(scratch / "model.gguf"), file);
}

INSTANTIATE_TEST_SUITE_P(Folder,
                         HuggingFaceTokenizer,
                         testing::Values("gpt2", "smollm", "llama3", "llama2", "gemma", "qwen2"),
                         [](const auto& test) { return std::string(test.param); });

TEST(TokenizerFile, ReadsWhatStandsBesideTokenizerJson) {
  auto spec = [](const char* name) {
    return read_tokenizer(test_data("models/tokenizers") / name).spec;
  };
  EXPECT_EQ(spec("gpt2").pre_tokenizer, PreTokenizer::kGpt2);
  EXPECT_EQ(spec("gpt2").end_of_generation, (Ids{1}));
  EXPECT_FALSE(spec("gpt2").add_bos);
  EXPECT_EQ(spec("gpt2").bos, 0);
  EXPECT_EQ(spec("smollm").pre_tokenizer, PreTokenizer::kSmolLm);
  EXPECT_EQ(spec("smollm").end_of_generation, (Ids{1, 0}));
  EXPECT_EQ(spec("llama3").pre_tokenizer, PreTokenizer::kLlama3);
  EXPECT_TRUE(spec("llama3").whole_piece_first);
  EXPECT_TRUE(spec("llama3").add_bos);
  EXPECT_EQ(read_tokenizer(test_data("models/tokenizers/llama3")).chat_template, "{{ messages }}");
  EXPECT_EQ(spec("qwen2").pre_tokenizer, PreTokenizer::kQwen2);
  EXPECT_TRUE(spec("qwen2").nfc);
  EXPECT_FALSE(spec("qwen2").whole_piece_first || spec("llama3").nfc);
  EXPECT_TRUE(spec("llama2").add_space_prefix);
  EXPECT_EQ(spec("llama2").types[0], TokenType::kUnknown);
  EXPECT_EQ(spec("llama2").types[3], TokenType::kByte);
  EXPECT_FALSE(spec("gemma").add_space_prefix);
  EXPECT_EQ(spec("gemma").types.back(), TokenType::kUserDefined);
}

TEST(TokenizerFile, ErrorsNameTheFile) {
  files::ScratchFolder folder;
  const std::filesystem::path path = folder / "tokenizer.json";
  json document = files::read_json(test_data("models/tokenizers/gpt2/tokenizer.json"));
  files::write_plain(path, document.dump());
  EXPECT_EQ(read_tokenizer(folder.path()).source, path.string());
  document.erase("model");
  files::write_plain(path, document.dump());
  files::expect_error([&] { read_tokenizer(folder.path()); }, ExitCode::kBadFile, path.string());
  TokenizerFile empty;
  empty.source = "some.gguf";
  files::expect_error([&] { make_tokenizer(empty); }, ExitCode::kBadFile, " in some.gguf");
}

// Files write a merge as "left right" or as a list of the two.
TEST(TokenizerFile, BothFormsOfAMergeAreTheSame) {
  for (const char* name : {"gpt2", "smollm", "llama3", "llama2", "gemma", "qwen2"}) {
    json document = files::read_json(test_data("models/tokenizers") / name / "tokenizer.json");
    auto read = [&] { return parse_tokenizer(document, "t.json"); };
    const text::TokenizerSpec expected = read();
    int changed = 0;
    for (json& merge : document["model"]["merges"]) {
      if (merge.is_array()) {
        const std::string left = merge[0], right = merge[1];
        if ((left + right).find(' ') != std::string::npos) continue;
        merge = left + " " + right;
      } else {
        const std::string both = merge;
        const size_t space = both.find(' ');
        merge = json::array({both.substr(0, space), both.substr(space + 1)});
      }
      ++changed;
    }
    EXPECT_GT(changed, 100) << name;
    const text::TokenizerSpec found = read();
    EXPECT_EQ(found.merges, expected.merges) << name;
    EXPECT_EQ(found.scores, expected.scores) << name;
  }
}

// A tokenizer of Qwen's kind that Ridge could not follow exactly is refused by the field's name.
TEST(TokenizerFile, RefusesOtherNormalizers) {
  const json document = files::read_json(test_data("models/tokenizers/qwen2/tokenizer.json"));
  auto refuse = [&](const char* what, auto change) {
    json changed = document;
    change(changed);
    files::expect_error([&] { parse_tokenizer(changed, "t.json"); }, ExitCode::kBadFile, what);
  };
  refuse("NFC", [](json& t) { t["normalizer"]["type"] = "NFKC"; });
  refuse("NFC", [](json& t) {
    t["normalizer"] = {{"type", "Sequence"},
                       {"normalizers", {{{"type", "NFC"}}, {{"type", "Lowercase"}}}}};
  });
  refuse("normalized", [](json& t) { t["added_tokens"][0]["normalized"] = true; });
  json sequence = document;
  sequence["normalizer"] = {{"type", "Sequence"}, {"normalizers", {{{"type", "NFC"}}}}};
  EXPECT_TRUE(parse_tokenizer(sequence, "t.json").nfc);
  sequence["normalizer"]["normalizers"] = json::array();  // as in DeepSeek's distillations
  EXPECT_FALSE(parse_tokenizer(sequence, "t.json").nfc);
}

TEST(TokenizerFile, NfcHasANameOfItsOwnInGguf) {
  files::ScratchFolder folder;
  TokenizerFile file = read_tokenizer(test_data("models/tokenizers/qwen2"));
  for (const auto& [nfc, name] : {std::pair{true, "qwen2"}, {false, "deepseek-r1-qwen"}}) {
    file.spec.nfc = nfc;
    files::GgufWriter writer;
    set_tokenizer(writer, file.spec, "");
    writer.write(folder / "model.gguf", {});
    EXPECT_EQ(files::GgufFile::open(folder / "model.gguf").metadata().string("tokenizer.ggml.pre"),
              name);
    EXPECT_EQ(read_tokenizer(folder / "model.gguf").spec.nfc, nfc);
  }
  file.spec.pre_tokenizer = PreTokenizer::kGpt2;
  file.spec.nfc = true;
  files::GgufWriter writer;
  files::expect_error([&] { set_tokenizer(writer, file.spec, ""); }, ExitCode::kUsage,
                      "GGUF has no name for the pre-tokenizer gpt2");
}

TEST(TokenizerFile, WhatAFileLeavesOutHasItsFormatsMeaning) {
  files::ScratchFolder folder;
  files::GgufWriter pieces;
  TokenizerFile file = read_tokenizer(test_data("models/tokenizers/gemma"));
  pieces.set("tokenizer.ggml.model", files::GgufValue("llama"));
  set_lists(pieces, file.spec);
  pieces.write(folder / "pieces.gguf", {});
  text::TokenizerSpec spec = read_tokenizer(folder / "pieces.gguf").spec;
  EXPECT_TRUE(spec.add_space_prefix);
  EXPECT_TRUE(spec.add_bos);
  EXPECT_FALSE(spec.add_eos);
  EXPECT_EQ(spec.unknown, 0);
  EXPECT_EQ(spec.bos, 1);
  EXPECT_EQ(spec.eos, 2);
  files::GgufWriter bytes;
  bytes.set("tokenizer.ggml.model", files::GgufValue("gpt2"));
  bytes.set("tokenizer.ggml.pre", files::GgufValue("gpt-2"));
  set_lists(bytes, read_tokenizer(test_data("models/tokenizers/gpt2")).spec);
  bytes.write(folder / "bytes.gguf", {});
  spec = read_tokenizer(folder / "bytes.gguf").spec;
  EXPECT_FALSE(spec.add_space_prefix || spec.add_bos || spec.add_eos);
  EXPECT_EQ(spec.bos, text::kNoToken);
  EXPECT_EQ(spec.eos, text::kNoToken);
}

}  // namespace
}  // namespace ridge::models
