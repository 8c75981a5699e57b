// SPDX-License-Identifier: Apache-2.0
// ridge tokenizer: training reproduces the published merges, decoding reverses encoding, and errors
// name the bad input.
#include <nlohmann/json.hpp>

#include "apps/program_run.h"

namespace ridge::apps {
namespace {

using nlohmann::json;
using TokenizerAppTest = ProgramTest;

std::string corpus() { return test_data("text/corpus.en").string(); }

TEST_F(TokenizerAppTest, TrainingGivesThePublishedMerges) {
  Output output =
      run({"tokenizer", "train", corpus(), "--vocab-size", "500", "--out", "t", "--json"});
  ASSERT_EQ(output.code, 0) << output.err;
  json summary = json::parse(output.out);
  EXPECT_EQ(summary["vocab_size"], 500);
  EXPECT_EQ(summary["merges"], 243);
  EXPECT_EQ(files::contents(folder_ / "t" / "merges.txt"),
            "#version: 0.2\n" + files::contents(test_data("text/train-bpe-reference-merges.txt")));
  Output text = run({"tokenizer", "decode", "t", "--ids", "0", "--special"});
  EXPECT_EQ(text.out, "<|endoftext|>") << text.err;
  EXPECT_EQ(run({"tokenizer", "decode", "t/tokenizer.json", "--ids", "0"}).out, "");
  expect_refused({"tokenizer", "train", corpus(), "--vocab-size", "500", "--out", "t"}, 2,
                 "--force");
}

TEST_F(TokenizerAppTest, BadInputIsRefused) {
  std::string model = test_data("models/tokenizers/gpt2").string();
  expect_refused({"tokenizer"}, 2, "subcommand");
  expect_refused({"tokenizer", "encode"}, 2, "MODEL");
  expect_refused({"tokenizer", "encode", "nowhere.gguf"}, 3, "nowhere.gguf");
  expect_refused({"tokenizer", "decode", model, "--ids", "1,x"}, 2,
                 "expected a token id, got \"x\"");
  expect_refused({"tokenizer", "decode", model, "--ids", "-1"}, 2,
                 "expected a token id, got \"-1\"");
  expect_refused({"tokenizer", "decode", model, "--ids", "2000000"}, 2,
                 "expected a token id below");
  expect_refused({"tokenizer", "decode", model, "--ids", "{\"ids\": [1.5]}"}, 2,
                 "expected a token id, got \"1.5\"");
  expect_refused({"tokenizer", "train", corpus(), "--vocab-size", "10", "--out", "t"}, 2, "vocab");
  expect_refused({"tokenizer", "train", "none.txt", "--vocab-size", "300", "--out", "t"}, 3,
                 "none.txt");
  expect_refused({"tokenizer", "train", corpus(), "--vocab-size", "300", "--out", "no/such"}, 1,
                 "No such file");
  expect_refused({"tokenizer", "train", corpus(), "--vocab-size", "300", "--out", "t",
                  "--pre-tokenizer", "bert"},
                 2, "[pre-tokenizer] expected none, gpt2");
}

}  // namespace
}  // namespace ridge::apps
