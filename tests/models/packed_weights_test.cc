// SPDX-License-Identifier: Apache-2.0
// Folders of GPTQ, AWQ and compressed-tensors: their weights are those of the tools that made them,
// bit by bit, and folders that break their format are refused.
#include "models/packed_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/bf16.h"
#include "base/block_formats.h"
#include "base/fnv.h"
#include "base/random.h"
#include "files/json.h"
#include "files/safetensors.h"
#include "files/scratch.h"
#include "models/convert.h"
#include "models/model_file.h"

namespace ridge::models {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kFolders[] = {"gptq_g128", "gptq_g32", "gptq_g32_act_order", "awq_g128",
                                    "compressed_g64"};

fs::path folder_of(const std::string& name) { return test_data("models/quantized/" + name); }

std::string hash_of(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return fmt::format("{:016x}", fnv1a<uint64_t>(text));
}

class PackedFolder : public testing::TestWithParam<const char*> {
 protected:
  files::ScratchFolder scratch_;
};

TEST_P(PackedFolder, HasTheWeightsOfTheToolThatMadeIt) {
  const ModelFile model = ModelFile::open(folder_of(GetParam()));
  const ConvertResult made = convert_to_folder(model, scratch_ / "f16", {});
  EXPECT_TRUE(made.notes.empty() || made.notes.front().find("tokenizer") != std::string::npos);
  const ModelFile f16 = ModelFile::open(scratch_ / "f16");
  const Json hashes = files::read_json(folder_of(GetParam()) / "dequantized.json");
  EXPECT_EQ(hashes.size(), 7u);
  for (const auto& [name, hash] : hashes.items()) {
    EXPECT_EQ(f16.tensors().at(name).dtype, DType::kF16);
    EXPECT_EQ(hash_of(f16.tensors().at(name).bytes), hash.get<std::string>()) << name;
  }
}

// GGUF has no zero points, so its file holds the same fp16 numbers, or q4_0 where no group has one.
TEST_P(PackedFolder, BecomesAGgufFileOfTheSameValues) {
  const ModelFile model = ModelFile::open(folder_of(GetParam()));
  convert_to_gguf(model, scratch_ / "model.gguf", {});
  convert_to_folder(ModelFile::open(scratch_ / "model.gguf"), scratch_ / "back",
                    {.type = DType::kF16});
  const ModelFile back = ModelFile::open(scratch_ / "back");
  const Json hashes = files::read_json(folder_of(GetParam()) / "dequantized.json");
  for (const auto& [name, hash] : hashes.items())
    EXPECT_EQ(hash_of(back.tensors().at(name).bytes), hash.get<std::string>()) << name;
}

// The blocks take at most 5% more than what they are made from; groups of 64, which are stored as
// two groups of 32, take a little more.
TEST_P(PackedFolder, TakesAsMuchMemoryAsItsFile) {
  const auto stored = files::SafetensorsFile::open(folder_of(GetParam()));
  const ModelFile model = ModelFile::open(folder_of(GetParam()));
  EXPECT_LE(static_cast<double>(model.tensors().bytes()),
            (GetParam() == std::string("compressed_g64") ? 1.08 : 1.05) *
                static_cast<double>(stored.tensors().bytes()));
}

INSTANTIATE_TEST_SUITE_P(All, PackedFolder, testing::ValuesIn(kFolders));

TEST(PackedWeights, HaveTypesByTheirGroupsAndZeroPoints) {
  const std::map<std::string, DType> types = {{"gptq_g128", DType::kQ4_G128},
                                              {"gptq_g32", DType::kQ4_0},
                                              {"gptq_g32_act_order", DType::kQ4_G32},
                                              {"awq_g128", DType::kQ4_G128},
                                              {"compressed_g64", DType::kQ4_G32}};
  for (const auto& [name, dtype] : types) {
    const ModelFile model = ModelFile::open(folder_of(name));
    EXPECT_EQ(model.tensors().at("model.layers.0.mlp.down_proj.weight", {128, 256}).dtype, dtype);
    EXPECT_EQ(model.tensors().find("model.layers.0.mlp.down_proj.scales"), nullptr);
  }
}

// Matrices that were quantized for the same input share an order.
TEST(PackedWeights, NameTheOrdersOfTheirColumns) {
  const ModelFile model = ModelFile::open(folder_of("gptq_g32_act_order"));
  const auto order_of = [&](const std::string& module, const Shape& shape) {
    return model.lookup()("model.layers.0." + module + ".weight", shape).order;
  };
  const std::string q = order_of("self_attn.q_proj", {128, 128});
  EXPECT_EQ(order_of("self_attn.k_proj", {64, 128}), q);
  EXPECT_EQ(order_of("mlp.gate_proj", {256, 128}), order_of("mlp.up_proj", {256, 128}));
  EXPECT_NE(order_of("self_attn.o_proj", {128, 128}), q);
  const files::FileTensor& order = model.tensors().at(q, {128});
  std::vector<int32_t> columns(128), all(128);
  std::memcpy(columns.data(), order.bytes.data(), order.bytes.size());
  std::iota(all.begin(), all.end(), 0);
  EXPECT_NE(columns, all);
  std::ranges::sort(columns);
  EXPECT_EQ(columns, all);
  EXPECT_EQ(ModelFile::open(folder_of("gptq_g128"))
                .lookup()("model.layers.0.self_attn.q_proj.weight", {128, 128})
                .order,
            "");
}

// A matrix that was released is converted again; one that is kept stays.
TEST(PackedWeights, AreConvertedAgainAfterTheyWereReleased) {
  const ModelFile model = ModelFile::open(folder_of("awq_g128"));
  const std::string name = "model.layers.0.mlp.gate_proj.weight";
  const std::span<const std::byte> bytes = model.bytes(name);
  const std::vector<std::byte> first(bytes.begin(), bytes.end());
  model.release(bytes);
  EXPECT_FALSE(std::ranges::equal(bytes, first));  // whole pages are zeros
  EXPECT_TRUE(std::ranges::equal(model.bytes(name), first));
  model.keep(bytes);
  model.release(bytes);
  EXPECT_TRUE(std::ranges::equal(bytes, first));
}

// ---- matrices of random bits, against the published formulas ----

struct RandomMatrix {
  RandomMatrix(PackedFormat format, int64_t rows, int64_t columns, int64_t group_size) {
    Random random(5);
    const auto draw = [&](int64_t count) {
      std::vector<uint32_t> words(static_cast<size_t>(count));
      for (uint32_t& word : words) {
        word = 0;
        for (int i = 0; i < 4; ++i)
          word = word << 8 | static_cast<uint32_t>(256 * random.uniform());
      }
      return words;
    };
    quants = draw(rows * columns / 8);
    zeros = draw(rows * (columns / group_size) / 8);
    for (int64_t i = 0; i < rows * (columns / group_size); ++i)
      scales.push_back(float_to_f16(0.01f * (random.uniform() - 0.3f)));
    matrix = {.format = format,
              .zeros_less_one = format == PackedFormat::kGptq,
              .out = rows,
              .in = columns,
              .group = group_size,
              .quants = std::as_bytes(std::span(quants)),
              .zeros = std::as_bytes(std::span(zeros)),
              .scales = std::as_bytes(std::span(scales))};
  }
  static int nibble(const std::vector<uint32_t>& words, int64_t word, int64_t place) {
    return static_cast<int>(words[static_cast<size_t>(word)] >> (4 * place) & 15);
  }
  // AWQ puts columns 0, 2, 4, 6, 1, 3, 5, 7 of eight into a word, from its low bits on.
  static int64_t awq_place(int64_t column) {
    constexpr int64_t kOrder[8] = {0, 2, 4, 6, 1, 3, 5, 7};
    return std::find(kOrder, kOrder + 8, column % 8) - kOrder;
  }
  double value(int64_t row, int64_t column) const {
    const PackedMatrix& m = matrix;
    const int64_t group = column / m.group;
    int quant = 0, zero = 0;
    int64_t scale = group * m.out + row;
    if (m.format == PackedFormat::kGptq) {
      quant = nibble(quants, column / 8 * m.out + row, column % 8);
      zero = nibble(zeros, group * (m.out / 8) + row / 8, row % 8) + 1;
    } else if (m.format == PackedFormat::kAwq) {
      quant = nibble(quants, column * (m.out / 8) + row / 8, awq_place(row));
      zero = nibble(zeros, group * (m.out / 8) + row / 8, awq_place(row));
    } else {
      quant = nibble(quants, row * (m.in / 8) + column / 8, column % 8);
      zero = nibble(zeros, row / 8 * (m.in / m.group) + group, row % 8);
      scale = row * (m.in / m.group) + group;
    }
    return static_cast<double>(f16_to_float(scales[static_cast<size_t>(scale)])) * (quant - zero);
  }

