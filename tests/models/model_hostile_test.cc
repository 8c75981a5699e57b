// SPDX-License-Identifier: Apache-2.0
// Invalid models: each key of the configuration at its extremes, missing tensors, tensors of other
// shapes, and headers with changed bytes. Each opens or throws a bad-file Error that names the
// field. tests/files covers the formats, and tokenizer_hostile_test.cc tokenizers.
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "files/damage.h"
#include "files/file_numbers.h"
#include "files/gguf_writer.h"
#include "files/json.h"
#include "files/scratch.h"
#include "models/config_gguf.h"
#include "models/config_json.h"
#include "models/convert.h"
#include "models/forward_graph.h"
#include "models/weight_names.h"
#include "models/whole_gguf.h"
#include "ops/registry.h"

namespace ridge::models {
namespace {

using files::FileTensor;
using files::GgufValue;
using files::reads_or_refuses;

// Everything that happens before weights are read: the configuration, then each tensor that the
// graph needs.
void read_model(const files::GgufFile& file) {
  ModelConfig config = config_of_gguf(file);
  InferenceShape shape;
  shape.cached = false;
  build_inference_graph(
      config, ops::table(), shape, [&](const std::string& parameter, const Shape& expected) {
        const FileTensor& tensor = file.tensors().at(gguf_name(config.family, parameter), expected);
        return StoredWeight{tensor.name, tensor.dtype};
      });
}

// A small model as GGUF, and replacements in it.
class SmallGguf {
 public:
  explicit SmallGguf(const char* name) {
    convert_to_gguf(ModelFile::open(test_data(std::string("models/") + name)),
                    folder_ / "good.gguf", {});
    good_ = files::GgufFile::open(folder_ / "good.gguf");
    for (const FileTensor& tensor : good_.tensors().all())
      tensors_.push_back(files::source_of(tensor));
  }

  std::filesystem::path path() const { return folder_ / "good.gguf"; }
  const files::GgufFile& good() const { return good_; }
  std::vector<files::TensorSource> tensors() const { return tensors_; }

  void read_with(const std::string& key, GgufValue value) const {
    files::GgufWriter writer;
    writer.set_all(good_.metadata());
    writer.set(key, std::move(value));
    read(writer, tensors_);
  }
  void read_with(const std::vector<files::TensorSource>& tensors) const {
    files::GgufWriter writer;
    writer.set_all(good_.metadata());
    read(writer, tensors);
  }

 private:
  void read(const files::GgufWriter& writer,
            const std::vector<files::TensorSource>& tensors) const {
    writer.write(folder_ / "bad.gguf", tensors);
    read_model(files::GgufFile::open(folder_ / "bad.gguf"));
  }

