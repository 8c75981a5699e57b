// SPDX-License-Identifier: Apache-2.0
// Runs every example of every --help, at a reduced size, in a folder that has the files they name.
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "apps/one_token_server.h"
#include "apps/program_run.h"
#include "apps/smaller_commands.h"
#include "record/rank_ring.h"

namespace ridge::apps {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class ExamplesTest : public ProgramTest {
 protected:
  struct Block {
    std::string command;             // "bench model"; empty for the program
    std::vector<std::string> lines;  // shell lines without their explanations
  };

  // The examples of the command and of its subcommands, from their help.
  std::vector<Block> blocks(const std::vector<std::string>& command = {}) const {
    std::vector<std::string> arguments = command;
    arguments.emplace_back("--help");
    const Output help = run(arguments);
    EXPECT_EQ(help.code, 0) << help.err;
    std::string name;
    for (const std::string& word : command) name += (name.empty() ? "" : " ") + word;
    std::vector<Block> all{{name, examples(help.out)}};
    const size_t list = help.out.find("Subcommands:");
    if (list == std::string::npos) return all;
    const std::string names = help.out.substr(list, help.out.find("\n\n", list) - list);
    const std::regex subcommand("\n  ([a-z][a-z-]*)");
    for (std::sregex_iterator each(names.begin(), names.end(), subcommand), end; each != end;
         ++each) {
      std::vector<std::string> deeper = command;
      deeper.push_back((*each)[1]);
      for (Block& block : blocks(deeper)) all.push_back(std::move(block));
    }
    return all;
  }

  static std::string long_enough_to_train() {
    std::string text;
    for (int i = 0; i < 20; ++i) text += "The quick brown fox jumps over the lazy dog.\n";
    return text;
  }

  // Makes the files that examples name: model files, their configuration, texts, a run's folder.
  void make_files() const {
    files::write_plain(folder_ / "config.json",
                       R"({"model_type": "llama", "vocab_size": 49152, "hidden_size": 64,
                           "num_hidden_layers": 2, "num_attention_heads": 4,
                           "num_key_value_heads": 2, "intermediate_size": 128,
                           "max_position_embeddings": 8192, "tie_word_embeddings": true})");
    expect_runs({"train", "--config", "config.json", "--steps", "1", "--warmup", "0",
                 "--batch-size", "1", "--seq-len", "8", "--save", "model"});
    const fs::path tokenizer = test_data("models/tokenizers/gpt2");
    fs::copy(tokenizer / "tokenizer.json", folder_ / "model" / "tokenizer.json");
    json settings = json::parse(files::contents(tokenizer / "tokenizer_config.json"));
    settings["chat_template"] =
        json::parse(files::contents(test_data("text/chat_templates.json")))["templates"]["smollm2"];
    files::write_plain(folder_ / "model" / "tokenizer_config.json", settings.dump());
    expect_runs({"convert", "model", "model.gguf"});
    files::write_plain(folder_ / "my_machine.json", run({"machine", "--json"}).out);
    for (const char* name : {"gemma-3-270m-q4_k_m.gguf", "SmolLM2-135M-Instruct.Q4_1.gguf"})
      fs::create_symlink(folder_ / "model.gguf", folder_ / name);
    for (const char* name : {"Llama-2-7B", "llama-2-7b"}) {
      fs::create_directory(folder_ / name);
      fs::create_symlink(folder_ / "config.json", folder_ / name / "config.json");
    }
    files::write_plain(
        folder_ / "mlp.txt",
        "%0 = input f32[4,8] \"x\"\n%1 = parameter f32[6,8] \"weight\"\n"
        "%2 : f32[4,6] = matmul(%0, %1) {einsum=\"nd,fd->nf\"} #forward\nreturn %2\n");
    files::write_plain(folder_ / "error.txt",
                       "%0 = parameter f32[2] \"w\"\n%1 = input f32[2] \"x\"\n"
                       "%2 : f32[] = einsum(%0, %1) {einsum=\"i,i->\"} #forward\nreturn %2\n");
    for (const char* name : {"LICENSE", "a.txt", "b.txt", "corpus.txt", "prompt.txt", "text.txt"})
      files::write_plain(folder_ / name, long_enough_to_train());
    expect_runs({"data", "tokenize", "a.txt", "--tokenizer", "model", "--out", "my_tokens"});
    expect_runs({"train", "--model", "model", "--data", "a.txt", "--pass", "+lora", "--steps", "1",
                 "--batch-size", "1", "--seq-len", "8", "--save", "my_adapter"});
    fs::copy(test_data("runs/version_1"), folder_ / "lab-out");
    fs::copy(test_data("traces/fused.json.gz"), folder_ / "torch_trace.json.gz");
    for (const char* name : {"rank0.json.gz", "rank1.json.gz"})
      fs::copy(test_data("traces/compiled_h100.json.gz"), folder_ / name);
    fs::copy(test_data("traces/nsys.sqlite"), folder_ / "nsys.sqlite");
    fs::create_directory(folder_ / "log");
    record::write_ring(folder_ / "log", record::RankRing());
    fs::copy(test_data("traces/rocprof_kernel_trace.csv"), folder_ / "kernel_trace.csv");
  }