  std::vector<uint32_t> quants, zeros;
  std::vector<uint16_t> scales;
  PackedMatrix matrix;
};

TEST(PackedWeights, HaveTheValuesOfTheirFormulas) {
  for (PackedFormat format : {PackedFormat::kGptq, PackedFormat::kAwq, PackedFormat::kCompressed})
    for (int64_t group : {32, 64, 128, 256, 384, 768}) {
      const RandomMatrix random(format, 40, 768, group);
      const DType type = group % 128 == 0 ? DType::kQ4_G128 : DType::kQ4_G32;
      std::vector<std::byte> blocks(static_cast<size_t>(storage_bytes(type, 40 * 768)));
      unpack(random.matrix, type, blocks);
      std::vector<float> values(40 * 768);
      dequantize(type, blocks, values);
      for (int64_t row = 0; row < 40; ++row)
        for (int64_t column = 0; column < 768; ++column)
          ASSERT_EQ(static_cast<double>(values[static_cast<size_t>(row * 768 + column)]),
                    random.value(row, column))
              << static_cast<int>(format) << " groups of " << group << ": " << row << ", "
              << column;
    }
}

TEST(PackedWeights, TakeScalesThatFp16Holds) {
  RandomMatrix random(PackedFormat::kCompressed, 8, 128, 128);
  std::vector<std::byte> blocks(static_cast<size_t>(storage_bytes(DType::kQ4_G128, 8 * 128)));
  const auto unpack_with = [&](float scale) {
    const std::vector<uint16_t> scales(8, float_to_bf16(scale));
    random.matrix.scale_type = DType::kBF16;
    random.matrix.scales = std::as_bytes(std::span(scales));
    unpack(random.matrix, DType::kQ4_G128, blocks);
    std::vector<float> values(8 * 128);
    dequantize(DType::kQ4_G128, blocks, values);
    return values;
  };
  const std::vector<float> values = unpack_with(0.0078125f);
  EXPECT_TRUE(
      std::ranges::all_of(values, [](float each) { return each * 128 == std::trunc(each * 128); }));
  files::expect_error([&] { unpack_with(1e-9f); }, ExitCode::kBadFile,
                      "expected scales that fp16 holds");
}

// ---- folders that break their format ----

// A copy of a folder, with changes.
struct BrokenFolder {
  explicit BrokenFolder(const char* name)
      : config(files::read_json(folder_of(name) / "config.json")),
        stored(files::SafetensorsFile::open(folder_of(name))) {
    for (const files::FileTensor& tensor : stored.tensors().all())
      tensors.push_back(files::source_of(tensor));
  }
  Json& quantization() { return config["quantization_config"]; }
  files::TensorSource& tensor(const std::string& part) {
    return *std::ranges::find_if(tensors, [&](const auto& each) {
      return each.name == "model.layers.0.self_attn.k_proj." + part;
    });
  }
  void remove(const std::string& part) {
    tensors.erase(tensors.begin() + (&tensor(part) - &tensors[0]));
  }
  void give(const std::string& part, DType dtype, const Shape& shape) {
    const auto bytes = static_cast<size_t>(storage_bytes(dtype, shape.elements()));
    data.assign(bytes, std::byte{0});
    tensor(part) = {tensor(part).name, dtype, shape,
                    [this] { return std::span<const std::byte>(data); }};
  }
  void give_groups(const std::vector<int32_t>& groups) {
    give("g_idx", DType::kI32, {std::ssize(groups)});
    std::memcpy(data.data(), groups.data(), data.size());
  }
  void expect_refused(const std::string& message) {
    files::ScratchFolder folder;
    files::write_plain(folder / "config.json", config.dump());
    files::write_safetensors(folder / "model.safetensors", tensors);
    files::expect_error([&] { ModelFile::open(folder.path()); }, ExitCode::kBadFile, message);
  }