  files::ScratchFolder folder_;
  files::GgufFile good_;
  std::vector<files::TensorSource> tensors_;
};

std::vector<GgufValue> extremes() {
  return {GgufValue(uint32_t{0}),
          GgufValue(uint32_t{1}),
          GgufValue(std::numeric_limits<uint32_t>::max()),
          GgufValue(int32_t{-1}),
          GgufValue(std::numeric_limits<int64_t>::min()),
          GgufValue(std::numeric_limits<int64_t>::max()),
          GgufValue(std::numeric_limits<uint64_t>::max()),
          GgufValue(std::numeric_limits<float>::quiet_NaN()),
          GgufValue(std::numeric_limits<double>::infinity()),
          GgufValue(-1.5f),
          GgufValue(std::numeric_limits<double>::denorm_min()),
          GgufValue(""),
          GgufValue("llama"),
          GgufValue(true),
          GgufValue::list(std::span<const uint32_t>())};
}

class HostileModel : public testing::TestWithParam<const char*> {};

TEST_P(HostileModel, EachKeyAtItsExtremes) {
  SmallGguf model(GetParam());
  int refused = 0, read = 0;
  for (std::string_view key : model.good().metadata().keys()) {
    if (!key.starts_with("llama.") && !key.starts_with("gemma3.") && !key.starts_with("qwen") &&
        key != "general.architecture")
      continue;
    std::vector<GgufValue> values = extremes();
    for (size_t i = 0; i < values.size(); ++i) {
      std::string what = fmt::format("{} at extreme {}", key, i);
      ++(reads_or_refuses([&] { model.read_with(std::string(key), values[i]); }, what) ? read
                                                                                       : refused);
    }
  }
  EXPECT_GT(refused, 100);
  EXPECT_GT(read, 5);  // some are legal: another base of RoPE, or true in a field that is not read
}

TEST_P(HostileModel, ExtremesAreNamedByTheirKey) {
  SmallGguf model(GetParam());
  std::string family(model.good().metadata().string("general.architecture"));
  auto refused = [&](const std::string& key, GgufValue value, const std::string& part) {
    files::expect_error([&] { model.read_with(key, std::move(value)); }, ExitCode::kBadFile, part);
  };
  for (const char* key : {"block_count", "embedding_length", "feed_forward_length",
                          "attention.head_count", "attention.head_count_kv", "attention.key_length",
                          "attention.value_length", "rope.dimension_count", "context_length"}) {
    std::string full = family + "." + key;
    refused(full, GgufValue(uint32_t{0}), full);
    refused(full, GgufValue(int64_t{-7}), full);
    refused(full, GgufValue(std::numeric_limits<uint64_t>::max()), full);
    refused(full, GgufValue("many"), full);
    refused(full, GgufValue(1.5f), full);
  }
  for (const char* key : {"attention.layer_norm_rms_epsilon", "rope.freq_base"}) {
    std::string full = family + "." + key;
    refused(full, GgufValue(std::numeric_limits<float>::quiet_NaN()), full);
    refused(full, GgufValue("small"), full);
  }
  refused(family + ".rope.freq_base", GgufValue(0.0f), family + ".rope.freq_base > 0");
  refused(family + ".attention.layer_norm_rms_epsilon", GgufValue(-1.0f), "rms_norm_eps");
  refused(family + ".rope.scaling.type", GgufValue("yarn"), family + ".rope.scaling.type");
  refused("general.architecture", GgufValue("mamba"),
          "architecture 'llama', 'qwen2', 'qwen3' or 'gemma3'");
  refused("general.architecture", GgufValue("qwen3moe"), "\"qwen3moe\"");
  refused(family + ".expert_count", GgufValue(uint32_t{8}), "8 experts");
}

TEST_P(HostileModel, MissingAndMisshapenTensorsAreNamed) {
  SmallGguf model(GetParam());
  for (size_t i = 0; i < model.tensors().size(); ++i) {
    std::vector<files::TensorSource> tensors = model.tensors();
    std::string name = tensors[i].name;
    // Without these tensors the model is still valid: it has a tied head or no scaling.
    bool is_optional = name == "output.weight" || name == "rope_freqs.weight";
    files::TensorSource kept = tensors[i];
    tensors.erase(tensors.begin() + static_cast<std::ptrdiff_t>(i));
    if (!is_optional)
      files::expect_error([&] { model.read_with(tensors); }, ExitCode::kBadFile, name);
    // The same bytes with one more dimension.
    std::vector<int64_t> dims = kept.shape.to_vector();
    dims.insert(dims.begin(), 1);
    kept.shape = Shape(dims);
    tensors.insert(tensors.begin() + static_cast<std::ptrdiff_t>(i), kept);
    files::expect_error([&] { model.read_with(tensors); }, ExitCode::kBadFile, name);
    // Integers instead of floats.
    if (kept.shape.rank() == 2) continue;
    tensors[i] = model.tensors()[i];
    tensors[i].dtype = DType::kI32;
    if (storage_bytes(DType::kI32, kept.shape.elements()) == model.tensors()[i].bytes())
      files::expect_error([&] { model.read_with(tensors); }, ExitCode::kBadFile, name);
  }
}

// Three flips of every byte of the header, and every truncation.
TEST_P(HostileModel, MutatedHeaders) {
  SmallGguf model(GetParam());
  std::span<const std::byte> mapped = model.good().mapping()->bytes();
  std::vector<std::byte> bytes(mapped.begin(), mapped.end());
  auto header = static_cast<size_t>(model.good().header_bytes());
  auto read = [&](size_t size) {
    read_model(files::GgufFile::parse(std::span(bytes).first(size), "mutant"));
  };
  for (size_t size = 0; size < header; ++size)
    EXPECT_FALSE(reads_or_refuses([&] { read(size); }, fmt::format("cut at {}", size)));
  int refused = 0;
  for (size_t i = 0; i < header; ++i) {
    for (int mask : {1, 128, 255}) {
      bytes[i] ^= static_cast<std::byte>(mask);
      refused +=
          reads_or_refuses([&] { read(bytes.size()); }, fmt::format("byte {} xor {}", i, mask)) ? 0
                                                                                                : 1;
      bytes[i] ^= static_cast<std::byte>(mask);
    }
  }
  EXPECT_GT(refused, static_cast<int>(header));
}

// config.json with each byte replaced.
TEST_P(HostileModel, MutatedConfigurations) {
  std::string good =
      files::contents(test_data(std::string("models/") + GetParam() + "/config.json"));
  int refused = 0;
  for (size_t i = 0; i < good.size(); ++i) {
    for (char c : {'9', '-', '"', '\0', '\xff'}) {
      std::string text = good;
      text[i] = c;
      auto read = [&] { parse_config(files::parse_json(text, "mutant.json"), "mutant.json"); };
      refused +=
          reads_or_refuses(read, fmt::format("byte {} is {}", i, static_cast<int>(c))) ? 0 : 1;
    }
  }
  EXPECT_GT(refused, static_cast<int>(good.size()));
}

TEST_P(HostileModel, DamagedConfigurations) {
  const std::string good =
      files::contents(test_data(std::string("models/") + GetParam() + "/config.json"));
  auto read = [](const std::string& text) {
    const ModelConfig config =
        parse_config(files::parse_json(text, "damaged.json"), "damaged.json");
    EXPECT_GT(config.parameters(), 0);
    EXPECT_LE(config.parameters(), kMostParameters);
  };
  constexpr int kRounds = 1000;
  const files::Outcomes outcomes = files::read_damaged(good, read, kRounds);
  EXPECT_GT(outcomes.refused, kRounds / 4);
  EXPECT_GT(outcomes.read, kRounds / 20);  // most keys have a default or are not read
}

// Each number that the file holds, also those of no model: lengths, counts, types and offsets.
TEST_P(HostileModel, EachNumberAtItsExtremes) {
  SmallGguf model(GetParam());
  files::ScratchFolder folder;
  write_whole_gguf(model.path(), folder / "whole.gguf");
  const std::string good = files::contents(folder / "whole.gguf");
  files::Outcomes outcomes;
  files::Sampling all(1);
  files::change_gguf_numbers(good, all, [&](const files::ChangedFile& changed) {
    auto read = [&] { read_model(files::GgufFile::parse(files::bytes_of(changed.bytes), "bad")); };
    outcomes.add(reads_or_refuses(read, changed.what));
  });
  EXPECT_GT(all.numbers(), 60u);
  EXPECT_GT(outcomes.refused, 200);
  EXPECT_GT(outcomes.read, 50);  // another epsilon or context, and the values that stood there
}

INSTANTIATE_TEST_SUITE_P(All,
                         HostileModel,
                         testing::Values("llama_fp32",
                                         "llama3_bf16_sharded",
                                         "gemma3_bf16",
                                         "qwen2_fp32",
                                         "qwen3_bf16"));

// The keys of the real models' configurations are at the beginning, before the vocabulary.
TEST(HostileRealModels, MutatedHeaders) {
  int files_read = 0;
  for (const char* name : {"SmolLM2-135M-Instruct.Q4_1.gguf", "gemma-3-270m-q4_k_m.gguf"}) {
    std::filesystem::path path = files::fetched_model(name);
    if (!std::filesystem::exists(path)) continue;
    ++files_read;
    files::MappedFile mapped(path);
    size_t header = static_cast<size_t>(files::GgufFile::parse(mapped.bytes(), "x").header_bytes());
    std::vector<std::byte> bytes(mapped.bytes().begin(), mapped.bytes().end());
    int refused = 0;
    auto flip = [&](size_t i, int mask) {
      bytes[i] ^= static_cast<std::byte>(mask);
      auto read = [&] { read_model(files::GgufFile::parse(bytes, "mutant")); };
      refused += reads_or_refuses(read, fmt::format("{}: byte {} xor {}", name, i, mask)) ? 0 : 1;
      bytes[i] ^= static_cast<std::byte>(mask);
    };
    constexpr size_t kKeys = 1024;
    for (size_t i = 0; i < kKeys; i += 2) flip(i, 1 << (i / 2 % 8));
    // Also the entries of the last tensors.
    for (size_t i = header - 512; i < header; i += 2) flip(i, 255);
    EXPECT_GT(refused, 250) << name;
  }
  if (files_read < 2)
    GTEST_SKIP() << 2 - files_read
                 << " of 2 real models are not on this machine: make models fetches them";
}

}  // namespace
}  // namespace ridge::models
