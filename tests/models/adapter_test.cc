// SPDX-License-Identifier: Apache-2.0
// Adapters in PEFT's files: written, read, refused, and merged into models of both formats.
#include "models/adapter.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/block_formats.h"
#include "base/random.h"
#include "files/safetensors.h"
#include "files/scratch.h"
#include "models/convert.h"
#include "models/master_weights.h"
#include "test_paths.h"

namespace ridge::models {
namespace {

using nlohmann::json;

struct Tensor {
  std::string name;
  Shape shape;
  std::vector<float> values;
};

class AdapterTest : public testing::TestWithParam<const char*> {
 protected:
  void write(const std::vector<Tensor>& tensors, const json& changes = json::object()) const {
    json config = json::parse(adapter_config_json({4, 6, {"q_proj"}, "base"}));
    config.update(changes);
    std::filesystem::create_directories(folder_ / "adapter");
    files::write_plain(folder_ / "adapter" / kAdapterConfig, config.dump());
    std::vector<files::TensorSource> sources;
    for (const Tensor& each : tensors)
      sources.push_back({each.name, DType::kF32, each.shape,
                         [&each] { return std::as_bytes(std::span<const float>(each.values)); }});
    files::write_safetensors(folder_ / "adapter" / kAdapterWeights, sources);
  }
  Adapter open() const { return Adapter::open(folder_ / "adapter"); }

  static Tensor normal(const std::string& module, char half, Shape shape, uint32_t seed) {
    Tensor tensor{fmt::format("{}{}.lora_{}.weight", kAdapterPrefix, module, half), shape,
                  std::vector<float>(static_cast<size_t>(shape.elements()))};
    Random(seed).fill_normal(tensor.values, 0.5f);
    return tensor;
  }
  static std::vector<Tensor> pair(const std::string& module, int64_t out, int64_t in) {
    return {normal(module, 'A', {4, in}, 1), normal(module, 'B', {out, 4}, 2)};
  }

