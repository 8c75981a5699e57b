// SPDX-License-Identifier: Apache-2.0
// The commands of the guides work, with two steps in the place of many and at small sizes. Those
// that fine-tune a published model are left to the slow test.
#include <filesystem>

#include "apps/guide_case.h"
#include "apps/smaller_commands.h"

namespace ridge::apps {
namespace {

using GuideTest = GuideCase;

TEST_F(GuideTest, EachCommandWorks) {
  if (!has_bible()) GTEST_SKIP() << "apt-get install bible-kjv";
  int commands = 0;
  for (const Block& each : blocks()) {
    if (!each.is_command || each.text.find("apt-get") != std::string::npos ||
        each.text.find("SmolLM2") != std::string::npos)
      continue;
    std::string text = std::regex_replace(each.text, std::regex("--steps [0-9]+"), "--steps 2");
    text = std::regex_replace(text, std::regex("--lr-warmup [0-9]+"), "--lr-warmup 1");
    text = std::regex_replace(text, std::regex("--val-batches [0-9]+"), "--val-batches 1");
    run_block(text);
    ++commands;
  }
  EXPECT_EQ(commands, 4);
  EXPECT_TRUE(files::contents(folder_ / "losses.svg").starts_with("<svg"));
}

// The pages of docs/guides, each in a folder of its own, as tools/guides.py runs them.
TEST_F(GuideTest, EachCommandOfTheFourCoursesParses) {
  namespace fs = std::filesystem;
  int pages = 0;
  for (const auto& page : fs::directory_iterator(source_file("docs/guides"))) {
    if (page.path().extension() != ".md" || page.path().stem() == "README" ||
        page.path().stem() == "coverage")
      continue;
    ++pages;
    for (const auto& each : fs::directory_iterator(folder_.path())) fs::remove_all(each.path());
    for (const auto& each : fs::directory_iterator(source_file("docs/guides")))
      if (each.path().extension() == ".txt" || each.path().extension() == ".json")
        fs::copy(each.path(), folder_ / each.path().filename());
    const std::vector<std::string> lines = commands(page.path());
    EXPECT_GE(lines.size(), 10u) << page.path();
    for (const std::string& line : lines) {
      if (line.find(".cache/ridge/models") != line.npos &&
          !fs::exists(files::fetched_model("SmolLM2-135M-Instruct.Q4_1.gguf")))
        continue;
      run_block(smaller(line, "") + "\n");
    }
  }
  EXPECT_EQ(pages, 4);
}

// Counts are compared in full; the slow test compares the predictions of data sheets
// (tools/guides.py --check).
TEST_F(GuideTest, CountsAreThoseOfThePages) {
  const std::string out = output_of(
      fmt::format("python3 -B '{}' --check --only=--counts --ridge '{}' 2>&1 || true",
                  std::filesystem::path(source_file("tools/guides.py")).string(), ridge_program()));
  EXPECT_NE(out.find(", 0 differences"), out.npos) << out;
}

}  // namespace
}  // namespace ridge::apps
