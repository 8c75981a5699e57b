// SPDX-License-Identifier: Apache-2.0
// Names of files that are not UTF-8: each command works with them, or refuses a file that is not
// there with exit code 3.
#include <algorithm>

#include "apps/foreign_files.h"

namespace ridge::apps {
namespace {

class ForeignNamesTest : public ForeignFiles {
 protected:
  static constexpr const char* kName = "a\xff\xc3\x28";

  void expect_ends(std::vector<std::string> arguments, int code) {
    const std::string line = joined(arguments);
    const Output output = answer(std::move(arguments));
    EXPECT_EQ(output.code, code) << line << output.err;
    EXPECT_EQ(output.err.find("internal error"), std::string::npos) << line << output.err;
  }
  std::string name(const std::string& ending) const { return kName + ending; }
};

TEST_F(ForeignNamesTest, OfInputsAndOutputsWork) {
  make_model();
  std::filesystem::copy(folder_ / "model.gguf", folder_ / name(".gguf"));
  std::filesystem::copy(sample("llama_fp32"), folder_ / name(""));
  std::filesystem::copy(sample("tokenizers/gpt2"), folder_ / name("-gpt2"));
  std::filesystem::copy(test_data("traces/nsys.sqlite"), folder_ / name(".sqlite"));
  files::write_plain(folder_ / name(".txt"), std::string(400, 'a') + " one two three");
  files::write_plain(folder_ / name(".bin"), std::string(400, '\0'));
  files::write_plain(
      folder_ / name("-graph"),
      "%0 = input f32[4,8] \"x\"\n%1 : f32[4,8] = gelu_tanh(%0) #forward\nreturn %1\n");
  const std::vector<std::string> training{
      "train",  "--seq-len", "8",          "--batch-size",   "1",          "--steps",
      "2",      "--threads", "1",          "--sample-every", "1",          "--sample-prompt",
      name(""), "--data",    name(".txt"), "--tokenizer",    name("-gpt2")};
  const auto train = [&](std::vector<std::string> more, int code = 0) {
    std::vector<std::string> all = training;
    all.insert(all.end(), more.begin(), more.end());
    expect_ends(all, code);
  };
  train({"--preset", "tiny", "--checkpoints", name("-ck"), "--log-dir", name("-log")});
  train({"--preset", "tiny", "--checkpoints", name("-ck"), "--resume", "--steps", "4"}, 2);
  train({"--preset", "tiny", "--out", name("-out"), "--save", name("-saved"), "--json"});
  const std::vector<std::string> adapters{
      "train", "--model",      name(""), "--data",        name(".bin"), "--seq-len",
      "8",     "--batch-size", "1",      "--steps",       "2",          "--threads",
      "1",     "--pass",       "+lora",  "--checkpoints", name("-ck2")};
  expect_ends(adapters, 0);
  std::vector<std::string> resumed = adapters;
  *(std::find(resumed.begin(), resumed.end(), "--steps") + 1) = "4";
  resumed.push_back("--resume");
  expect_ends(resumed, 0);
  std::vector<std::string> saved = adapters;
  saved[saved.size() - 2] = "--save";
  saved.back() = name("-lora");
  expect_ends(saved, 0);
  expect_ends({"report", name("-out")}, 0);
  expect_ends({"explain", name("-out")}, 0);
  expect_ends({"diff", name("-out"), name("-out"), "--json"}, 0);
  expect_ends({"inspect", name(""), "--json"}, 0);
  expect_ends({"inspect", name(".gguf")}, 0);
  expect_ends({"convert", name(""), name("-made.gguf")}, 0);
  expect_ends({"logits", name(""), "--ids", "1,2", "--threads", "1", "--json"}, 0);
  expect_ends({"perplexity", name(""), "--ids", "1,2,3", "--threads", "1", "--json"}, 0);
  expect_ends({"generate", name(".gguf"), name(""), "--max-tokens", "2", "--threads", "1"}, 0);
  expect_ends({"serve", name(".gguf"), "--port", "0", "--max-sequences", "1", "--threads", "1"}, 0);
  expect_ends({"data", "tokenize", name(".txt"), "--tokenizer", name("-gpt2"), "--out",
               name("-ids"), "--json"},
              0);
  expect_ends({"data", "inspect", name("-ids"), "--json"}, 0);
  expect_ends(
      {"tokenizer", "train", name(".txt"), "--vocab-size", "260", "--out", name("-bpe"), "--json"},
      0);
  expect_ends({"import", name(".sqlite"), "--out", name("-import")}, 0);
  expect_ends({"plan", "--config", name("") + "/config.json", "--hardware", kHardware, "--json"},
              0);
  expect_ends({"bench", "graph", name("-graph"), "--seconds", "0.01", "--threads", "1", "--json"},
              0);
  expect_ends(
      {"bench", "model", name(""), "-p", "4", "-n", "2", "-r", "1", "--threads", "1", "--json"}, 0);
}

// Names of hosts and scopes that turn text around, clear the screen, or are megabytes long.
TEST_F(ForeignNamesTest, OfRanksAreHarmless) {
  for (const std::string& each : {std::string("\x1b[2J\r\u202e"), std::string(3 << 20, 'x')}) {
    const ForeignFile file = rings(each)[0];
    for (const std::vector<std::string>& command : file.commands) expect_answer(command);
  }
}

TEST_F(ForeignNamesTest, OfMissingFilesAreRefused) {
  make_model();
  const std::string none = name("none");
  const std::vector<std::vector<std::string>> commands = {
      {"inspect", none},
      {"inspect", none, "--json"},
      {"convert", none, "made.gguf"},
      {"generate", none, "hi"},
      {"serve", none, "--port", "0"},
      {"serve", "model.gguf", "--port", "0", "--api-key-file", none},
      {"logits", none, "--ids", "1"},
      {"perplexity", none, "--ids", "1,2"},
      {"train", "--model", none},
      {"train", "--config", none},
      {"train", "--preset", "tiny", "--data", none},
      {"plan", "--config", none},
      {"explain", none},
      {"report", none},
      {"diff", none, none},
      {"import", none, "--out", "imported"},
      {"data", "inspect", none},
      {"bench", "graph", none},
      {"bench", "model", none}};
  for (const std::vector<std::string>& each : commands) expect_ends(each, 3);
}

}  // namespace
}  // namespace ridge::apps
