// SPDX-License-Identifier: Apache-2.0
// Runs ridge inspect and convert as a user does, and checks their output, errors and files.
#include <nlohmann/json.hpp>

#include "apps/program_run.h"
#include "files/gguf_file.h"
#include "files/gguf_writer.h"

namespace ridge::apps {
namespace {

using nlohmann::json;

class ModelFilesTest : public ProgramTest {
 protected:
  static std::string small(const std::string& name) { return test_data("models/" + name).string(); }

  // Waits until the folder has `count` files.
  void await_files(size_t count) const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (folder_.count() < count && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(folder_.count(), count);
  }

  json inspect(const std::string& model, const std::string& contexts = "") const {
    std::vector<std::string> arguments{"inspect", model, "--json"};
    if (!contexts.empty()) arguments.insert(arguments.end(), {"--context", contexts});
    Output output = run(arguments);
    EXPECT_EQ(output.code, 0) << output.err;
    return json::parse(output.out, nullptr, false);
  }
};

TEST_F(ModelFilesTest, InspectCountsASmallModel) {
  json made = inspect(small("gemma3_bf16"), "16,128,512");
  ASSERT_TRUE(made.is_object());
  EXPECT_EQ(made["architecture"], "gemma3");
  EXPECT_EQ(made["config"]["window_layers"], 4);
  EXPECT_EQ(made["types"].size(), 1u);
  EXPECT_EQ(made["types"]["bf16"]["elements"], made["parameters"]);
  EXPECT_EQ(made["weight_bytes"], 2 * made["parameters"].get<int64_t>());
  EXPECT_DOUBLE_EQ(made["bits_per_weight"], 16);
  // Per position and layer: keys and values of 1 head of 24 in fp32. Chunks are at most the
  // context. At a context of 16, window layers hold all 16 positions; from 128 on they hold 16 +
  // chunk - 1.
  int64_t each = 2 * 24 * 4;
  EXPECT_EQ(made["memory"][0]["kv_cache_bytes"], 6 * 16 * each);
  EXPECT_EQ(made["memory"][2]["kv_cache_bytes"], 6 * 512 * each);
  EXPECT_TRUE(made["unread_tensors"].empty());
  EXPECT_EQ(run({"inspect", small("gemma3_bf16"), "--chunk", "8"}).code, 0);
  json chunked = json::parse(
      run({"inspect", small("gemma3_bf16"), "--json", "--chunk", "8", "--context", "512"}).out);
  EXPECT_EQ(chunked["memory"][0]["kv_cache_bytes"], (2 * 512 + 4 * (16 + 8 - 1)) * each);
}

TEST_F(ModelFilesTest, InspectNamesTheFamily) {
  for (const auto& [name, family] : {std::pair{"llama_fp32", "llama"},
                                     {"mistral_fp32", "mistral"},
                                     {"qwen2_fp32", "qwen2"},
                                     {"qwen3_bf16", "qwen3"}})
    EXPECT_EQ(inspect(small(name))["architecture"], family);
  const json qwen2 = inspect(small("qwen2_fp32"))["config"];
  EXPECT_EQ(qwen2["qkv_bias"], true);
  EXPECT_EQ(qwen2["output_bias"], false);
  EXPECT_EQ(inspect(small("qwen2_window_fp32"))["config"]["window_layers"], 2);
}

TEST_F(ModelFilesTest, InspectCountsTheCacheInEachType) {
  // Keys and values of 1 head of 24; i8 and fp8 have a scale for each.
  for (const auto& [dtype, each] : {std::pair{"fp32", 2 * 24 * 4},
                                    {"bf16", 2 * 24 * 2},
                                    {"i8", 2 * (24 + 4)},
                                    {"fp8", 2 * (24 + 4)}}) {
    json made = json::parse(run({"inspect", small("gemma3_bf16"), "--json", "--chunk", "8",
                                 "--context", "512", "--cache-dtype", dtype})
                                .out);
    EXPECT_EQ(made["cache_dtype"], dtype);
    EXPECT_EQ(made["memory"][0]["kv_cache_bytes"], (2 * 512 + 4 * (16 + 8 - 1)) * each);
  }
  Output text = run({"inspect", small("gemma3_bf16"), "--cache-dtype", "i8"});
  EXPECT_NE(text.out.find("Keys and values are in i8 with a scale"), std::string::npos);
  expect_refused({"inspect", small("gemma3_bf16"), "--cache-dtype", "f16"}, 2,
                 "[cache-dtype] expected fp32, bf16, i8 or fp8, got \"f16\"");
}

TEST_F(ModelFilesTest, InspectCountsGemma3_270m) {
  std::filesystem::path path = files::fetched_model("gemma-3-270m-q4_k_m.gguf");
  if (!std::filesystem::exists(path))
    GTEST_SKIP() << path << " is not on this machine: make models fetches it";
  json made = inspect(path.string(), "32768");
  EXPECT_EQ(made["parameters"], 268'098'176);
  EXPECT_EQ(made["config"]["window"], 512);
  EXPECT_EQ(made["config"]["window_layers"], 15);
  EXPECT_EQ(made["types"].size(), 5u);
  EXPECT_EQ(made["metadata"]["general.architecture"], "gemma3");
  EXPECT_EQ(made["metadata"]["tokenizer.ggml.tokens"]["count"], 262144);
  EXPECT_EQ(made["memory"][0]["kv_cache_bytes"],
            (3 * int64_t{32768} + 15 * (512 + 512 - 1)) * 2 * 256 * 4);
  Output text = run({"inspect", path.string()});
  EXPECT_NE(text.out.find("268,098,176 parameters"), std::string::npos);
  EXPECT_NE(text.out.find("blk.*.attn_q.weight"), std::string::npos);
}

TEST_F(ModelFilesTest, InspectNamesWhatIsWrong) {
  expect_refused({"inspect", "nowhere"}, 3, "found nothing");
  expect_refused({"inspect", small("llama_fp32"), "--context", "257"}, 2,
                 "expected 1 to 256 positions");
  expect_refused({"inspect", small("llama_fp32"), "--context", "x"}, 2,
                 "[context] expected numbers");
  expect_refused({"inspect", small("llama_fp32"), "--chunk", "0"}, 2, "[chunk]");
}

TEST_F(ModelFilesTest, ConvertGoesBothWays) {
  Output made = run({"convert", small("llama3_bf16_sharded"), "model.gguf", "--type", "q8_0"});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_NE(made.out.find("Wrote model.gguf"), std::string::npos);
  EXPECT_NE(made.err.find("note: no tokenizer.json"), std::string::npos);
  json quantized = inspect("model.gguf");
  EXPECT_EQ(quantized["types"].size(), 2u);
  EXPECT_TRUE(quantized["types"].contains("q8_0"));
  EXPECT_EQ(quantized["metadata"]["general.file_type"], 7);
  EXPECT_EQ(quantized["unread_tensors"][0], "rope_freqs.weight");
  ASSERT_EQ(run({"convert", "model.gguf", "folder", "--type", "bf16", "--max-shard", "1"}).code, 0);
  EXPECT_EQ(inspect("folder")["parameters"], quantized["parameters"]);
  EXPECT_EQ(folder_.count(), 2u);
  expect_refused({"convert", small("llama_fp32"), "model.gguf"}, 2, "--force replaces it");
  EXPECT_EQ(run({"convert", small("llama_fp32"), "model.gguf", "--force"}).code, 0);
  expect_refused({"convert", "model.gguf", "folder"}, 2, "expected a new or an empty folder");
}

TEST_F(ModelFilesTest, ConvertRefusesAndLeavesNothing) {
  expect_refused({"convert", small("llama_fp32")}, 2, "OUT");
  expect_refused({"convert", "nowhere", "out.gguf"}, 3, "found nothing");
  expect_refused({"convert", small("llama_fp32"), "out.gguf", "--type", "q9"}, 2,
                 "[type] expected one of q2_k");
  expect_refused({"convert", small("llama_fp32"), "out", "--type", "q4_0"}, 2,
                 "[type] expected one of bf16, f16, f32");
  expect_refused({"convert", small("llama_fp32"), "out", "--max-shard", "0"}, 2, "[max-shard]");
  expect_refused({"convert", small("llama_fp32"), "no/such/out.gguf"}, 1, "cannot write");
  // A disk that becomes full in the middle of the weights.
  for (const char* out : {"out.gguf", "out"}) {
    Output full = run({"convert", small("llama_fp32"), out}, {.file_bytes = 100000});
    EXPECT_EQ(full.code, 1) << full.err;
    EXPECT_NE(full.err.find("cannot write"), std::string::npos) << full.err;
    EXPECT_EQ(folder_.count(), 0u);
  }
}

// A shape with rows of whole super-blocks.
json random_shape() {
  return {{"model_type", "llama"},        {"vocab_size", 320},        {"hidden_size", 256},
          {"num_hidden_layers", 2},       {"num_attention_heads", 4}, {"intermediate_size", 512},
          {"max_position_embeddings", 64}};
}

TEST_F(ModelFilesTest, RandomWeightsMakeAModelThatRuns) {
  files::write_plain(folder_ / "shape.json", random_shape().dump());
  Output made = run({"convert", "--random-weights", "shape.json", "model.gguf", "--type", "q4_k"});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_NE(made.err.find("the file has no vocabulary"), std::string::npos) << made.err;
  const json model = inspect("model.gguf");
  EXPECT_EQ(model["metadata"]["general.name"], "shape");
  EXPECT_EQ(model["metadata"]["general.file_type"], 14);
  EXPECT_EQ(model["types"]["q4_k"]["elements"], 320 * 256 + 2 * (4 * 256 * 256 + 3 * 256 * 512));
  EXPECT_EQ(model["types"]["q6_k"]["elements"], 320 * 256);
  const Output logits = run({"logits", "model.gguf", "--ids", "1,2,3", "--threads", "1", "--json"});
  ASSERT_EQ(logits.code, 0) << logits.err;
  EXPECT_EQ(run({"bench", "model", "model.gguf", "-p", "4", "-n", "2", "-r", "1", "--device", "cpu",
                 "--threads", "1"})
                .code,
            0);
  expect_refused({"generate", "model.gguf", "text"}, 3, "tokenizer");
  expect_refused({"convert", "--random-weights", "shape.json", "model.gguf"}, 2, "--force");
  ASSERT_EQ(run({"convert", "--random-weights", "shape.json", "other.gguf", "--type", "q4_k",
                 "--seed", "1"})
                .code,
            0);
  EXPECT_NE(files::contents(folder_ / "other.gguf"), files::contents(folder_ / "model.gguf"));
}

TEST_F(ModelFilesTest, RandomWeightsRefuseWhatIsNoShape) {
  const auto refuse = [&](const char* key, const json& value, const std::string& part) {
    json shape = random_shape();
    shape[key] = value;
    files::write_plain(folder_ / "shape.json", shape.dump());
    expect_refused({"convert", "--random-weights", "shape.json", "out.gguf"}, 3, part);
    expect_refused({"convert", "--random-weights", "shape.json", "out"}, 3, part);
  };
  refuse("hidden_size", int64_t{1} << 62, "hidden_size");
  refuse("hidden_size", -256, "hidden_size");
  refuse("hidden_size", "256", "hidden_size");
  refuse("num_hidden_layers", 0, "num_hidden_layers");
  refuse("num_hidden_layers", 1 << 20, "num_hidden_layers");
  refuse("vocab_size", 1e300, "vocab_size");
  refuse("num_attention_heads", 7, "num_attention_heads");
  refuse("model_type", "mamba",
         "expected 'llama', 'mistral', 'qwen2', 'qwen3' or 'gemma3_text', found \"mamba\"");
  files::write_plain(folder_ / "shape.json", "{");
  expect_refused({"convert", "--random-weights", "shape.json", "out.gguf"}, 3, "shape.json");
  expect_refused({"convert", "--random-weights", "nowhere", "out.gguf"}, 3, "nowhere");
  expect_refused({"convert", small("llama_fp32"), "out.gguf", "--seed", "1"}, 2,
                 "without --random-weights");
}

TEST_F(ModelFilesTest, InterruptedRandomWeightsLeaveNothing) {
  json shape = random_shape();
  shape["num_hidden_layers"] = 3000;  // far more than the test waits for
  files::write_plain(folder_ / "shape.json", shape.dump());
  for (const char* out : {"out.gguf", "out"}) {
    const pid_t child = start({"convert", "--random-weights", "shape.json", out});
    await_files(2);  // the unfinished output has a name of its own
    ::kill(child, SIGINT);
    EXPECT_EQ(finish(child).code, 128 + SIGINT);
    EXPECT_EQ(folder_.count(), 1u);
  }
}

// Every subcommand that reads a model reports a damaged one alike: exit code 3 and the field.
TEST_F(ModelFilesTest, DamagedModelsAreNamedByTheirField) {
  ASSERT_EQ(run({"convert", small("gemma3_bf16"), "good.gguf"}).code, 0);
  const files::GgufFile good = files::GgufFile::open(folder_ / "good.gguf");
  auto damaged = [&](const char* key, files::GgufValue value) {
    files::GgufWriter writer;
    writer.set_all(good.metadata());
    writer.set(key, std::move(value));
    std::vector<files::TensorSource> tensors;
    for (const files::FileTensor& tensor : good.tensors().all())
      tensors.push_back(files::source_of(tensor));
    writer.write(folder_ / "bad.gguf", tensors);
  };
  for (const char* command : {"inspect", "convert", "logits", "perplexity"}) {
    std::vector<std::string> arguments{command, "bad.gguf"};
    if (arguments[0] == "convert") arguments.emplace_back("out.gguf");
    if (arguments[0] == "logits" || arguments[0] == "perplexity")
      arguments.insert(arguments.end(), {"--ids", "1,2"});
    damaged("gemma3.block_count", files::GgufValue(uint64_t{1} << 62));
    expect_refused(arguments, 3, "gemma3.block_count");
    damaged("gemma3.embedding_length", files::GgufValue(uint32_t{72}));
    expect_refused(arguments, 3, "token_embd.weight");
    damaged("gemma3.block_count", files::GgufValue(uint32_t{7}));
    expect_refused(arguments, 3, "blk.6.");
  }
}

TEST_F(ModelFilesTest, TrainSavesAModelThatRuns) {
  Output trained = run(tiny({"train", "--steps", "1", "--save", "model", "--json"}));
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_GT(inspect("model")["parameters"], 1'000'000);
  EXPECT_EQ(run({"logits", "model", "--ids", "1,2,3", "--device", "cpu", "--threads", "1"}).code,
            0);
  expect_refused(tiny({"train", "--steps", "1", "--save", "model"}), 2,
                 "expected a new or an empty folder");
  expect_refused(tiny({"train", "--steps", "1", "--save", "no/such"}), 1, "cannot make a folder");
}

}  // namespace
}  // namespace ridge::apps