  // Runs the lines one after the other in a new folder that has those files.
  void expect_runs_in_shell(const Block& block) const {
    files::ScratchFolder folder, programs;
    for (const auto& entry : fs::directory_iterator(folder_.path()))
      fs::create_symlink(entry.path(), folder / entry.path().filename());
    fs::create_symlink(ridge_program(), programs / "ridge");
    files::write_plain(programs / "jq", "#!/bin/sh\nexec cat\n");  // it need not be installed
    fs::permissions(programs / "jq", fs::perms::owner_all);
    for (const std::string& line : block.lines) {
      files::write_plain(programs / "line", smaller(line, server_.url()));
      const std::string log = programs / "log";
      const int status = std::system(
          fmt::format("cd {} && PATH={}:$PATH bash -e -o pipefail {} > {} 2>&1 < {}",
                      folder.path().string(), programs.path().string(),
                      (programs / "line").string(), log, (folder_ / "prompt.txt").string())
              .c_str());
      EXPECT_EQ(status, 0) << line << "\nrun as: " << smaller(line, server_.url()) << "\n"
                           << files::contents(log);
    }
  }

 private:
  void expect_runs(const std::vector<std::string>& arguments) const {
    const Output made = run(arguments);
    ASSERT_EQ(made.code, 0) << made.err;
  }

  static std::vector<std::string> examples(const std::string& help) {
    const std::regex wrapped(" *\\\\\n *");
    const std::string text = std::regex_replace(help, wrapped, " ");
    std::vector<std::string> lines;
    for (size_t at = text.find("Examples:\n"); at != std::string::npos && at < text.size();) {
      at = text.find('\n', at);
      if (at == std::string::npos || !std::string_view(text).substr(++at).starts_with("  ")) break;
      std::string line = text.substr(at + 2, text.find('\n', at) - at - 2);
      lines.push_back(line.substr(0, line.find("  ")));  // an explanation follows two spaces
    }
    return lines;
  }

  OneTokenServer server_;
};

TEST_F(ExamplesTest, EveryCommandHasExamplesAndTheyRun) {
  const std::vector<Block> all = blocks();
  EXPECT_GE(all.size(), 19u);
  make_files();
  std::set<std::string> seen;
  for (Block block : all) {
    if (block.command.empty()) continue;
    EXPECT_FALSE(block.lines.empty()) << "ridge " << block.command << " --help has no example";
    bool is_own = false;
    for (const std::string& line : block.lines)
      is_own = is_own || line.find("ridge " + block.command) != std::string::npos;
    EXPECT_TRUE(is_own) << "no example of ridge " << block.command;
    std::erase_if(block.lines, [&](const std::string& line) { return !seen.insert(line).second; });
    expect_runs_in_shell(block);
  }
}

}  // namespace
}  // namespace ridge::apps
