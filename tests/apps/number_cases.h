// SPDX-License-Identifier: Apache-2.0
// The commands and files whose numbers are tried: a few extremes of each in the unit tests, all in
// the slow ones.
#pragma once

#include "apps/number_trial.h"

namespace ridge::apps {

class NumberCases : public NumberTrial {
 protected:
  static std::string model(const std::string& name) {
    return files::test_data("models/" + name).string();
  }

  void try_all_options(size_t every) {
    files::write_plain(folder_ / "text", "one two three two one");
    const std::string llama = model("llama_fp32");
    try_options(
        {
            {"train", {"--preset", "tiny", "--steps", "2", "--warmup", "0", "--threads", "1"}},
            {"lab",
             {"--preset", "tiny", "--steps", "2", "--warmup", "0", "--threads", "1", "--levels",
              "baseline", "--no-advice", "--out", "lab", "--force"}},
            {"infer-lab", {llama,      "--levels",
                           "compiled", "--batch-sizes",
                           "1",        "--seq-lens",
                           "8",        "--prompt",
                           "4",        "--tokens",
                           "2",        "--threads",
                           "1",        "--latency-batches",
                           "1",        "--attention-lens",
                           "64",       "--seconds",
                           "1",        "--out",
                           "lab",      "--force"}},
            {"generate", {llama, "hi", "--max-tokens", "2", "--threads", "1"}},
            {"logits", {llama, "--ids", "1,2", "--threads", "1"}},
            {"perplexity", {llama, "--ids", "1,2,3", "--threads", "1"}},
            {"explain", {"--preset", "tiny", "--threads", "1"}},
            {"machine", {"--threads", "1"}},
            {"plan", {"--preset", "tiny", "--threads", "1"}},
            {"inspect", {llama}},
            {"convert", {llama, "made.gguf", "--force"}},
            {"bench op", {"softmax", "--threads", "1"}},
            {"bench model",
             {llama, "--prompt-tokens", "4", "--tokens", "2", "--repeats", "1", "--threads", "1"}},
            {"tokenizer train", {"text", "--vocab-size", "260", "--out", "made", "--force"}},
            {"tokenizer decode", {model("tokenizers/gpt2"), "--ids", "1"}},
        },
        every);
  }

  void try_configurations(size_t every) {
    for (const char* name : {"llama_fp32", "gemma3_bf16", "llama3_bf16_sharded"})
      try_fields(read(model(name) + "/config.json"), "config.json",
                 {{"plan", "--config", "config.json", "--hardware", "h100"},
                  {"plan", "--inference", "--config", "config.json", "--hardware", "h100",
                   "--batch-sizes", "1", "--seq-lens", "16"}},
                 every);
  }

  void try_hardware(size_t every) {
    const std::vector<std::vector<std::string>> plans{
        {"plan", "--preset", "tiny", "--hardware", "hw.json", "--json"}};
    try_fields(nlohmann::json::parse(R"({"name": "my-gpu", "peaks": {"f32": 19.5, "bf16": 312},
                   "tf32_tera_flops": 156, "vector_tera_flops": 19.5, "memory_tera_bytes": 2.0,
                   "memory_bytes": 80000000000, "cache_bytes": 40000000})"),
               "hw.json", plans, every);
    // What `ridge machine --json` prints and caches.
    Output machine = run({"machine", "--json", "--threads", "1"});
    ASSERT_EQ(machine.code, 0) << machine.err;
    try_fields(nlohmann::json::parse(machine.out), "hw.json", plans, every);
  }

  void try_run_folders(size_t every) {
    Output lab = run({"lab", "--preset", "tiny", "--steps", "2", "--warmup", "0", "--threads", "1",
                      "--levels", "baseline", "--no-advice", "--out", "good"});
    ASSERT_EQ(lab.code, 0) << lab.err;
    std::filesystem::create_directory(folder_ / "bad");
    try_fields(read(folder_ / "good/performance_summary.json"), "bad/performance_summary.json",
               {{"explain", "bad"}, {"diff", "bad", "good"}}, every);
  }

  void try_indices(size_t every) {
    const std::string good = model("llama3_bf16_sharded");
    std::filesystem::copy(good, folder_ / "model");
    try_fields(read(good + "/model.safetensors.index.json"), "model/model.safetensors.index.json",
               {{"inspect", "model"}}, every);
  }

  void try_tokenizers(size_t every) {
    for (const char* name : {"gpt2", "llama2", "llama3", "gemma"})
      try_fields(read(model(std::string("tokenizers/") + name) + "/tokenizer.json"),
                 "tokenizer.json", {{"tokenizer", "encode", "tokenizer.json"}}, every);
  }

  static nlohmann::json read(const std::filesystem::path& path) {
    return nlohmann::json::parse(files::contents(path));
  }
};

}  // namespace ridge::apps
