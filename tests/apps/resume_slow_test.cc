// SPDX-License-Identifier: Apache-2.0
// Training that is killed at random moments, also while it saves, and resumed each time.
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "apps/program_run.h"
#include "base/split.h"

namespace ridge::apps {
namespace {

using nlohmann::json;

using ResumeTest = ProgramTest;

// The loss of each step, as the bits of the log say.
std::map<int64_t, double> logged(const std::filesystem::path& path) {
  std::map<int64_t, double> losses;
  std::istringstream lines(files::contents(path));
  for (std::string line; std::getline(lines, line);) {
    const json each = json::parse(line, nullptr, false);
    if (!each.is_discarded() && each.contains("loss")) losses[each["step"]] = each["loss"];
  }
  return losses;
}

TEST_F(ResumeTest, KilledAHundredTimesTheLossesAreThoseOfAnUnbrokenRun) {
  constexpr int kKills = 100;
  std::string text;
  for (int i = 0; i < 3000; ++i)
    text += fmt::format("Line {} of {} tells of {}.\n", i, i % 7, i * i);
  files::write_plain(folder_ / "a.txt", text);
  ASSERT_EQ(run({"data", "tokenize", "a.txt", "--tokenizer", test_data("models/tokenizers/gpt2"),
                 "--out", "t"})
                .code,
            0);
  const auto line = [](const std::string& log, int64_t steps, bool saves) {
    return split(
        fmt::format(
            "train --preset tiny --level compiled --pass -tune_gemm --device cpu --threads 1 "
            "--data t --val-data t --val-every 4 --val-batches 1 --seq-len 8 --batch-size 1 "
            "--steps {} --log-dir {}{}",
            steps, log, saves ? " --checkpoints c --save-every 2 --resume" : ""),
        ' ');
  };
  // Measures the ceilings that the log needs, once.
  ASSERT_EQ(run(line("first", 1, false)).code, 0);
  // Kills come after a share of the time that some steps take here, from before the first to well
  // after a save.
  const auto begun = std::chrono::steady_clock::now();
  ASSERT_EQ(run(line("some", 40, false)).code, 0);
  const auto some = std::chrono::duration_cast<std::chrono::microseconds>(
                        std::chrono::steady_clock::now() - begun)
                        .count();
  std::mt19937 random(1);
  std::map<int64_t, double> seen;
  int64_t end = 0;
  for (int kill = 0; kill < kKills; ++kill) {
    const std::string log = "log-" + std::to_string(kill);
    const pid_t child = start(line(log, 1'000'000, true));
    std::this_thread::sleep_for(std::chrono::microseconds(
        some / 4 + static_cast<int64_t>(random() % static_cast<uint64_t>(some))));
    ::kill(child, SIGKILL);
    finish(child);
    for (const auto& [step, loss] : logged(folder_ / log / "metrics.jsonl")) {
      const auto [found, is_fresh] = seen.emplace(step, loss);
      EXPECT_EQ(found->second, loss) << "step " << step << " after kill " << kill;
      end = std::max(end, step + 1);
    }
  }
  ASSERT_GT(end, kKills);
  ASSERT_EQ(run(line("whole", end, false)).code, 0);
  const std::map<int64_t, double> whole = logged(folder_ / "whole/metrics.jsonl");
  EXPECT_EQ(seen, whole);
}

}  // namespace
}  // namespace ridge::apps
