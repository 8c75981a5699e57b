// SPDX-License-Identifier: Apache-2.0
// Sessions of a user's options, and the options that no session can have.
#include "serve/session_choice.h"

#include <gtest/gtest.h>

#include <cstring>

#include "backends/ranks_in_threads.h"
#include "base/units.h"
#include "files/json.h"
#include "files/safetensors.h"
#include "files/scratch.h"
#include "models/adapter.h"
#include "models/convert.h"
#include "models/model_hash.h"
#include "passes/tensor_shards.h"
#include "runtime/ranks.h"
#include "serve/real_model.h"

namespace ridge::serve {
namespace {

using nlohmann::json;

// The whole message of the Error that `act` throws; empty if it throws none.
std::string error_of(const std::function<void()>& act, ExitCode code = ExitCode::kUsage) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << error.what();
    return error.what();
  }
  return "";
}

models::ModelConfig tiny_config() {
  return models::ModelFile::open(data_folder() + "llama_fp32").config();
}

constexpr Arithmetic kOnCpu{.on_gpu = false, .exact = false, .fast_8bit = false},
    kExactOnCpu{.on_gpu = false, .exact = true, .fast_8bit = false},
    kOnGpu{.on_gpu = true, .exact = false, .fast_8bit = false},
    kExactOnGpu{.on_gpu = true, .exact = true, .fast_8bit = false};

TEST(InferenceSelection, HasWhatTheArithmeticNeeds) {
  const auto has = [](const Arithmetic& arithmetic, const char* name) {
    return inference_selection(arithmetic, "compiled", "-tune_gemm").has(name);
  };
  const Arithmetic fast{.on_gpu = false, .exact = false, .fast_8bit = true};
  EXPECT_TRUE(has(kOnCpu, "quantize_activations"));
  EXPECT_TRUE(has(fast, "quantize_activations"));
  for (const Arithmetic& each : {kExactOnCpu, kOnGpu, kExactOnGpu})
    EXPECT_FALSE(has(each, "quantize_activations"));
  for (const char* name : {"store_bf16", "store_fragments", "autocast_bf16"}) {
    EXPECT_TRUE(has(kOnGpu, name)) << name;
    for (const Arithmetic& each : {kOnCpu, kExactOnCpu, kExactOnGpu})
      EXPECT_FALSE(has(each, name)) << name;
  }
  EXPECT_TRUE(has(kExactOnGpu, "store_f32"));
  for (const Arithmetic& each : {kOnCpu, kExactOnCpu, kOnGpu}) EXPECT_FALSE(has(each, "store_f32"));
  EXPECT_EQ(has(kOnGpu, "branches"), false);
  EXPECT_EQ(inference_selection(kOnCpu, "compiled", "").number("quantize_activations"),
            passes::Selection("compiled", "+quantize_activations").number("quantize_activations"));
  EXPECT_EQ(inference_selection(fast, "compiled", "").number("quantize_activations"), 8);
}

TEST(InferenceSelection, RefusesWhatHasNoEffect) {
  const auto refused = [](Arithmetic arithmetic) {
    arithmetic.fast_8bit = true;
    return error_of([&] { inference_selection(arithmetic, "compiled", ""); });
  };
  const std::string begin = "[fast-8bit] expected a CPU without --exact, got ",
                    end = "; only its GEMMs with quantized weights round activations to 8 bits";
  EXPECT_EQ(refused(kOnCpu), "");
  EXPECT_EQ(refused(kExactOnCpu), begin + "--exact" + end);
  EXPECT_EQ(refused(kOnGpu), begin + "a GPU" + end);
  EXPECT_EQ(refused(kExactOnGpu), begin + "a GPU" + end);
  const auto chosen = [](const Arithmetic& arithmetic, const char* switches) {
    return error_of([&] { inference_selection(arithmetic, "compiled", switches); });
  };
  EXPECT_EQ(chosen(kExactOnCpu, "-tune_gemm,+quantize_activations"),
            "[exact] quantize_activations rounds what --exact computes in fp32");
  EXPECT_EQ(chosen(kExactOnCpu, "-quantize_activations,+tune_gemm"), "");
  EXPECT_EQ(chosen(kOnCpu, "+quantize_activations"), "");
}

