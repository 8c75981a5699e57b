// SPDX-License-Identifier: Apache-2.0
// Models whose weights are drawn: their numbers, their types, and that they depend on the seed
// alone.
#include "models/random_weights.h"

#include <omp.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "base/block_formats.h"
#include "files/scratch.h"
#include "models/config_json.h"
#include "models/convert.h"

namespace ridge::models {
namespace {

namespace fs = std::filesystem;

// Rows of 256 and 512, whole super-blocks. An odd number of rows per thread.
nlohmann::json llama() {
  return {{"model_type", "llama"},   {"vocab_size", 320},        {"hidden_size", 256},
          {"num_hidden_layers", 2},  {"num_attention_heads", 4}, {"num_key_value_heads", 2},
          {"intermediate_size", 512}};
}

// The configuration in a folder, and what conversions make of it.
class RandomModel : public testing::Test {
 protected:
  ModelFile shape(const nlohmann::json& config = llama()) const {
    fs::create_directory(folder_ / "shape");
    files::write_plain(folder_ / "shape" / "config.json", config.dump());
    return ModelFile::open_shape(folder_ / "shape" / "config.json");
  }
  std::string made(const char* name, const ConvertOptions& options) const {
    convert_to_gguf(shape(), folder_ / name, options);
    return files::contents(folder_ / name);
  }
  static std::vector<float> values(const ModelFile& model, const Parameter& parameter) {
    const std::string name = model.lookup()(parameter.name, parameter.shape).name;
    const files::FileTensor& tensor = model.tensors().at(name, parameter.shape);
    std::vector<float> out(static_cast<size_t>(tensor.shape.elements()));
    dequantize(tensor.dtype, tensor.bytes, out);
    return out;
  }

  files::ScratchFolder folder_;
};

TEST_F(RandomModel, MayBeOfAKnownShape) {
  EXPECT_EQ(ModelFile::open_shape("smollm2-135m").config().layers, 30);
  EXPECT_THROW(ModelFile::open_shape("smollm2-136m"), Error);
}

TEST_F(RandomModel, DependsOnTheSeedAlone) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(1);
  const std::string one = made("one.gguf", {.type = DType::kQ4_K, .seed = 7});
  omp_set_num_threads(5);
  EXPECT_EQ(made("five.gguf", {.type = DType::kQ4_K, .seed = 7}), one);
  omp_set_num_threads(before);
  EXPECT_NE(made("other.gguf", {.type = DType::kQ4_K, .seed = 7 + (uint64_t{1} << 32)}), one);
}

// The deviations allowed are five standard errors of each moment.
TEST_F(RandomModel, HasNormalWeightsAndNormsOfOne) {
  made("f32.gguf", {.type = DType::kF32});
  const ModelFile model = ModelFile::open(folder_ / "f32.gguf");
  for (const Parameter& parameter : parameters_of(model.config())) {
    const std::vector<float> x = values(model, parameter);
    if (is_norm(parameter.name)) {
      EXPECT_EQ(x, std::vector<float>(x.size(), 1)) << parameter.name;
      continue;
    }
    const double n = static_cast<double>(x.size());
    double mean = 0, square = 0, fourth = 0, neighbours = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double z = static_cast<double>(x[i]) / 0.02;
      mean += z / n;
      square += z * z / n;
      fourth += z * z * z * z / n;
      if (i > 0) neighbours += z * static_cast<double>(x[i - 1]) / 0.02 / n;
    }
    EXPECT_NEAR(mean, 0, 5 / std::sqrt(n)) << parameter.name;
    EXPECT_NEAR(square, 1, 5 * std::sqrt(2 / n)) << parameter.name;
    EXPECT_NEAR(fourth, 3, 5 * std::sqrt(96 / n)) << parameter.name;
    EXPECT_NEAR(neighbours, 0, 5 / std::sqrt(n)) << parameter.name;
  }
}

TEST_F(RandomModel, DrawsEachTensorAndRowAnew) {
  const Parameter up{"model.layers.0.mlp.up_proj.weight", {4, 33}},
      gate{"model.layers.0.mlp.gate_proj.weight", {4, 33}};
  std::set<float> seen;
  size_t drawn = 0;
  for (const Parameter* parameter : {&up, &gate}) {
    const RandomWeights weights(*parameter, 0, 1);
    for (int64_t row : {int64_t{0}, int64_t{1}, int64_t{3}, int64_t{1} << 40}) {
      std::vector<float> x(33);
      weights.draw(row, x);
      seen.insert(x.begin(), x.end());
      drawn += x.size();
    }
  }
  EXPECT_EQ(seen.size(), drawn);
}

TEST_F(RandomModel, HasTheTypesAskedFor) {
  made("q4_k.gguf", {.type = DType::kQ4_K});
  made("plain.gguf", {});
  const ModelFile blocks = ModelFile::open(folder_ / "q4_k.gguf"),
                  plain = ModelFile::open(folder_ / "plain.gguf");
  for (const files::FileTensor& tensor : blocks.tensors().all())
    EXPECT_EQ(tensor.dtype, tensor.shape.rank() == 1         ? DType::kF32
                            : tensor.name == "output.weight" ? DType::kQ6_K
                                                             : DType::kQ4_K)
        << tensor.name;
  for (const files::FileTensor& tensor : plain.tensors().all())
    EXPECT_EQ(tensor.dtype, tensor.shape.rank() == 1 ? DType::kF32 : DType::kBF16) << tensor.name;
  EXPECT_EQ(blocks.config().parameters(), shape().config().parameters());
  EXPECT_EQ(blocks.config().name, "shape");
}

// The order of rows and the offset of norms differ between the formats, and the model does not.
TEST_F(RandomModel, IsTheSameModelInBothFormats) {
  nlohmann::json gemma = llama();
  gemma["model_type"] = "gemma3_text";
  gemma["head_dim"] = 64;
  gemma["sliding_window"] = 16;
  gemma["num_hidden_layers"] = 6;
  for (const nlohmann::json& config : {llama(), gemma}) {
    const files::ScratchFolder out;
    convert_to_folder(shape(config), out / "model", {.type = DType::kF32});
    convert_to_gguf(ModelFile::open(out / "model"), out / "twice.gguf", {.type = DType::kF32});
    convert_to_gguf(shape(config), out / "once.gguf", {.type = DType::kF32});
    const ModelFile twice = ModelFile::open(out / "twice.gguf"),
                    once = ModelFile::open(out / "once.gguf");
    for (const Parameter& parameter : parameters_of(once.config())) {
      EXPECT_EQ(values(once, parameter), values(twice, parameter)) << parameter.name;
      EXPECT_EQ(values(once, parameter)[0] == 1, is_norm(parameter.name)) << parameter.name;
    }
  }
}

}  // namespace
}  // namespace ridge::models