  Json config;
  files::SafetensorsFile stored;
  std::vector<files::TensorSource> tensors;
  std::vector<std::byte> data;
};

void expect_refused(const char* folder,
                    const std::function<void(BrokenFolder&)>& change,
                    const std::string& message) {
  BrokenFolder broken(folder);
  change(broken);
  broken.expect_refused(message);
}

TEST(PackedWeights, AreRefusedInFormatsThatRidgeLacks) {
  const auto with = [](const char* key, const Json& value) {
    return [=](BrokenFolder& folder) { folder.quantization()[key] = value; };
  };
  expect_refused("gptq_g128", with("bits", 3), "bits] expected 4 bits, found 3");
  expect_refused("gptq_g128", with("bits", "four"), "expected an integer");
  expect_refused("gptq_g128", with("group_size", 48), "expected a multiple of 32 columns");
  expect_refused("gptq_g128", with("group_size", -2), "expected an integer >= -1");
  expect_refused("gptq_g128", with("checkpoint_format", "marlin"), "'gptq' or 'gptq_v2'");
  expect_refused("gptq_g128", with("quant_method", "bitsandbytes"), "'compressed-tensors'");
  expect_refused("awq_g128", with("version", "gemv"), "expected 'gemm'");
  expect_refused("awq_g128", with("group_size", nullptr), "the key \"group_size\" is missing");
  expect_refused("compressed_g64", with("format", "int-quantized"), "'pack-quantized'");
  expect_refused("compressed_g64", with("config_groups", Json::object()), "one group of modules");
  expect_refused(
      "gptq_g128", [](BrokenFolder& folder) { folder.config["quantization_config"] = 4; },
      "expected an object");
}

TEST(PackedWeights, AreRefusedWithPartsThatDoNotFit) {
  const auto give = [](const char* part, DType dtype, const Shape& shape) {
    return [=](BrokenFolder& folder) { folder.give(part, dtype, shape); };
  };
  const auto remove = [](const char* part) {
    return [=](BrokenFolder& folder) { folder.remove(part); };
  };
  expect_refused("gptq_g128", remove("scales"), "k_proj.scales");
  expect_refused("gptq_g128", remove("qzeros"), "k_proj.qzeros");
  expect_refused("compressed_g64", remove("weight_scale"), "k_proj.weight_scale");
  expect_refused("gptq_g128", give("scales", DType::kF16, {2, 64}), "expected shape [1,64]");
  expect_refused("gptq_g128", give("scales", DType::kI32, {1, 64}), "expected f16, bf16 or f32");
  expect_refused("gptq_g128", give("qzeros", DType::kI32, {1, 7}), "expected shape [1,8]");
  expect_refused("gptq_g128", give("qweight", DType::kI32, {12, 64}),
                 "whole groups of 128 columns");
  expect_refused("gptq_g128", give("qweight", DType::kI32, {16, 60}), "a multiple of 8 rows");
  expect_refused("gptq_g128", give("qweight", DType::kF16, {16, 64}), "a matrix of i32");
  expect_refused("gptq_g128", give("qweight", DType::kI32, {16}), "a matrix of i32");
  expect_refused("gptq_g128", give("qweight", DType::kI32, {0, 64}), "a matrix of i32");
  expect_refused("awq_g128", give("qweight", DType::kI32, {64, 8}), "whole groups of 128 columns");
  // The shape is checked against the configuration when the graph is built.
  BrokenFolder narrow("gptq_g128");
  narrow.config["hidden_size"] = 256;
  files::ScratchFolder folder;
  files::write_plain(folder / "config.json", narrow.config.dump());
  files::write_safetensors(folder / "model.safetensors", narrow.tensors);
  const ModelFile model = ModelFile::open(folder.path());
  files::expect_error(
      [&] {
        model.lookup()("model.layers.0.self_attn.k_proj.weight", {64, 256});
      },
      ExitCode::kBadFile, "expected shape [64,256]");
}

TEST(PackedWeights, AreRefusedWithGroupsThatDoNotExist) {
  std::vector<int32_t> groups(128);
  for (size_t i = 0; i < groups.size(); ++i) groups[i] = static_cast<int32_t>(i % 4);
  const auto with = [&](size_t at, int32_t group) {
    return [=](BrokenFolder& folder) {
      std::vector<int32_t> changed = groups;
      changed[at] = group;
      folder.give_groups(changed);
    };
  };
  expect_refused("gptq_g32_act_order", with(0, 4), "expected groups from 0 to 3, found 4");
  expect_refused("gptq_g32_act_order", with(127, -1), "expected groups from 0 to 3, found -1");
  expect_refused("gptq_g32_act_order", with(5, 0), "expected 32 columns in every group");
}

}  // namespace
}  // namespace ridge::models