TEST(CacheDtypeOption, HasFourNames) {
  EXPECT_EQ(parse_cache_dtype(""), std::nullopt);
  EXPECT_EQ(parse_cache_dtype("fp32"), DType::kF32);
  EXPECT_EQ(parse_cache_dtype("bf16"), DType::kBF16);
  EXPECT_EQ(parse_cache_dtype("i8"), DType::kI8);
  EXPECT_EQ(parse_cache_dtype("fp8"), DType::kF8E4M3);
  EXPECT_EQ(error_of([] { parse_cache_dtype("f\n"); }),
            "[cache-dtype] expected fp32, bf16, i8 or fp8, got \"f\\x0a\"");
  EXPECT_EQ(error_of([] { parse_cache_dtype("fp16", "kv"); }),
            "[kv] expected fp32, bf16, i8 or fp8, got \"fp16\"");
}

TEST(CacheDtypeOption, FitsTheActivations) {
  const auto chosen = [](const char* text, const Arithmetic& arithmetic, const char* more = "") {
    const passes::Selection selection = inference_selection(arithmetic, "compiled", more);
    std::optional<DType> dtype;
    const std::string error =
        error_of([&] { dtype = chosen_cache_dtype(text, arithmetic, selection, "kv"); });
    return dtype ? std::string(cache_dtype_name(*dtype)) : error;
  };
  EXPECT_EQ(chosen("", kOnCpu), "");
  for (const char* each : {"fp32", "bf16", "i8"}) EXPECT_EQ(chosen(each, kOnCpu), each);
  for (const char* each : {"fp32", "bf16"}) EXPECT_EQ(chosen(each, kExactOnCpu), each);
  for (const char* each : {"bf16", "i8", "fp8"}) EXPECT_EQ(chosen(each, kOnGpu), each);
  EXPECT_EQ(chosen("fp32", kExactOnGpu), "fp32");
  EXPECT_EQ(chosen("fp8", kOnCpu), "[kv] expected fp32, bf16 or i8 on a CPU, got fp8");
  EXPECT_EQ(chosen("i8", kExactOnCpu),
            "[kv] expected fp32 or bf16 with --exact, got i8; attention over it rounds queries to "
            "16 bits");
  EXPECT_EQ(chosen("fp32", kOnGpu),
            "[kv] expected bf16, the type of activations, i8 or fp8, on a GPU, got fp32");
  for (const char* each : {"bf16", "i8", "fp8"})
    EXPECT_EQ(chosen(each, kExactOnGpu),
              std::string("[kv] expected fp32, the type of activations, on a GPU, got ") + each);
  for (const char* each : {"fp32", "i8"})
    EXPECT_EQ(chosen(each, kOnCpu, "+autocast_bf16"),
              std::string("[kv] expected bf16, the type of activations, got ") + each);
  EXPECT_EQ(chosen("bf16", kOnCpu, "+autocast_bf16"), "bf16");
}

TEST(CacheFits, IfTheMachineHasRoomForIt) {
  const models::ModelConfig config = tiny_config();
  SessionOptions session = at_level("compiled", 64);
  session.slots = 3;
  EXPECT_NO_THROW(expect_cache_fits(config, session, cpu_backend()));
  session.capacity = int64_t{1} << 40;  // 3 layers, 2 heads of 16 keys and values, 4 bytes each
  const std::string error =
      error_of([&] { expect_cache_fits(config, session, cpu_backend()); }, ExitCode::kOutOfMemory);
  const std::string begin =
      "[memory] the KV cache of 3 sequence(s) of 1099511627776 positions needs " +
      format_bytes(int64_t{2304} << 40) + ", but this machine has ";
  EXPECT_EQ(error.substr(0, begin.size()), begin);
  EXPECT_TRUE(error.ends_with(" left")) << error;
}

// A block of 16 positions takes 12 KiB.
TEST(KvCapacityTokens, SaysTheLeastBytes) {
  SessionOptions session = at_level("compiled", 33);
  session.prefix_caching = true;
  EXPECT_EQ(kv_capacity_tokens(3 * 12288, session, tiny_config()), 48);
  EXPECT_EQ(kv_capacity_tokens(4 * 12288 - 1, session, tiny_config()), 48);
  EXPECT_EQ(kv_capacity_tokens(4 * 12288, session, tiny_config()), 64);
  EXPECT_EQ(error_of([&] { kv_capacity_tokens(12288, session, tiny_config()); }),
            "[kv-memory] expected at least 36.0 KiB, one request of 33 positions, got 12.0 KiB");
}

