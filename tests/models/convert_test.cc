// SPDX-License-Identifier: Apache-2.0
// Conversion between formats: models survive a round trip, bit for bit if no type changes. Errors
// leave no files behind. tests/serve tests the logits of converted models, and the slow tests test
// them in other programs.
#include "models/convert.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "base/block_formats.h"
#include "files/json.h"
#include "files/safetensors.h"
#include "files/scratch.h"
#include "models/config_gguf.h"
#include "models/config_json.h"
#include "models/parameter_list.h"
#include "models/rope_factors.h"
#include "models/stored_types.h"
#include "models/tokenizer_file.h"
#include "models/weight_names.h"

namespace ridge::models {
namespace {

namespace fs = std::filesystem;

fs::path small(const std::string& name) { return test_data("models/" + name); }

// Equal except for the file format and the name.
void expect_same_model(const ModelConfig& a, const ModelConfig& b) {
  EXPECT_EQ(a.family, b.family);
  EXPECT_EQ(a.parameters(), b.parameters());
  EXPECT_EQ(a.vocabulary, b.vocabulary);
  EXPECT_EQ(a.heads, b.heads);
  EXPECT_EQ(a.kv_heads, b.kv_heads);
  EXPECT_EQ(a.head_size, b.head_size);
  EXPECT_EQ(a.context, b.context);
  EXPECT_EQ(a.tied_head, b.tied_head);
  EXPECT_EQ(a.qkv_bias, b.qkv_bias);
  EXPECT_EQ(a.output_bias, b.output_bias);
  EXPECT_EQ(a.mlp_bias, b.mlp_bias);
  EXPECT_EQ(a.window, b.window);
  for (int64_t layer = 0; layer < a.layers; ++layer)
    EXPECT_EQ(a.is_window(layer), b.is_window(layer)) << layer;
  EXPECT_FLOAT_EQ(static_cast<float>(a.norm_eps), static_cast<float>(b.norm_eps));
  EXPECT_FLOAT_EQ(static_cast<float>(a.rope_theta), static_cast<float>(b.rope_theta));
  EXPECT_EQ(a.rope_scaling.kind, b.rope_scaling.kind);
  EXPECT_NEAR(a.rope_scaling.factor, b.rope_scaling.factor, 1e-6);
  EXPECT_NEAR(a.rope_scaling.original_context, b.rope_scaling.original_context, 1e-6);
  EXPECT_NEAR(a.attention_scale, b.attention_scale, 1e-9);
}

class SmallModels : public testing::TestWithParam<const char*> {
 protected:
  files::ScratchFolder folder_;
};

void expect_round_trip(const ModelFile& model, const files::ScratchFolder& folder) {
  ConvertResult made = convert_to_gguf(model, folder / "model.gguf", {});
  ModelFile gguf = ModelFile::open(folder / "model.gguf");
  expect_same_model(gguf.config(), model.config());
  EXPECT_EQ(made.bytes, gguf.tensors().bytes());
  EXPECT_EQ(gguf.config().rope_interleaved, facts(gguf.config().family).gguf_interleaves);
  EXPECT_EQ(gguf.config().norm_offset, 0);
  convert_to_folder(gguf, folder / "back", {});
  ModelFile back = ModelFile::open(folder / "back");
  expect_same_model(back.config(), model.config());
  EXPECT_EQ(back.config().norm_offset, model.config().norm_offset);
  for (const files::FileTensor& tensor : model.tensors().all()) {
    const files::FileTensor& again = back.tensors().at(tensor.name, tensor.shape);
    ASSERT_EQ(again.dtype, tensor.dtype) << tensor.name;
    EXPECT_EQ(std::memcmp(again.bytes.data(), tensor.bytes.data(), tensor.bytes.size()), 0)
        << tensor.name;
  }
  EXPECT_EQ(back.tensors().all().size(), model.tensors().all().size());
}

TEST_P(SmallModels, ComeBackFromGgufBitForBit) {
  expect_round_trip(ModelFile::open(small(GetParam())), folder_);
}

// Row 2i + j of a head in GGUF is row i + j E/2 in Hugging Face's format, for the weights of q and
// k only.
TEST_P(SmallModels, PutRowsAndNormsWhereGgufWantsThem) {
  ModelFile model = ModelFile::open(small(GetParam()));
  convert_to_gguf(model, folder_ / "model.gguf", {.type = DType::kF32});
  ModelFile gguf = ModelFile::open(folder_ / "model.gguf");
  const ModelConfig& c = model.config();
  auto values = [](const files::FileTensor& tensor) {
    std::vector<float> out(static_cast<size_t>(tensor.shape.elements()));
    dequantize(tensor.dtype, tensor.bytes, out);
    return out;
  };
  bool moves = c.family == Family::kLlama;
  for (const char* name :
       {"model.layers.1.self_attn.q_proj.weight", "model.layers.1.self_attn.v_proj.weight"}) {
    const files::FileTensor& from = model.tensors().at(name);
    std::vector<float> a = values(from), b = values(gguf.tensors().at(gguf_name(c.family, name)));
    for (int64_t row = 0; row < from.shape[0]; ++row) {
      int64_t in_head = row % c.head_size, half = c.head_size / 2;
      int64_t to =
          moves && is_rotated(name) ? row - in_head + in_head % half * 2 + in_head / half : row;
      for (int64_t i = 0; i < from.shape[1]; ++i)
        ASSERT_EQ(b[static_cast<size_t>(to * from.shape[1] + i)],
                  a[static_cast<size_t>(row * from.shape[1] + i)]);
    }
  }
  const char* norm = "model.layers.1.input_layernorm.weight";
  std::vector<float> a = values(model.tensors().at(norm)),
                     b = values(gguf.tensors().at(gguf_name(c.family, norm)));
  for (size_t i = 0; i < a.size(); ++i)
    EXPECT_EQ(b[i], a[i] + (c.family == Family::kGemma3 ? 1.0f : 0.0f));
}

// Rows of 64 and 96 elements are not whole super-blocks, and rows of 172 not whole blocks. All
// types are accepted, and the error is that of the type.
TEST_P(SmallModels, TakeEveryType) {
  ModelFile model = ModelFile::open(small(GetParam()));
  struct Case {
    DType type;
    double error;  // relative root mean square error of the type on normally distributed values
  };
  for (const Case& each :
       {Case{DType::kQ2_K, 0.262}, Case{DType::kQ3_K, 0.145}, Case{DType::kQ4_K, 0.0707},
        Case{DType::kQ5_K, 0.05}, Case{DType::kQ6_K, 0.01}, Case{DType::kQ4_0, 0.1},
        Case{DType::kQ4_1, 0.1}, Case{DType::kQ5_0, 0.06}, Case{DType::kQ5_1, 0.05},
        Case{DType::kQ8_0, 0.01}, Case{DType::kBF16, 0.003}, Case{DType::kF16, 0.0005},
        Case{DType::kF32, 1e-9}}) {
    fs::path path = folder_ / (std::string(name(each.type)) + ".gguf");
    convert_to_gguf(model, path, {.type = each.type});
    ModelFile made = ModelFile::open(path);
    EXPECT_EQ(made.config().parameters(), model.config().parameters());
    double error = 0, square = 0;
    for (const Parameter& parameter : parameters_of(made.config())) {
      const files::FileTensor& tensor =
          made.tensors().at(made.lookup()(parameter.name, parameter.shape).name);
      EXPECT_TRUE(parameter.shape.rank() == 2 || tensor.dtype == DType::kF32) << parameter.name;
      if (is_rotated(parameter.name) || parameter.shape.rank() < 2) continue;
      const files::FileTensor& from = model.tensors().at(parameter.name);
      std::vector<float> a(static_cast<size_t>(from.shape.elements())), b(a.size());
      dequantize(from.dtype, from.bytes, a);
      dequantize(tensor.dtype, tensor.bytes, b);
      for (size_t i = 0; i < a.size(); ++i) {
        error += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
        square += std::pow(static_cast<double>(a[i]), 2);
      }
    }
    EXPECT_LE(std::sqrt(error / square), each.error) << name(each.type);
  }
}

TEST_P(SmallModels, AreCutIntoShards) {
  ModelFile model = ModelFile::open(small(GetParam()));
  convert_to_folder(model, folder_ / "shards", {.type = DType::kF32, .max_shard_bytes = 200000});
  ModelFile made = ModelFile::open(folder_ / "shards");
  EXPECT_GT(made.safetensors().mappings().size(), 2u);
  EXPECT_EQ(made.tensors().elements(), model.tensors().elements());
}

class WindowModels : public testing::TestWithParam<const char*> {};

// GGUF's architectures llama and qwen2 have none.
TEST_P(WindowModels, AreRefusedInGguf) {
  const files::ScratchFolder folder;
  const ModelFile model = ModelFile::open(small(GetParam()));
  try {
    convert_to_gguf(model, folder / "model.gguf", {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("found windows of 6"), std::string::npos)
        << error.what();
  }
  EXPECT_FALSE(fs::exists(folder / "model.gguf"));
  convert_to_folder(model, folder / "again", {});
  expect_same_model(ModelFile::open(folder / "again").config(), model.config());
}

INSTANTIATE_TEST_SUITE_P(All, WindowModels, testing::Values("mistral_fp32", "qwen2_window_fp32"));

INSTANTIATE_TEST_SUITE_P(All,
                         SmallModels,
                         testing::Values("llama_fp32",
                                         "llama3_bf16_sharded",
                                         "gemma3_bf16",
                                         "qwen2_fp32",
                                         "qwen3_bf16"));

TEST(StoredTypes, FitTheRows) {
  ModelConfig config = load_config(small("llama_fp32"));
  auto type = [&](std::string name, int64_t row, DType asked) {
    return gguf_type(config, {std::move(name), Shape{8, row}}, DType::kF32, asked);
  };
  EXPECT_EQ(type("x", 512, DType::kQ4_K), DType::kQ4_K);
  EXPECT_EQ(type("x", 640, DType::kQ4_K), DType::kQ5_0);
  EXPECT_EQ(type("x", 640, DType::kQ5_K), DType::kQ5_1);
  EXPECT_EQ(type("x", 640, DType::kQ6_K), DType::kQ8_0);
  EXPECT_EQ(type("x", 640, DType::kQ2_K), DType::kQ4_0);
  EXPECT_EQ(type("x", 100, DType::kQ4_K), DType::kF16);
  EXPECT_EQ(type("lm_head.weight", 512, DType::kQ4_0), DType::kQ6_K);
  EXPECT_EQ(type("lm_head.weight", 640, DType::kQ4_0), DType::kQ8_0);
  EXPECT_EQ(type("lm_head.weight", 512, DType::kQ8_0), DType::kQ8_0);
  EXPECT_EQ(type("lm_head.weight", 512, DType::kBF16), DType::kBF16);
  EXPECT_EQ(gguf_type(config, {"norm", Shape{512}}, DType::kBF16, DType::kQ4_0), DType::kF32);
  files::expect_error([&] { type("x", 512, DType::kI8); }, ExitCode::kUsage,
                      "[type] expected one of q2_k");
}

TEST(RopeFactors, AreFoundAgain) {
  struct Case {
    RopeScaling scaling;
    int64_t head_size;
    double theta;
  };
  for (const Case& each :
       {Case{{"llama3", 8, 8192, 1, 4}, 128, 5e5}, Case{{"llama3", 32, 8192, 1, 4}, 64, 5e5},
        Case{{"llama3", 8, 64, 1, 4}, 16, 5e5}, Case{{"llama3", 4, 2048, 1, 8}, 128, 1e4}}) {
    auto found =
        scaling_of_factors(rope_factors(each.scaling, each.head_size, each.theta), each.theta);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->kind, "llama3");
    EXPECT_NEAR(found->factor, each.scaling.factor, 1e-6);
    EXPECT_NEAR(found->original_context, each.scaling.original_context,
                1e-3 * each.scaling.original_context);
    EXPECT_NEAR(found->high_frequency_factor, each.scaling.high_frequency_factor, 1e-2);
  }
  EXPECT_EQ(scaling_of_factors(std::vector<float>{1, 1, 1}, 1e4)->kind, "");
  for (float bad : {0.5f, -1.0f, std::numeric_limits<float>::quiet_NaN(),
                    std::numeric_limits<float>::infinity()})
    EXPECT_FALSE(scaling_of_factors(std::vector<float>{1, bad, 8}, 1e4));
  EXPECT_FALSE(scaling_of_factors(std::vector<float>{1, 8, 1, 8, 2, 1}, 1e4));
}

// The small model with a tokenizer of 160 normal tokens less two, and `more` special ones.
fs::path with_tokenizer(const files::ScratchFolder& folder, int more) {
  fs::copy(small("llama_fp32"), folder / "in");
  nlohmann::json tokenizer = files::read_json(test_data("models/tokenizers/smollm/tokenizer.json"));
  nlohmann::json vocab = nlohmann::json::object(), added = nlohmann::json::array();
  for (const auto& [token, id] : tokenizer["model"]["vocab"].items())
    if (id < 158) vocab[token] = id;
  for (int id = 158; id < 158 + more; ++id)
    added.push_back({{"id", id}, {"content", fmt::format("<special{}>", id)}, {"special", true}});
  for (const auto& each : tokenizer["added_tokens"])
    if (each["id"] < 158) added.push_back(each);
  tokenizer["model"]["vocab"] = vocab;
  tokenizer["model"]["merges"] = nlohmann::json::array();
  tokenizer["added_tokens"] = added;
  files::write_plain(folder / "in" / "tokenizer.json", tokenizer.dump());
  return folder / "in";
}

TEST(Convert, FitsTheVocabularyToTheTable) {
  for (int more : {0, 2, 3}) {
    files::ScratchFolder folder;
    ModelFile model = ModelFile::open(with_tokenizer(folder, more));
    ConvertResult made = convert_to_gguf(model, folder / "model.gguf", {});
    ASSERT_EQ(made.notes.size(), more == 3 ? 1u : 0u);
    for (const std::string& note : made.notes)
      EXPECT_NE(note.find("the token \"<special160>\" has no row"), std::string::npos) << note;
    TokenizerFile back = read_tokenizer(folder / "model.gguf");
    ASSERT_EQ(back.spec.tokens.size(), 160u);
    EXPECT_EQ(back.spec.tokens[159], more == 0 ? "[PAD159]" : "<special159>");
    EXPECT_EQ(back.spec.tokens[157], read_tokenizer(folder / "in").spec.tokens[157]);
  }
}

TEST(Convert, RefusesTokensWithoutARow) {
  files::ScratchFolder folder;
  fs::copy(small("llama_fp32"), folder / "in");
  fs::copy(test_data("models/tokenizers/smollm/tokenizer.json"), folder / "in");
  files::expect_error(
      [&] { convert_to_gguf(ModelFile::open(folder / "in"), folder / "model.gguf", {}); },
      ExitCode::kBadFile, "expected at most 160 tokens, one per row of the embedding table");
}

TEST(Convert, SaysThatThereIsNoTokenizer) {
  files::ScratchFolder folder;
  ConvertResult made =
      convert_to_gguf(ModelFile::open(small("llama_fp32")), folder / "model.gguf", {});
  ASSERT_EQ(made.notes.size(), 1u);
  EXPECT_NE(made.notes[0].find("no tokenizer.json"), std::string::npos);
  files::expect_error([&] { read_tokenizer(folder / "model.gguf"); }, ExitCode::kBadFile,
                      "tokenizer.ggml.model");
  ModelFile gguf = ModelFile::open(folder / "model.gguf");
  EXPECT_EQ(convert_to_folder(gguf, folder / "back", {}).notes.size(), 1u);
}

// A copy of a small model with one config key or one weight changed.
struct Changed {
  explicit Changed(const std::string& model) {
    fs::copy(small(model), folder / "in");
    config = files::read_json(folder / "in" / "config.json");
  }
  ModelFile open() {
    files::write_plain(folder / "in" / "config.json", config.dump());
    return ModelFile::open(folder / "in");
  }
  files::ScratchFolder folder;
  nlohmann::json config;
};

// Biases of the attention and of the MLP, each alone and both.
TEST(Convert, BiasesComeBackFromGguf) {
  for (const auto& [attention, mlp] : {std::pair{true, false}, {false, true}, {true, true}}) {
    Changed model("llama_fp32");
    model.config["attention_bias"] = attention;
    model.config["mlp_bias"] = mlp;
    ModelConfig config = load_config(small("llama_fp32"));
    config.qkv_bias = config.output_bias = attention;
    config.mlp_bias = mlp;
    std::vector<float> values(4096);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) / 64;
    const files::SafetensorsFile from = files::SafetensorsFile::open(small("llama_fp32"));
    std::vector<files::TensorSource> tensors;
    for (const files::FileTensor& tensor : from.tensors().all())
      tensors.push_back(files::source_of(tensor));
    for (const Parameter& parameter : parameters_of(config))
      if (parameter.name.ends_with(".bias"))
        tensors.push_back({parameter.name, DType::kF32, parameter.shape, [&values, parameter] {
                             return std::as_bytes(std::span(values).first(
                                 static_cast<size_t>(parameter.shape.elements())));
                           }});
    EXPECT_GT(tensors.size(), from.tensors().all().size());
    files::write_safetensors(model.folder / "in" / "model.safetensors", tensors);
    expect_round_trip(model.open(), model.folder);
  }
}

TEST(Convert, RefusesWhatGgufCannotSay) {
  Changed windows("gemma3_bf16");
  windows.config["layer_types"][5] = "sliding_attention";
  files::expect_error([&] { convert_to_gguf(windows.open(), windows.folder / "o.gguf", {}); },
                      ExitCode::kUsage, "layer_type");
  Changed scale("gemma3_bf16");
  scale.config["query_pre_attn_scalar"] = 77;
  files::expect_error([&] { convert_to_gguf(scale.open(), scale.folder / "o.gguf", {}); },
                      ExitCode::kUsage, "query_pre_attn_scalar: expected 24, found 77");
  EXPECT_EQ(windows.folder.count(), 1u);
  EXPECT_EQ(scale.folder.count(), 1u);
}

// Writes llama_fp32 into the model's folder with `bad` as element 65 of one tensor.
void write_with(float bad, const std::string& name, const Changed& model) {
  const files::SafetensorsFile from = files::SafetensorsFile::open(small("llama_fp32"));
  std::vector<files::TensorSource> tensors;
  std::vector<float> values;
  for (const files::FileTensor& tensor : from.tensors().all()) {
    tensors.push_back(files::source_of(tensor));
    if (tensor.name != name) continue;
    values.resize(static_cast<size_t>(tensor.shape.elements()));
    values[std::min<size_t>(65, values.size() - 1)] = bad;
    tensors.back().read = [&values] { return std::as_bytes(std::span<const float>(values)); };
  }
  files::write_safetensors(model.folder / "in" / "model.safetensors", tensors);
}

// Also if the type stays, and if rows of q and k only move.
TEST(Convert, LeavesNothingOfAModelWithANumberThatIsNone) {
  Changed model("llama_fp32");
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const auto& [name, row] :
       std::vector<std::pair<std::string, int>>{{"model.layers.2.mlp.gate_proj.weight", 1},
                                                {"model.layers.0.self_attn.q_proj.weight", 1},
                                                {"model.norm.weight", 0}})
    for (float bad : {std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity}) {
      write_with(bad, name, model);
      const std::string message = fmt::format("of row {} in tensor \"{}\"", row, name);
      for (std::optional<DType> type :
           {std::optional<DType>(), std::optional(DType::kF32), std::optional(DType::kF16),
            std::optional(DType::kBF16), std::optional(DType::kQ4_0), std::optional(DType::kQ8_0),
            std::optional(DType::kQ4_K)}) {
        files::expect_error(
            [&] { convert_to_gguf(model.open(), model.folder / "o.gguf", {.type = type}); },
            ExitCode::kBadFile, message);
        if (type && is_block(*type)) continue;
        files::expect_error(
            [&] { convert_to_folder(model.open(), model.folder / "o", {.type = type}); },
            ExitCode::kBadFile, message);
      }
    }
  EXPECT_EQ(model.folder.count(), 1u);
}

TEST(Convert, LeavesFoldersWithFilesAlone) {
  files::ScratchFolder folder;
  ModelFile model = ModelFile::open(small("llama_fp32"));
  fs::create_directory(folder / "empty");
  convert_to_folder(model, folder / "empty", {});
  files::expect_error([&] { convert_to_folder(model, folder / "empty", {}); }, ExitCode::kUsage,
                      "one with files in it");
  files::expect_error([&] { convert_to_folder(model, folder / "empty" / "config.json", {}); },
                      ExitCode::kUsage, "something else");
  files::expect_error([&] { convert_to_folder(model, folder / "no" / "such", {}); },
                      ExitCode::kRuntime, "cannot make a folder");
  files::expect_error([&] { convert_to_folder(model, folder / "o", {.type = DType::kQ4_0}); },
                      ExitCode::kUsage, "[type] expected one of bf16, f16, f32");
  EXPECT_EQ(folder.count(), 1u);
}

}  // namespace
}  // namespace ridge::models
