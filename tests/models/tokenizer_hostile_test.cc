// SPDX-License-Identifier: Apache-2.0
// Tokenizers from invalid files: each field at its extremes, and the real models' headers with
// changed bytes. Each is read or throws a bad-file Error of one line.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "files/damage.h"
#include "files/json.h"
#include "models/tokenizer_fixture.h"
#include "test_paths.h"

namespace ridge::models {
namespace {

using files::GgufValue;
using nlohmann::json;

void expect_refused(const std::function<void()>& act, const std::string& part) {
  files::expect_error(act, ExitCode::kBadFile, part);
}

// A valid SentencePiece tokenizer with one key changed.
std::filesystem::path with(const files::ScratchFolder& folder, const char* key, GgufValue value) {
  files::GgufWriter writer;
  TokenizerFile file = read_tokenizer(test_data("models/tokenizers/gemma"));
  set_tokenizer(writer, file.spec, "");
  writer.set(key, std::move(value));
  writer.write(folder / "model.gguf", {});
  return folder / "model.gguf";
}

TEST(HostileTokenizer, GgufKeysAreNamed) {
  files::ScratchFolder folder;
  auto refused = [&](const char* key, GgufValue value, const std::string& part) {
    std::filesystem::path path = with(folder, key, std::move(value));
    expect_refused([&] { load_tokenizer(path); }, part);
  };
  const std::vector<float> nan(949, std::numeric_limits<float>::quiet_NaN()), few(3, 0.0f);
  const std::vector<float> infinite(949, std::numeric_limits<float>::infinity());
  const std::vector<int32_t> zeros(949, 0), short_types(5, 1);
  const std::vector<std::string> same(949, "same");
  refused("tokenizer.ggml.model", GgufValue("bert"), "tokenizer.ggml.model");
  refused("tokenizer.ggml.model", GgufValue(uint32_t{1}), "tokenizer.ggml.model");
  refused("tokenizer.ggml.tokens", GgufValue(uint32_t{1}), "tokenizer.ggml.tokens");
  refused("tokenizer.ggml.tokens", GgufValue::list(std::span<const std::string>(same)),
          "token 3: a byte token");
  refused("tokenizer.ggml.scores", GgufValue::list(std::span<const float>(nan)),
          "tokenizer.ggml.scores");
  refused("tokenizer.ggml.scores", GgufValue::list(std::span<const float>(infinite)),
          "score of token 0");
  refused("tokenizer.ggml.scores", GgufValue::list(std::span<const float>(few)),
          "scores: expected 949");
  refused("tokenizer.ggml.token_type", GgufValue::list(std::span<const int32_t>(zeros)),
          "tokenizer.ggml.token_type");
  refused("tokenizer.ggml.token_type", GgufValue::list(std::span<const int32_t>(short_types)),
          "token types");
  refused("tokenizer.ggml.bos_token_id", GgufValue(uint32_t{949}), "tokenizer.ggml.bos_token_id");
  refused("tokenizer.ggml.eos_token_id", GgufValue(int32_t{-1}), "tokenizer.ggml.eos_token_id");
  refused("tokenizer.ggml.eot_token_id", GgufValue(std::numeric_limits<uint64_t>::max()),
          "tokenizer.ggml.eot_token_id");
  refused("tokenizer.ggml.add_bos_token", GgufValue("yes"), "tokenizer.ggml.add_bos_token");
  refused("tokenizer.chat_template", GgufValue(std::string(2 << 20, 'x')),
          "tokenizer.chat_template");
  files::GgufWriter empty;
  empty.write(folder / "empty.gguf", {});
  expect_refused([&] { load_tokenizer(folder / "empty.gguf"); }, "tokenizer.ggml.model");
}

// GGUF may hold any bytes; what cannot be converted is the file's fault.
TEST(HostileTokenizer, TokensThatJsonCannotHoldAreTheFilesFault) {
  TokenizerFile file = read_tokenizer(test_data("models/tokenizers/gemma"));
  file.spec.tokens.back() = "\xff";
  expect_refused([&] { tokenizer_files(file.spec, ""); }, "which is not UTF-8");
}

TEST(HostileTokenizer, JsonFieldsAreNamed) {
  const json good = files::read_json(test_data("models/tokenizers/gemma/tokenizer.json"));
  auto refused = [&](const char* pointer, const json& value, const std::string& part) {
    json bad = good;
    bad[json::json_pointer(pointer)] = value;
    expect_refused([&] { make_tokenizer({parse_tokenizer(bad, "t.json"), "", "t.json"}); }, part);
  };
  refused("", 3, "[t.json] expected an object");
  refused("/model", nullptr, "the key \"model\" is missing");
  refused("/model/type", "WordPiece", "model.type");
  refused("/model/vocab", json::array(), "model.vocab");
  refused("/model/vocab/the", 3000000000u, "model.vocab");
  refused("/model/vocab/the", -1, "model.vocab");
  refused("/model/vocab/the", 1.5, "model.vocab");
  refused("/model/vocab/the", 0, "model.vocab");
  refused("/model/merges", 1, "model.merges");
  refused("/model/merges/0", "nospace", "model.merges[0]");
  refused("/model/merges/0", json::array({"a", "b", "c"}), "model.merges[0]");
  refused("/model/merges/0", json::array({"no such", "token"}), "model.merges[0]");
  refused("/model/unk_token", "none", "model.unk_token");
  refused("/model/dropout", 0.5, "model.dropout");
  refused("/model/byte_fallback", "yes", "model.byte_fallback");
  refused("/model/byte_fallback", false, "normalizer");
  refused("/model/continuing_subword_prefix", "##", "continuing_subword_prefix");
  refused("/normalizer", nullptr, "pre_tokenizer");
  refused("/normalizer/type", "NFKC", "normalizer.type");
  refused("/pre_tokenizer/type", "Whitespace", "pre_tokenizer");
  refused("/added_tokens/0/lstrip", true, "lstrip");
  refused("/added_tokens/0/id", 7, "an id of its own");
  refused("/added_tokens/0/id", 100000000, "added_tokens[0].id");
  refused("/post_processor", {{"type", "BertProcessing"}}, "post_processor.type");
}

// Damages the header of a GGUF model many times; tensors are not read.
void mutate(const std::filesystem::path& path, int rounds) {
  const auto file = files::GgufFile::open(path);
  const auto whole = file.mapping()->bytes();
  std::string bytes(reinterpret_cast<const char*>(whole.data()), whole.size());
  // The beginning, with keys, types and counts, and all of the header by turns.
  const auto header = static_cast<size_t>(file.header_bytes());
  files::Outcomes outcomes;
  for (int seed = 0; seed < rounds; ++seed) {
    const size_t size = seed % 2 == 0 ? std::min<size_t>(header, 4096) : header;
    const std::string kept = bytes.substr(0, size);
    std::string bad = files::Damage(static_cast<uint32_t>(seed)).bytes(kept);
    bad.resize(size);
    std::memcpy(bytes.data(), bad.data(), size);
    auto read = [&] {
      make_tokenizer(read_tokenizer(files::GgufFile::parse(files::bytes_of(bytes), "mutant")));
    };
    outcomes.add(files::reads_or_refuses(read, fmt::format("damage of seed {}", seed)));
    std::memcpy(bytes.data(), kept.data(), size);
  }
  EXPECT_GT(outcomes.refused, 0);
  EXPECT_GT(outcomes.read, 0);
}

// Reads a tokenizer in a folder and uses it on text with a special token.
void use_tokenizer(const std::filesystem::path& folder) {
  TokenizerFile file = read_tokenizer(folder);
  const text::Tokenizer tokenizer = make_tokenizer(std::move(file));
  const std::string text = "one <s>two\xE2\x96\x81 three\xFF";
  for (bool special : {false, true})
    for (int32_t id : tokenizer.encode(text, {.parse_special = special}))
      EXPECT_LE(tokenizer.token_bytes(id).size(), text::kMaxTokenBytes);
}

class DamagedTokenizer : public testing::TestWithParam<const char*> {};

TEST_P(DamagedTokenizer, IsReadOrRefused) {
  files::ScratchFolder scratch;
  const std::filesystem::path folder = scratch / "tokenizer";
  std::filesystem::copy(test_data(std::string("models/tokenizers/") + GetParam()), folder);
  struct Case {
    const char* name;
    int rounds;
  };
  for (const Case each : {Case{"tokenizer.json", 500}, Case{"tokenizer_config.json", 150},
                          Case{"generation_config.json", 150}}) {
    const std::string good = files::contents(folder / each.name);
    auto read = [&](const std::string& text) {
      files::write_plain(folder / each.name, text);
      use_tokenizer(folder);
    };
    const files::Outcomes outcomes = files::read_damaged(good, read, each.rounds);
    EXPECT_GT(outcomes.refused, each.rounds / 4) << each.name;
    EXPECT_GT(outcomes.read, each.rounds / 50) << each.name;
    files::write_plain(folder / each.name, good);
  }
}

INSTANTIATE_TEST_SUITE_P(All,
                         DamagedTokenizer,
                         testing::Values("gpt2", "smollm", "llama3", "llama2", "gemma"));

TEST(HostileTokenizer, MutatedHeadersOfRealModels) {
  for (const char* name : {"SmolLM2-135M-Instruct.Q4_1.gguf", "gemma-3-270m-q4_k_m.gguf"}) {
    std::filesystem::path path = files::fetched_model(name);
    if (!std::filesystem::exists(path)) GTEST_SKIP() << "no " << name << "; make models fetches it";
    mutate(path, 60);
  }
}

}  // namespace
}  // namespace ridge::models
