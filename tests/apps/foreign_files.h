// SPDX-License-Identifier: Apache-2.0
// The files that the program reads, all valid, with the commands that read them, and what the
// program must do once one of them is changed. No tests.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/program_run.h"
#include "models/whole_gguf.h"
#include "record/rank_ring.h"

namespace ridge::apps {

// A file of the scratch folder. The commands end with 0 while it holds the good bytes.
struct ForeignFile {
  std::string path;
  std::string good;
  std::vector<std::vector<std::string>> commands;
};

class ForeignFiles : public ProgramTest {
 protected:
  static constexpr const char* kHardware = "h100";

  static std::string sample(const std::string& name) {
    return test_data("models/" + name).string();
  }

  // Exit code 0, 2, 3 or 4; at most one message of one line; seconds; less than a GiB.
  void expect_answer(const std::vector<std::string>& arguments, const std::string& cache = "") {
#if defined(__SANITIZE_ADDRESS__)
    constexpr int64_t kSlower = 8, kMostBytes = int64_t{4} << 30;
#else
    constexpr int64_t kSlower = 1, kMostBytes = int64_t{1} << 30;
#endif
    constexpr size_t kLongestMessage = 2000;
    const std::string line = joined(arguments);
    const Output output = answer(arguments, {.cpu_seconds = 5 * kSlower, .cache = cache});
    EXPECT_TRUE(output.code == 0 || (output.code >= 2 && output.code <= 4))
        << line << "ended with " << output.code << "\n"
        << output.err;
    EXPECT_LT(output.peak_bytes, kMostBytes) << line;
    expect_harmless(output.err, line);
    // These two print text as it is.
    if (arguments[0] != "generate" && arguments[0] != "tokenizer")
      expect_harmless(output.out, line);
    if (output.code == 0) return;
    const size_t message = output.err.find("ridge: ");
    ASSERT_NE(message, std::string::npos) << line << "\n" << output.err;
    EXPECT_EQ(output.err.find("ridge: ", message + 1), std::string::npos) << output.err;
    EXPECT_LT(output.err.size(), kLongestMessage) << line;
  }

  // Writes the changed file and expects an answer from each command that reads it.
  void expect_answers(const ForeignFile& file, const std::string& changed) {
    files::write_plain(folder_ / file.path, changed);
    for (const std::vector<std::string>& command : file.commands) expect_answer(command);
  }

  // Checks that the commands succeed on the good file, so that a change is what they refuse.
  void expect_fine(const ForeignFile& file) {
    files::write_plain(folder_ / file.path, file.good);
    for (const std::vector<std::string>& command : file.commands) expect_success(command);
  }
  void expect_success(const std::vector<std::string>& command) {
    const Output output = answer(command);
    EXPECT_EQ(output.code, 0) << joined(command) << "\n" << output.err;
  }

  // As run, but a server is stopped as soon as it is ready.
  Output answer(const std::vector<std::string>& arguments, const RunLimits& limits = {}) const {
    const pid_t child = start(arguments, limits);
    if (arguments[0] == "serve" && await_or_end("Ready\n", child)) ::kill(child, SIGTERM);
    return finish(child);
  }

  std::vector<ForeignFile> configurations() const {
    const std::vector<std::string> training{"plan", "--config", "config.json", "--hardware",
                                            kHardware},
        inference{"plan",    "--inference",  "--config", "config.json", "--hardware",
                  kHardware, "--batch-size", "1",        "--seq-len",   "16"};
    auto file = [](const char* model) { return files::contents(sample(model) + "/config.json"); };
    return {{"config.json", file("llama_fp32"), {training, inference}},
            {"config.json", file("llama3_bf16_sharded"), {training, inference}},
            {"config.json", file("gemma3_bf16"), {inference}}};
  }