TEST(InferenceOptions, ChooseAsTheirPartsDo) {
  InferenceOptions options;
  options.machine.device = "cpu";
  EXPECT_EQ(options.chosen_chunk(), 512);
  EXPECT_EQ(usual_chunk(true), 2048);
  options.chunk = 7;
  EXPECT_EQ(options.chosen_chunk(), 7);
  options.level.switches = "-tune_gemm";
  EXPECT_TRUE(options.selection("compiled").has("quantize_activations"));
  EXPECT_TRUE(options.selection("compiled").has("flash_attention"));
  EXPECT_FALSE(options.selection("baseline").has("flash_attention"));
  EXPECT_FALSE(options.selection("compiled").has("tune_gemm"));
  options.fast_8bit = true;
  EXPECT_EQ(options.selection("compiled").number("quantize_activations"), 8);
  options.fast_8bit = false, options.exact = true;
  EXPECT_FALSE(options.selection("compiled").has("quantize_activations"));
  options.cache_dtype = "bf16";
  EXPECT_EQ(options.chosen_cache_dtype(options.selection("compiled")), DType::kBF16);
  options.cache_dtype = "i8";
  EXPECT_EQ(error_of([&] { options.chosen_cache_dtype(options.selection("compiled"), "kv"); }),
            "[kv] expected fp32 or bf16 with --exact, got i8; attention over it rounds queries to "
            "16 bits");
}

TEST(SessionCapacity, IsTheContextOrWhatTheRunNeeds) {
  models::ModelConfig config = tiny_config();
  ASSERT_EQ(config.context, 256);
  InferenceOptions options;
  SessionNeeds needs;
  needs.least = 4;
  const auto of = [&](int64_t positions) {
    needs.positions = positions;
    return session_capacity(options, config, needs);
  };
  EXPECT_EQ(of(0), 1);
  EXPECT_EQ(of(2), 2);
  EXPECT_EQ(of(256), 256);
  EXPECT_EQ(of(257), 256);
  for (const int64_t context : {4, 5, 255, 256}) {
    options.context = context;
    EXPECT_EQ(of(100), context);
  }
  for (const int64_t context : {3, 257}) {
    options.context = context;
    EXPECT_EQ(
        error_of([&] { of(100); }),
        fmt::format("[context] expected 4 to 256 positions, the model's context, got {}", context));
  }
}

class OpenedFiles : public testing::Test {
 protected:
  OpenedFiles() { options_.model = data_folder() + "llama_fp32"; }

  // A shape of so many ids with a tokenizer of 701, and this template.
  void make_shape(int64_t vocabulary, const std::string& chat_template = "") {
    const std::filesystem::path folder = folder_ / "shape";
    std::filesystem::create_directories(folder);
    json config = files::read_json(data_folder() + "llama_fp32/config.json");
    config["vocab_size"] = vocabulary;
    files::write_plain(folder / "config.json", config.dump());
    const std::string source = data_folder() + "tokenizers/smollm/";
    std::filesystem::copy_file(source + "tokenizer.json", folder / "tokenizer.json");
    json about = files::read_json(source + "tokenizer_config.json");
    if (!chat_template.empty()) about["chat_template"] = chat_template;
    files::write_plain(folder / "tokenizer_config.json", about.dump());
    options_.model = folder.string();
    options_.random_weights = true;
  }
  // An adapter of rank 1 that adds 6 to each weight of a query matrix.
  void make_adapter() {
    const std::filesystem::path folder = folder_ / "adapter";
    std::filesystem::create_directories(folder);
    models::AdapterConfig config;
    config.rank = 1, config.alpha = 2, config.targets = {"q_proj"};
    files::write_plain(folder / models::kAdapterConfig, models::adapter_config_json(config));
    const std::vector<float> a(64, 1), b(64, 3);
    const std::string name =
        std::string(models::kAdapterPrefix) + "model.layers.1.self_attn.q_proj.lora_";
    const std::vector<files::TensorSource> sources{
        {name + "A.weight", DType::kF32, {1, 64}, [&] { return files::bytes_of(a); }},
        {name + "B.weight", DType::kF32, {64, 1}, [&] { return files::bytes_of(b); }}};
    files::write_safetensors(folder / models::kAdapterWeights, sources);
    options_.adapter = folder.string();
  }
  float first_of(const models::ModelFile& file, int layer) const {
    float value = 0;
    std::memcpy(&value,
                file.bytes(fmt::format("model.layers.{}.self_attn.q_proj.weight", layer)).data(),
                sizeof value);
    return value;
  }

