// SPDX-License-Identifier: Apache-2.0
// A line of 1 GB is tokenized in under 1 GB of memory, as a text and as JSON.
#include <nlohmann/json.hpp>

#include "apps/program_run.h"

namespace ridge::apps {
namespace {

constexpr int64_t kBytes = 1'000'000'000, kMost = 1'000'000'000;

class LongLineTest : public ProgramTest, public testing::WithParamInterface<bool> {
 protected:
  // A sentence without a line break, again and again.
  void write_line(const std::filesystem::path& path) const {
    std::ofstream file(path, std::ios::binary);
    const std::string sentence = "the long line goes on and on, 12345 times; ";
    std::string part;
    while (part.size() < 1'000'000) part += sentence;
    if (GetParam()) file << "{\"text\": \"";
    for (int64_t size = 0; size < kBytes; size += std::ssize(part)) file << part;
    if (GetParam()) file << "\"}\n";
  }
};

TEST_P(LongLineTest, FitsIntoMemory) {
  const char* name = GetParam() ? "a.jsonl" : "a.txt";
  write_line(folder_ / name);
  const Output output = run({"data", "tokenize", name, "--tokenizer",
                             test_data("models/tokenizers/gpt2"), "--out", "t", "--json"});
  ASSERT_EQ(output.code, 0) << output.err;
  EXPECT_LT(output.peak_bytes, kMost);
  const nlohmann::json said = nlohmann::json::parse(output.out);
  EXPECT_EQ(said["documents"], 1);
  fmt::print("{}: {} ids, peak {} MB\n", name, said["ids"].get<int64_t>(),
             output.peak_bytes / 1'000'000);
}

INSTANTIATE_TEST_SUITE_P(Forms, LongLineTest, testing::Bool());

}  // namespace
}  // namespace ridge::apps