  std::vector<ForeignFile> hardware() {
    const std::vector<std::string> plan{"plan",       "--preset", "tiny",
                                        "--hardware", "hw.json",  "--json"};
    const Output machine = run({"machine", "--json", "--threads", "1"});
    EXPECT_EQ(machine.code, 0) << machine.err;
    return {{"hw.json",
             R"({"name": "my-gpu", "title": "My GPU", "peaks": {"f32": 19.5, "bf16": 312},
                 "tf32_tera_flops": 156, "vector_tera_flops": 19.5, "memory_tera_bytes": 2.0,
                 "memory_bytes": 80000000000, "cache_bytes": 40000000,
                 "interconnect_giga_bytes": 600, "interconnect": "links", "source": "a sheet"})",
             {plan}},
            // `ridge machine --json` prints and caches it.
            {"hw.json", machine.out, {plan}}};
  }

  std::vector<ForeignFile> run_folders() {
    expect_success({"lab", "--preset", "tiny", "--steps", "2", "--warmup", "0", "--threads", "1",
                    "--level", "baseline", "--no-advice", "--out", "good"});
    std::filesystem::create_directory(folder_ / "bad");
    return {{"bad/performance_summary.json",
             files::contents(folder_ / "good/performance_summary.json"),
             {{"explain", "bad"}, {"diff", "bad", "good"}, {"diff", "good", "bad", "--json"}}}};
  }

  // Two ranks, of which the second has not arrived.
  std::vector<ForeignFile> rings(const std::string& name = "a") {
    std::filesystem::create_directory(folder_ / "log");
    record::RankRing ring;
    ring.job = "job";
    ring.ranks = 2;
    ring.host = ring.state = ring.error = name;
    ring.at_s = 10;
    ring.groups = {{"data", 0}};
    for (int64_t i = 0; i < 2; ++i)
      ring.collectives.push_back({.number = i,
                                  .group = "data",
                                  .graph = name,
                                  .op = name,
                                  .scope = name,
                                  .node = 7,
                                  .bytes = 1024,
                                  .begin_s = 1.0,
                                  .end_s = i == 0 ? 1.5 : 0});
    record::write_ring(folder_ / "log", ring);
    ring.rank = 1;
    ring.collectives.pop_back();
    record::write_ring(folder_ / "log", ring);
    return {{"log/rank-0.json",
             files::contents(folder_ / "log/rank-0.json"),
             {{"explain", "--hang", "log"}, {"explain", "--hang", "log", "--json"}}}};
  }

  std::vector<ForeignFile> traces() const {
    return {{"trace.json",
             R"({"traceEvents": [
                 {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 1, "tid": 1,
                  "ts": 0, "dur": 100},
                 {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1,
                  "dur": 9, "args": {"Input Dims": [[4, 8], [8, 2]],
                                     "Input type": ["float", "float"]}},
                 {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1,
                  "ts": 2, "dur": 1, "args": {"correlation": 3}},
                 {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 20,
                  "dur": 5, "args": {"correlation": 3, "device": 0, "stream": 7}}]})",
             {{"import", "trace.json", "--out", "imported", "--force"}}}};
  }

  std::vector<ForeignFile> indices() {
    std::filesystem::copy(sample("llama3_bf16_sharded"), folder_ / "model");
    const std::string index = "model/model.safetensors.index.json";
    return {{index, files::contents(folder_ / index), {{"inspect", "model"}}}};
  }

  std::vector<ForeignFile> tokenizers() const {
    std::vector<ForeignFile> all;
    for (const char* name : {"gpt2", "llama2", "llama3", "gemma"})
      all.push_back({"tokenizer.json",
                     files::contents(sample(std::string("tokenizers/") + name) + "/tokenizer.json"),
                     {{"tokenizer", "encode", "tokenizer.json", "--special"},
                      {"tokenizer", "decode", "tokenizer.json", "--ids", "1,2,3"}}});
    return all;
  }

  // A folder with weights and a tokenizer, and the same as GGUF.
  void make_model() {
    files::write_plain(folder_ / "shape.json",
                       R"({"model_type": "llama", "vocab_size": 1000, "hidden_size": 32,
                           "num_hidden_layers": 2, "num_attention_heads": 4, "head_dim": 8,
                           "num_key_value_heads": 2, "intermediate_size": 64,
                           "max_position_embeddings": 128})");
    expect_success({"train", "--config", "shape.json", "--steps", "1", "--warmup", "0",
                    "--batch-size", "1", "--seq-len", "8", "--threads", "1", "--save", "model"});
    for (const char* name : {"tokenizer.json", "tokenizer_config.json", "generation_config.json"})
      std::filesystem::copy(sample("tokenizers/gemma") + "/" + name, folder_ / "model" / name,
                            std::filesystem::copy_options::overwrite_existing);
    expect_success({"convert", "model", "plain.gguf"});
    models::write_whole_gguf(folder_ / "plain.gguf", folder_ / "model.gguf");
  }

  static std::vector<std::string> generate(const std::string& model) {
    return {"generate", model, "hi", "--max-tokens", "2", "--threads", "1"};
  }

  // Every file of a model, changed next to the others.
  std::vector<ForeignFile> models() {
    make_model();
    const std::vector<std::string> inspect{"inspect", "model"};
    std::vector<ForeignFile> all;
    for (const char* name : {"model/config.json", "model/model.safetensors",
                             "model/tokenizer_config.json", "model/generation_config.json"})
      all.push_back({name, files::contents(folder_ / name), {inspect, generate("model")}});
    auto plan = [](const std::string& file) -> std::vector<std::string> {
      return {"plan",         "--model", file,        "--hardware", kHardware,
              "--batch-size", "1",       "--seq-len", "16"};
    };
    all.push_back({"model.gguf",
                   files::contents(folder_ / "model.gguf"),
                   {{"inspect", "model.gguf"}, generate("model.gguf"), plan("model.gguf")}});
    expect_success({"convert", sample("gemma3_bf16"), "plain-gemma.gguf"});
    models::write_whole_gguf(folder_ / "plain-gemma.gguf", folder_ / "gemma.gguf");
    all.push_back(
        {"gemma.gguf",
         files::contents(folder_ / "gemma.gguf"),
         {{"logits", "gemma.gguf", "--ids", "1,2", "--threads", "1"}, plan("gemma.gguf")}});
    return all;
  }

  static std::string joined(const std::vector<std::string>& words) {
    std::string line;
    for (const std::string& each : words) line += each + " ";
    return line;
  }

 private:
  // No escape sequence and no mark that turns the direction of text.
  static void expect_harmless(const std::string& text, const std::string& line) {
    for (const char* bad : {"\x1b", "\xE2\x80\xAE"})
      EXPECT_EQ(text.find(bad), std::string::npos) << line;
  }
};

}  // namespace ridge::apps
