// SPDX-License-Identifier: Apache-2.0
// config.json with Hugging Face's key names: files written by transformers, old and new spellings,
// and malicious values.
#include "models/config_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "test_paths.h"

namespace ridge::models {
namespace {

using nlohmann::json;

json plain() {
  return {{"model_type", "llama"},  {"vocab_size", 100},        {"hidden_size", 32},
          {"num_hidden_layers", 2}, {"num_attention_heads", 4}, {"num_key_value_heads", 2},
          {"intermediate_size", 48}};
}

std::string refusal(const json& config) {
  try {
    parse_config(config, "test.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadFile) << error.what();
    EXPECT_NE(std::string(error.what()).find("test.json"), std::string::npos) << error.what();
    return error.what();
  }
  return "";
}

TEST(ConfigJson, ReadsFilesThatTransformersWrote) {
  ModelConfig llama = load_config(test_data("models/llama_fp32"));
  EXPECT_EQ(llama.family, Family::kLlama);
  EXPECT_EQ(llama.vocabulary, 160);
  EXPECT_EQ(llama.hidden, 64);
  EXPECT_EQ(llama.layers, 3);
  EXPECT_EQ(llama.heads, 4);
  EXPECT_EQ(llama.kv_heads, 2);
  EXPECT_EQ(llama.head_size, 16);
  EXPECT_EQ(llama.feed_forward, 172);
  EXPECT_EQ(llama.context, 256);
  EXPECT_DOUBLE_EQ(llama.norm_eps, 1e-5);
  EXPECT_FALSE(llama.tied_head);
  EXPECT_FALSE(llama.rope_interleaved);
  EXPECT_EQ(llama.parameters(), 156864);

  ModelConfig scaled = load_config(test_data("models/llama3_bf16_sharded/config.json"));
  EXPECT_EQ(scaled.rope_scaling.kind, "llama3");
  EXPECT_DOUBLE_EQ(scaled.rope_scaling.factor, 8);
  EXPECT_DOUBLE_EQ(scaled.rope_scaling.original_context, 64);
  EXPECT_DOUBLE_EQ(scaled.rope_theta, 500000);
  EXPECT_TRUE(scaled.tied_head);
  EXPECT_EQ(scaled.parameters(), 314784);

  ModelConfig gemma = load_config(test_data("models/gemma3_bf16"));
  EXPECT_EQ(gemma.family, Family::kGemma3);
  EXPECT_DOUBLE_EQ(gemma.rope_theta, 1e6);
  EXPECT_EQ(gemma.parameters(), 290656);
}

TEST(ConfigJson, GivesEachLayerOfMistralTheWindow) {
  json mistral = plain();
  mistral["model_type"] = "mistral";
  mistral["rope_theta"] = 5e4;
  EXPECT_EQ(parse_config(mistral, "test.json").window, 4096);
  mistral["sliding_window"] = nullptr;
  EXPECT_FALSE(parse_config(mistral, "test.json").has_window_layers());
  mistral["sliding_window"] = 6;
  const ModelConfig config = parse_config(mistral, "test.json");
  EXPECT_EQ(config.window, 6);
  EXPECT_TRUE(config.has_window_layers());
  EXPECT_FALSE(config.has_full_layers());
  EXPECT_DOUBLE_EQ(config.window_rope_theta, 5e4);
  const ModelConfig again =
      parse_config(json::parse(config_json(config, DType::kF32, nullptr)), "test.json");
  EXPECT_EQ(again.window, 6);
  EXPECT_FALSE(again.has_full_layers());
  EXPECT_DOUBLE_EQ(again.window_rope_theta, 5e4);
  mistral["rope_scaling"] = {{"type", "linear"}, {"factor", 2.0}};
  EXPECT_NE(refusal(mistral).find("no sliding window next to a scaling of RoPE"),
            std::string::npos);
}

json qwen(const char* type) {
  json config = plain();
  config["model_type"] = type;
  return config;
}

ModelConfig written_again(const ModelConfig& config) {
  return parse_config(json::parse(config_json(config, DType::kF32, nullptr)), "test.json");
}

TEST(ConfigJson, ReadsTheBiasesAndNormsOfQwen) {
  const ModelConfig two = parse_config(qwen("qwen2"), "test.json");
  EXPECT_EQ(two.family, Family::kQwen2);
  EXPECT_TRUE(two.qkv_bias);
  EXPECT_FALSE(two.output_bias || two.mlp_bias || two.has_head_norms() || two.tied_head);
  json ignored = qwen("qwen2");  // as transformers does
  ignored["attention_bias"] = false;
  EXPECT_TRUE(parse_config(ignored, "test.json").qkv_bias);
  const ModelConfig three = parse_config(qwen("qwen3"), "test.json");
  EXPECT_TRUE(three.has_head_norms());
  EXPECT_FALSE(three.qkv_bias || three.output_bias);
  json biased = qwen("qwen3");
  biased["attention_bias"] = true;
  EXPECT_TRUE(parse_config(biased, "test.json").qkv_bias);
  EXPECT_TRUE(parse_config(biased, "test.json").output_bias);
  for (const char* type : {"qwen2_moe", "qwen3_moe", "qwen2_vl", "qwen3_next"})
    EXPECT_NE(refusal(qwen(type)).find(fmt::format("\"{}\"", type)), std::string::npos);
  EXPECT_EQ(two.head_size, 8);
  EXPECT_EQ(three.head_size, 128);  // transformers' default
  json yarn = qwen("qwen2");
  yarn["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 4.0}};
  EXPECT_NE(refusal(yarn).find("\"yarn\""), std::string::npos);
}

// The window counts only with use_sliding_window; then from max_window_layers on, or as listed.
TEST(ConfigJson, ReadsTheWindowsOfQwen) {
  json config = qwen("qwen2");
  config["num_hidden_layers"] = 4;
  config["sliding_window"] = 8;
  config["max_window_layers"] = 3;
  auto read = [&] { return parse_config(config, "test.json"); };
  EXPECT_EQ(read().window, 0);
  config["use_sliding_window"] = true;
  EXPECT_EQ(read().window, 8);
  EXPECT_EQ(read().is_window_layer, (std::vector<bool>{false, false, false, true}));
  EXPECT_EQ(written_again(read()).is_window_layer, read().is_window_layer);
  config["rope_theta"] = 5e5;
  EXPECT_DOUBLE_EQ(read().window_rope_theta, 5e5);
  config["max_window_layers"] = 4;
  EXPECT_FALSE(read().has_window_layers());
  config["layer_types"] = {"full_attention", "sliding_attention", "full_attention",
                           "full_attention"};
  EXPECT_EQ(read().is_window_layer, (std::vector<bool>{false, true, false, false}));
  EXPECT_EQ(written_again(read()).is_window_layer, read().is_window_layer);
  config["use_sliding_window"] = false;
  EXPECT_NE(refusal(config).find("use_sliding_window"), std::string::npos);
  config["use_sliding_window"] = true;
  config["sliding_window"] = -8;
  EXPECT_NE(refusal(config), "");
  config["sliding_window"] = 8;
  config["max_window_layers"] = -1;
  EXPECT_NE(refusal(config).find("max_window_layers"), std::string::npos);
  config["max_window_layers"] = 0;
  config["rope_scaling"] = {{"type", "linear"}, {"factor", 2.0}};
  EXPECT_NE(refusal(config).find("next to a scaling of RoPE"), std::string::npos);
}

TEST(ConfigJson, RefusesToWriteBiasesThatTheFamilyDoesNotHave) {
  auto refused = [](const char* type, auto change) {
    ModelConfig config = parse_config(qwen(type), "test.json");
    change(config);
    try {
      config_json(config, DType::kF32, nullptr);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage);
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(refused("qwen2", [](ModelConfig& c) { c.qkv_bias = false; }).find("a bias on q, k"),
            std::string::npos);
  EXPECT_NE(refused("qwen2", [](ModelConfig& c) { c.output_bias = true; }).find("no bias on o"),
            std::string::npos);
  EXPECT_NE(refused("qwen3", [](ModelConfig& c) { c.mlp_bias = true; }).find("on the MLP"),
            std::string::npos);
  EXPECT_NE(refused("llama", [](ModelConfig& c) { c.qkv_bias = true; }).find("no bias on q"),
            std::string::npos);
  EXPECT_EQ(refused("qwen3", [](ModelConfig& c) { c.qkv_bias = c.output_bias = true; }), "");
}

TEST(ConfigJson, FillsWhatOldFilesLeaveOut) {
  json old = plain();
  old.erase("num_key_value_heads");
  old.erase("model_type");
  old["rope_scaling"] = {{"type", "linear"}, {"factor", 4.0}};
  ModelConfig config = parse_config(old, "test.json");
  EXPECT_EQ(config.kv_heads, 4);
  EXPECT_EQ(config.head_size, 8);
  EXPECT_DOUBLE_EQ(config.rope_theta, 1e4);
  EXPECT_EQ(config.rope_scaling.kind, "linear");
  EXPECT_DOUBLE_EQ(config.rope_scaling.factor, 4);
  old["rope_scaling"] = nullptr;
  EXPECT_EQ(parse_config(old, "test.json").rope_scaling.kind, "");
}

TEST(ConfigJson, RefusesEachKeyOfTheWrongTypeByName) {
  const json wrong[] = {json("text"),   json(1.5), json(true),  json::array(),
                        json::object(), json(-1),  json(1e300), json(18446744073709551615u)};
  for (const char* key : {"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
                          "num_key_value_heads", "intermediate_size", "head_dim"})
    for (const json& value : wrong) {
      json config = plain();
      config[key] = value;
      std::string what = refusal(config);
      EXPECT_NE(what, "") << key << " " << value;
    }
  for (const char* key : {"rms_norm_eps", "rope_theta"})
    for (const json& value : {json("text"), json(true), json::array()}) {
      json config = plain();
      config[key] = value;
      EXPECT_NE(refusal(config).find(key), std::string::npos) << value;
    }
  for (const char* key : {"tie_word_embeddings", "attention_bias", "mlp_bias"}) {
    json config = plain();
    config[key] = "yes";
    EXPECT_NE(refusal(config).find(key), std::string::npos);
  }
}

TEST(ConfigJson, NamesTheMissingKey) {
  for (const char* key : {"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
                          "intermediate_size"}) {
    json config = plain();
    config.erase(key);
    EXPECT_NE(refusal(config).find(fmt::format("the key \"{}\" is missing", key)),
              std::string::npos);
  }
}

TEST(ConfigJson, RefusesWhatItCannotRun) {
  auto with = [](const char* key, json value) {
    json config = plain();
    config[key] = std::move(value);
    return refusal(config);
  };
  EXPECT_NE(with("model_type", "mamba").find("\"mamba\""), std::string::npos);
  EXPECT_NE(with("hidden_act", "relu").find("'silu'"), std::string::npos);
  EXPECT_NE(with("num_attention_heads", 5).find("multiple of num_attention_heads"),
            std::string::npos);
  EXPECT_NE(with("num_attention_heads", 0), "");
  EXPECT_NE(with("num_key_value_heads", 3), "");
  EXPECT_NE(with("head_dim", 7).find("even head size"), std::string::npos);
  EXPECT_NE(with("rope_scaling", {{"rope_type", "yarn"}, {"factor", 2.0}}).find("\"yarn\""),
            std::string::npos);
  EXPECT_NE(with("rope_scaling", {{"rope_type", "linear"}}).find("factor"), std::string::npos);
  EXPECT_NE(with("rope_scaling", {{"rope_type", "linear"}, {"factor", 0}}).find("factor > 0"),
            std::string::npos);
  EXPECT_NE(with("rope_scaling", "linear"), "");
  json gemma = plain();
  gemma["model_type"] = "gemma3_text";
  gemma["hidden_activation"] = "gelu_pytorch_tanh";
  for (const char* cap : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    gemma[cap] = nullptr;
    EXPECT_EQ(refusal(gemma), "");
    for (const json& bad : {json(0), json(-1), json("30")}) {
      gemma[cap] = bad;
      EXPECT_NE(refusal(gemma).find(cap), std::string::npos) << bad;
    }
    gemma[cap] = nullptr;
  }
  gemma["final_logit_softcapping"] = 30.0;
  EXPECT_EQ(refusal(gemma), "");
  gemma["attn_logit_softcapping"] = 30.0;
  EXPECT_NE(refusal(gemma).find("attn_logit_softcapping"), std::string::npos);
  EXPECT_NE(refusal(json::array()), "");
  EXPECT_NE(refusal(json()), "");
}

TEST(ConfigJson, NamesTheFileThatIsNotThere) {
  try {
    load_config("/nowhere/config.json");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadFile);
    EXPECT_NE(std::string(error.what()).find("/nowhere/config.json"), std::string::npos);
  }
}

}  // namespace
}  // namespace ridge::models