  files::ScratchFolder folder_;
};

std::vector<float> values_of(const ModelFile& file, const std::string& name) {
  const files::FileTensor& tensor = file.tensors().at(name);
  std::vector<float> values(static_cast<size_t>(tensor.shape.elements()));
  dequantize(tensor.dtype, tensor.bytes, values);
  return values;
}

constexpr const char* kQ = "model.layers.1.self_attn.q_proj";

// W + (alpha / rank) B A, by hand, of the folder and of a GGUF file, whose rows of q are in another
// order.
TEST_P(AdapterTest, IsMergedIntoTheRowsThatItChanges) {
  const ModelFile model = ModelFile::open(test_data("models") / GetParam());
  const Shape shape = model.tensors().at(std::string(kQ) + ".weight").shape;
  const std::vector<Tensor> tensors = pair(kQ, shape[0], shape[1]);
  write(tensors);
  const Adapter adapter = open();
  EXPECT_EQ(adapter.matrices(), 1);
  convert_to_gguf(model, folder_ / "plain.gguf", {.type = DType::kF32});
  ConvertOptions options;
  options.type = DType::kF32;
  options.adapter = &adapter;
  convert_to_folder(model, folder_ / "merged", options);
  convert_to_folder(ModelFile::open(folder_ / "plain.gguf"), folder_ / "from_gguf", options);
  convert_to_gguf(model, folder_ / "merged.gguf", options);
  convert_to_folder(ModelFile::open(folder_ / "merged.gguf"), folder_ / "by_gguf", {});
  std::vector<float> want = values_of(model, std::string(kQ) + ".weight");
  for (int64_t row = 0; row < shape[0]; ++row)
    for (int64_t i = 0; i < shape[1]; ++i) {
      double sum = 0;
      for (int64_t r = 0; r < 4; ++r)
        sum += static_cast<double>(tensors[1].values[static_cast<size_t>(row * 4 + r)]) *
               static_cast<double>(tensors[0].values[static_cast<size_t>(r * shape[1] + i)]);
      want[static_cast<size_t>(row * shape[1] + i)] += static_cast<float>(1.5 * sum);
    }
  for (const char* made : {"merged", "from_gguf", "by_gguf"}) {
    const ModelFile merged = ModelFile::open(folder_ / made);
    const std::vector<float> got = values_of(merged, std::string(kQ) + ".weight");
    for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-6) << made << " " << i;
    const std::string other = "model.layers.0.self_attn.q_proj.weight";
    EXPECT_EQ(values_of(merged, other), values_of(model, other));
  }
}

INSTANTIATE_TEST_SUITE_P(Models, AdapterTest, testing::Values("llama_fp32", "gemma3_bf16"));

class AdapterFiles : public AdapterTest {};
INSTANTIATE_TEST_SUITE_P(Models, AdapterFiles, testing::Values("llama_fp32"));

TEST_P(AdapterFiles, OfOtherKindsAreRefused) {
  const std::vector<Tensor> tensors = pair(kQ, 8, 8);
  const auto expect = [&](const json& changes, const char* part) {
    write(tensors, changes);
    files::expect_error([&] { open(); }, ExitCode::kBadFile, part);
  };
  expect({{"peft_type", "IA3"}}, "peft_type");
  expect({{"use_dora", true}}, "use_dora");
  expect({{"bias", "all"}}, "bias");
  expect({{"alpha_pattern", {{"q_proj", 3}}}}, "alpha_pattern");
  expect({{"modules_to_save", {"lm_head"}}}, "modules_to_save");
  expect({{"init_lora_weights", "pissa"}}, "init_lora_weights");
  expect({{"r", 0}}, "r");
  expect({{"r", 5}}, "a rank of 5");
  write({tensors[0]});
  files::expect_error([&] { open(); }, ExitCode::kBadFile, "found one of them");
  write({tensors[0], {"base_model.model.x.weight", {1}, {1.0f}}});
  files::expect_error([&] { open(); }, ExitCode::kBadFile, "expected tensors named");
  Tensor infinite = tensors[0];
  infinite.values[3] = INFINITY;
  write({infinite, tensors[1]});
  files::expect_error([&] { open(); }, ExitCode::kBadFile, "finite");
  files::expect_error([&] { Adapter::open(folder_ / "nothing"); }, ExitCode::kBadFile, "nothing");
}

TEST_P(AdapterFiles, OfAnotherModelAreRefused) {
  const ModelFile model = ModelFile::open(test_data("models") / GetParam());
  write(pair(kQ, 8, 7));
  Adapter adapter = open();
  ConvertOptions options;
  options.adapter = &adapter;
  files::expect_error([&] { convert_to_folder(model, folder_ / "out", options); },
                      ExitCode::kBadFile, "found one of [8,7]");
  write(pair("model.layers.77.self_attn.q_proj", 8, 8));
  adapter = open();
  files::expect_error([&] { convert_to_folder(model, folder_ / "out", options); },
                      ExitCode::kBadFile, "model.layers.77.self_attn.q_proj.weight");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
}

// The dot before lora_A is not also that at the end of the prefix.
TEST_P(AdapterFiles, WithoutAModuleAreRefused) {
  write({{"base_model.model.lora_A.weight", {4, 8}, std::vector<float>(32)}});
  files::expect_error([&] { open(); }, ExitCode::kBadFile, "expected tensors named");
}

TEST_P(AdapterFiles, WithTheRootOfTheRankAreScaledSo) {
  write(pair(kQ, 8, 8), {{"use_rslora", true}});
  const Adapter adapter = open();
  EXPECT_DOUBLE_EQ(adapter.find({std::string(kQ) + ".weight", {8, 8}})->scale, 3);
}

class MasterWeightsTest : public testing::TestWithParam<const char*> {};

// Training starts from the same numbers, whether they come from the folder or from GGUF.
TEST_P(MasterWeightsTest, AreThoseOfTheFolderFromBothFormats) {
  const files::ScratchFolder folder;
  const ModelFile model = ModelFile::open(test_data("models") / GetParam());
  convert_to_gguf(model, folder / "model.gguf", {});
  const ModelFile gguf = ModelFile::open(folder / "model.gguf");
  int64_t read = 0;
  MasterWeights of_folder(model), of_gguf(gguf, [&](int64_t bytes) { read += bytes; });
  EXPECT_EQ(of_gguf.config().norm_offset, model.config().norm_offset);
  EXPECT_FALSE(of_gguf.config().rope_interleaved);
  for (const Parameter& each : parameters_of(model.config())) {
    EXPECT_EQ(of_gguf.read(each.name, each.shape), of_folder.read(each.name, each.shape));
    EXPECT_EQ(of_folder.read(each.name, each.shape), values_of(model, each.name)) << each.name;
  }
  EXPECT_EQ(read, 4 * model.config().parameters());
  EXPECT_EQ(of_gguf.quantized_types(), "");
  files::expect_error([&] { of_folder.read("model.norm.weight", {3}); }, ExitCode::kBadFile,
                      "model.norm.weight");
}

TEST_P(MasterWeightsTest, OfQuantizedFilesAreDequantized) {
  const files::ScratchFolder folder;
  const ModelFile model = ModelFile::open(test_data("models") / GetParam());
  convert_to_gguf(model, folder / "model.gguf", {.type = DType::kQ8_0});
  const ModelFile gguf = ModelFile::open(folder / "model.gguf");
  MasterWeights weights(gguf);
  EXPECT_EQ(weights.quantized_types(), "q8_0");
  convert_to_folder(gguf, folder / "back", {.type = DType::kF32});
  const ModelFile back = ModelFile::open(folder / "back");
  for (const Parameter& each : parameters_of(model.config()))
    EXPECT_EQ(weights.read(each.name, each.shape), values_of(back, each.name)) << each.name;
}

INSTANTIATE_TEST_SUITE_P(Models, MasterWeightsTest, testing::Values("llama_fp32", "gemma3_bf16"));

}  // namespace
}  // namespace ridge::models