  files::ScratchFolder folder_;
  InferenceOptions options_;
};

TEST_F(OpenedFiles, AreWeightsOrAShape) {
  EXPECT_TRUE(open_model_file(options_).has_weights());
  options_.random_weights = true;
  EXPECT_FALSE(open_model_file(options_).has_weights());
  EXPECT_EQ(open_model_file(options_).config().context, 256);
}

TEST_F(OpenedFiles, HaveTheirAdapterMerged) {
  const models::ModelFile plain = open_model_file(options_);
  make_adapter();
  const models::ModelFile merged = open_model_file(options_);
  EXPECT_NEAR(first_of(merged, 1), first_of(plain, 1) + 6, 1e-5);
  EXPECT_EQ(first_of(merged, 0), first_of(plain, 0));
}

TEST_F(OpenedFiles, SampleOnlyIdsOfTheirTokenizer) {
  make_shape(720, "{{ a template }}");
  const TextModelFile made = open_text_model(options_);
  ASSERT_TRUE(made.tokenizer);
  EXPECT_EQ(made.tokenizer->vocab_size(), 701);
  EXPECT_EQ(made.file.config().vocabulary, 720);
  EXPECT_EQ(made.file.config().sampled_vocabulary(), 701);
  EXPECT_EQ(made.chat_template, "{{ a template }}");
  EXPECT_EQ(open_with_tokenizer(options_).tokenizer->vocab_size(), 701);
}

TEST_F(OpenedFiles, RefuseATokenizerOfMoreIds) {
  make_shape(700);
  EXPECT_EQ(error_of([&] { open_text_model(options_); }, ExitCode::kBadFile),
            "[model] " + options_.model + ": the tokenizer has 701 tokens, but the model has 700");
}

TEST_F(OpenedFiles, TakeAnotherTokenizer) {
  make_shape(960);
  EXPECT_EQ(open_text_model(options_).tokenizer->vocab_size(), 701);
  options_.tokenizer = data_folder() + "tokenizers/llama2";
  EXPECT_EQ(open_text_model(options_).tokenizer->vocab_size(), 949);
  EXPECT_EQ(open_text_model(options_).file.config().sampled_vocabulary(), 949);
}

TEST_F(OpenedFiles, SayWhereATokenizerWouldBe) {
  const TextModelFile made = open_text_model(options_);
  EXPECT_FALSE(made.tokenizer);
  EXPECT_EQ(made.chat_template, "");
  EXPECT_EQ(made.file.config().sampled_vocabulary(), 160);
  const auto error = [&] {
    return error_of([&] { open_with_tokenizer(options_); }, ExitCode::kBadFile);
  };
  EXPECT_EQ(error(), "[tokenizer] \"" + options_.model +
                         "\" has none; expected a tokenizer.json beside it, or --tokenizer");
  const std::string gguf = (folder_ / "model.gguf").string();
  models::convert_to_gguf(made.file, gguf, {});
  options_.model = gguf;
  EXPECT_EQ(error(),
            "[tokenizer] \"" + gguf + "\" has none; expected its keys in the file, or --tokenizer");
}

TEST(OpenedModel, HasASessionOfItsOptions) {
  InferenceOptions options;
  options.machine.device = "cpu";
  options.machine.threads = 1;
  options.level.level = "baseline";
  options.level.switches = "-tune_gemm";
  options.cache_dtype = "bf16";
  options.chunk = 9;
  SessionNeeds needs;
  needs.positions = 40, needs.slots = 3, needs.prefix_caching = true;
  const auto open = [&] {
    return open_model(models::ModelFile::open(data_folder() + "llama_fp32"), options, needs);
  };
  const auto plain = open();
  const SessionOptions& made = plain->session->options();
  EXPECT_EQ(made.capacity, 40);
  EXPECT_EQ(made.slots, 3);
  EXPECT_EQ(made.chunk, 9);
  EXPECT_TRUE(made.cached);
  EXPECT_TRUE(made.prefix_caching);
  EXPECT_EQ(made.cache_dtype, DType::kBF16);
  EXPECT_EQ(made.kv_capacity_tokens, 0) << "enough for all slots";
  EXPECT_FALSE(made.selection.has("flash_attention"));
  EXPECT_TRUE(made.stage.is_whole());
  EXPECT_EQ(made.rank, 0);
  EXPECT_EQ(plain->backend->name(), "cpu");
  EXPECT_EQ(plain->file.config().layers, 3);
  options.level.level = "compiled";
  options.level.switches = "-tune_gemm,+store_fragments";
  EXPECT_EQ(error_of([&] { open(); }),
            "[pass] store_fragments has no effect on a CPU, which does not have this pass");
  options.level.switches = "-tune_gemm";
  EXPECT_TRUE(open()->session->options().selection.has("flash_attention"));
  needs.cache_bytes = 6144 * 5;  // a block of 16 positions in bf16 takes 6 KiB
  EXPECT_EQ(open()->session->options().kv_capacity_tokens, 80);
  needs.cache_bytes = 1;
  EXPECT_EQ(error_of([&] { open(); }),
            "[kv-memory] expected at least 18.0 KiB, one request of 40 positions, got 1 B");
  needs.cache_bytes = 0, needs.cached = false, needs.slots = 1;
  options.cache_dtype = "";
  EXPECT_FALSE(open()->session->options().cached);
  EXPECT_FALSE(open()->session->options().prefix_caching);
}

