// SPDX-License-Identifier: Apache-2.0
// Converted models in the programs that they are made for: transformers, and llama.cpp's
// llama-perplexity in the folder RIDGE_PEER_LLAMA. Without them the tests are skipped.
#include <gtest/gtest.h>

#include "files/scratch.h"
#include "models/convert.h"
#include "models/tokenizer_file.h"
#include "peer_python.h"
#include "serve/real_model.h"
#include "serve/text_score.h"

namespace ridge::serve {
namespace {

constexpr const char* kText =
    "The theory of everything, said 1234567 people: caf\u00e9 \u65e5\u672c \U0001f600  two "
    "spaces\n\tend.";

nlohmann::json transformers_says(const std::string& python,
                                 const std::filesystem::path& folder,
                                 const std::vector<int32_t>& ids,
                                 const char* text) {
  std::string command =
      fmt::format("'{}' '{}' '{}' {}", python, source_file("tests/serve/peer_logits.py").string(),
                  folder.string(), fmt::join(ids, ","));
  if (text != nullptr) command += fmt::format(" '{}'", text);
  return nlohmann::json::parse(output_of(command + " 2>/dev/null"), nullptr, false);
}

std::filesystem::path model_path(const std::string& name) {
  return name.ends_with(".gguf") ? published_model(name) : data_folder() + name;
}

class InTransformers : public testing::TestWithParam<const char*> {};

TEST_P(InTransformers, GivesOurLogitsAndIds) {
  static const files::ScratchFolder environment;
  static const std::string python =
      python_with("torch, transformers", "torch transformers", environment.path());
  if (python.empty()) GTEST_SKIP() << "no Python with transformers, and pip does not fetch it";
  std::filesystem::path path = model_path(GetParam());
  if (path.empty()) GTEST_SKIP() << GetParam() << " is not on this machine: make models fetches it";
  models::ModelFile model = models::ModelFile::open(path);
  bool has_tokenizer = model.is_gguf();
  files::ScratchFolder folder;
  // Through GGUF if the model has another format, so that both writers are tested.
  if (!model.is_gguf()) {
    models::convert_to_gguf(model, folder / "model.gguf", {});
    model = models::ModelFile::open(folder / "model.gguf");
  }
  models::convert_to_folder(model, folder / "out",
                            {.type = DType::kF32, .max_shard_bytes = int64_t{256} << 20});
  std::vector<int32_t> ids{1,  5,  17, 100, 42, 7,  3,  9,  150, 11, 13, 2,
                           77, 31, 8,  64,  65, 66, 67, 68, 69,  70, 71, 72};
  nlohmann::json said =
      transformers_says(python, folder / "out", ids, has_tokenizer ? kText : nullptr);
  ASSERT_TRUE(said.is_object());
  EXPECT_EQ(said["parameters"], model.config().parameters());
  Session session(model, at_level("compiled", 64), cpu_backend());
  std::vector<float> logits = last_logits(session, ids);
  EXPECT_NEAR(log_sum_exp(logits), said["logsumexp"].get<double>(), 2e-3);
  double most = 0;
  for (size_t v = 0; v < 64; ++v)
    most =
        std::max(most, std::abs(static_cast<double>(logits[v]) - said["logits"][v].get<double>()));
  RecordProperty("largest_difference", fmt::format("{:.1e}", most));
  EXPECT_LE(most, 2e-3);
  EXPECT_TRUE(!has_tokenizer || ids_of(said["ids"]) == models::load_tokenizer(path).encode(kText));
}

INSTANTIATE_TEST_SUITE_P(All,
                         InTransformers,
                         testing::Values("llama_fp32",
                                         "llama3_bf16_sharded",
                                         "gemma3_bf16",
                                         "qwen2_fp32",
                                         "qwen3_bf16",
                                         "SmolLM2-135M-Instruct.Q4_1.gguf",
                                         "gemma-3-270m-q4_k_m.gguf"));

// Counts only the second half of a piece, like llama-perplexity.
double second_half(Session& session, std::span<const int32_t> ids) {
  Likelihood all = score(session, ids), first = score(session, ids.first(ids.size() / 2 + 1));
  return (all.nll - first.nll) / static_cast<double>(all.tokens - first.tokens);
}

struct Conversion {
  const char* model;
  DType type;
  bool through_folder;  // GGUF to a folder of fp32 and back; otherwise GGUF to GGUF
};
void PrintTo(const Conversion& c, std::ostream* out) { *out << c.model << " as " << name(c.type); }

class InLlamaCpp : public testing::TestWithParam<Conversion> {};

// llama.cpp rounds activations to 8 bits if weights are quantized, and keeps its cache in fp16.
TEST_P(InLlamaCpp, HasOurPerplexity) {
  constexpr size_t kContext = 256;
  constexpr double kDistance = 0.02;
  const char* programs = std::getenv("RIDGE_PEER_LLAMA");
  const std::string program =
      programs == nullptr ? "" : std::filesystem::path(programs) / "llama-perplexity";
  if (program.empty()) GTEST_SKIP() << "RIDGE_PEER_LLAMA names no folder with llama-perplexity";
  std::filesystem::path path = model_path(GetParam().model);
  if (path.empty())
    GTEST_SKIP() << GetParam().model << " is not on this machine: make models fetches it";
  files::ScratchFolder folder;
  models::ModelFile model = models::ModelFile::open(path);
  if (GetParam().through_folder) {
    models::convert_to_folder(model, folder / "folder", {.type = DType::kF32});
    model = models::ModelFile::open(folder / "folder");
  }
  models::convert_to_gguf(model, folder / "model.gguf", {.type = GetParam().type});
  models::ModelFile made = models::ModelFile::open(folder / "model.gguf");
  std::string corpus = test_data("text/corpus.en").string();
  text::Tokenizer tokenizer = models::load_tokenizer(made.path());
  std::vector<int32_t> ids = tokenizer.encode(files::contents(corpus).substr(0, 4096),
                                              {.add_bos = tokenizer.spec().add_bos});
  ids.resize(kContext);
  Session session(made, at_level("compiled", kContext), cpu_backend());
  std::string said =
      output_of(fmt::format("'{}' -m '{}' -f '{}' -c {} -b {} --chunks 1 -t 2 2>&1", program,
                            made.path().string(), corpus, kContext, kContext));
  size_t at = said.find("[1]");
  ASSERT_NE(at, std::string::npos) << said;
  double ours = second_half(session, ids),
         theirs = std::log(std::strtod(said.c_str() + at + 3, nullptr));
  RecordProperty("nll", fmt::format("Ridge {:.4f}, llama.cpp {:.4f}", ours, theirs));
  EXPECT_NEAR(ours, theirs, kDistance);
}

INSTANTIATE_TEST_SUITE_P(
    All,
    InLlamaCpp,
    testing::Values(Conversion{"SmolLM2-135M-Instruct.Q4_1.gguf", DType::kQ4_0, false},
                    Conversion{"SmolLM2-135M-Instruct.Q4_1.gguf", DType::kBF16, true},
                    Conversion{"SmolLM2-135M-Instruct.Q4_1.gguf", DType::kQ4_K, true},
                    Conversion{"gemma-3-270m-q4_k_m.gguf", DType::kQ4_0, false},
                    Conversion{"gemma-3-270m-q4_k_m.gguf", DType::kQ8_0, true},
                    Conversion{"gemma-3-270m-q4_k_m.gguf", DType::kQ6_K, true},
                    Conversion{"gemma-3-270m-q4_k_m.gguf", DType::kQ2_K, true}));

}  // namespace
}  // namespace ridge::serve