// Two ranks of a group open models: the same one in two places, then two.
TEST(OpenedModel, IsTheSameOnEveryRank) {
  const files::ScratchFolder folder;
  const std::string first = data_folder() + "llama_fp32", copy = (folder / "copy").string(),
                    other = data_folder() + "qwen2_fp32";
  std::filesystem::copy(first, copy);
  const auto open = [&](const char* group, const std::string& second) {
    return backends::run_ranks_in_threads(2, [&](int rank, backends::RankWorld& world) {
      backends::Groups groups;
      groups[group] = world.split(0);
      InferenceOptions options;
      options.machine.device = "cpu";
      options.machine.threads = 1;
      options.machine.groups = &groups;
      options.level.switches = "-tune_gemm";
      open_model(models::ModelFile::open(rank == 0 ? first : second), options, {});
    });
  };
  const auto text = [](const std::string& path) {
    return "\"" + path + " " + models::sampled_hash(models::ModelFile::open(path)) + "\"";
  };
  const std::string differ = "[ranks] expected every rank to read the same model; rank 0 has " +
                             text(first) + ", rank 1 has " + text(other);
  for (const char* group : {"tensor", "pipeline"}) {
    EXPECT_EQ(open(group, copy), (std::vector<std::string>{"", ""})) << group;
    EXPECT_EQ(open(group, other), (std::vector<std::string>{differ, differ})) << group;
  }
  EXPECT_EQ(open("data", other), (std::vector<std::string>{"", ""}));
}

// The second of two ranks, on a host of its own. The first one is told nothing of the options.
InferenceOptions shared(const runtime::RankLayout& layout) {
  InferenceOptions options;
  options.level.switches = "-tune_gemm";
  options.rank = 7, options.stage = 8, options.stages = 9;
  const int port = runtime::free_port();
  std::thread first([&] {
    const auto world = backends::join_tcp_world({"127.0.0.1", port, 0, 2});
    const auto all = world->split(0);
    const auto pair = layout.pipeline > 1 ? world->split(0) : nullptr;
    all->gather("a first host");
    all->gather("1 -1 now");
    all->any(false);
    all->any(false);
    all->gather("0");
    if (pair != nullptr) pair->gather("0");
    all->any(false);
  });
  runtime::RankPlace place;
  place.launcher = runtime::Launcher::kTorchrun;
  place.rank = 1, place.ranks = 2;
  place.address = "127.0.0.1", place.port = port;
  {
    const runtime::Ranks ranks(place, layout, {}, true);
    share_model(options, ranks);
    ranks.any(false);
  }
  first.join();
  return options;
}

TEST(ShareModel, GivesARankItsPart) {
  const InferenceOptions tensor = shared({1, 2, 1});
  EXPECT_EQ(tensor.rank, 1);
  EXPECT_EQ(tensor.stage, 0);
  EXPECT_EQ(tensor.stages, 1);
  EXPECT_EQ(tensor.level.switches, "-tune_gemm,+shard_tensor_parallel=2");
  const InferenceOptions pipeline = shared({1, 1, 2});
  EXPECT_EQ(pipeline.rank, 0);
  EXPECT_EQ(pipeline.stage, 1);
  EXPECT_EQ(pipeline.stages, 2);
  EXPECT_EQ(pipeline.level.switches, "-tune_gemm");
}

}  // namespace
}  // namespace ridge::serve
