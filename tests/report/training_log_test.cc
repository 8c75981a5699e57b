// SPDX-License-Identifier: Apache-2.0
// The log of a training: its lines, and what is dropped when it goes on.
#include "report/training_log.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "files/scratch.h"

namespace ridge::report {
namespace {

std::vector<nlohmann::json> lines(const std::filesystem::path& path) {
  std::vector<nlohmann::json> all;
  std::istringstream text(files::contents(path));
  for (std::string line; std::getline(text, line);) all.push_back(nlohmann::json::parse(line));
  return all;
}

record::StepMetrics step(int64_t index, double loss) {
  record::StepMetrics made;
  made.step = index;
  made.loss = loss;
  return made;
}

TEST(TrainingLog, HasALineForEachFigure) {
  const files::ScratchFolder folder;
  {
    TrainingLog log(folder / "log", {});
    record::StepMetrics first = step(0, 3.5);
    log.add(first);
    first = step(1, 3.25);
    first.gradient_norm = 0.5;
    first.attended = 0.25;
    first.skipped = true;
    first.loss_scale = 8;
    first.overflows = 1;
    first.mfu = 0.125;
    log.add(first);
    log.add(record::ValidationMetrics{2, 0});
    log.add(record::NumericsRecord{1, 0, {}});
    log.add(record::TrainingSample{2, "a", "b\xff", {3, 4}, "length", ""});
  }
  const auto metrics = lines(folder / "log/metrics.jsonl");
  ASSERT_EQ(metrics.size(), 3u);
  EXPECT_EQ(metrics[0]["loss"], 3.5);
  EXPECT_TRUE(metrics[0]["mfu"].is_null());
  for (const char* key : {"gradient_norm", "attended", "skipped", "loss_scale", "overflows"}) {
    EXPECT_FALSE(metrics[0].contains(key)) << key;
    EXPECT_TRUE(metrics[1].contains(key)) << key;
  }
  EXPECT_EQ(metrics[1]["mfu"], 0.125);
  EXPECT_EQ(metrics[2]["validation_loss"], 0);
  EXPECT_EQ(metrics[2]["perplexity"], 1);
  EXPECT_EQ(lines(folder / "log/numerics.jsonl").at(0)["step"], 1);
  const auto samples = lines(folder / "log/samples.jsonl");
  EXPECT_EQ(samples.at(0)["prompt"], "a");
  EXPECT_EQ(samples.at(0)["ids"], (std::vector<int>{3, 4}));
  EXPECT_FALSE(samples.at(0).contains("fault"));
}

TEST(TrainingLog, AnotherLogInTheFolderIsRefused) {
  const files::ScratchFolder folder;
  TrainingLog(folder / "log", {}).add(step(0, 1));
  files::expect_error([&] { TrainingLog(folder / "log", {}); }, ExitCode::kUsage,
                      "expected a folder without a log");
}

// Steps that are made again, and a line that was not finished, are dropped; a validation after n
// steps belongs to the steps before.
TEST(TrainingLog, GoesOnBeforeTheStepsThatRunAgain) {
  const files::ScratchFolder folder;
  {
    TrainingLog log(folder / "log", {});
    for (int64_t index = 0; index < 3; ++index) log.add(step(index, 1));
    log.add(record::ValidationMetrics{2, 0.5});
    log.add(record::ValidationMetrics{3, 0.5});
  }
  const std::filesystem::path path = folder / "log/metrics.jsonl";
  files::write_plain(path, files::contents(path) + "{\"step\": 0, \"lo");
  // The file of events is named by the second and the process.
  for (const auto& each : std::filesystem::directory_iterator(folder / "log"))
    if (each.path() != path) std::filesystem::rename(each.path(), folder / "events");
  {
    TrainingLog log(folder / "log", 2);
    log.add(step(2, 7));
  }
  const auto metrics = lines(path);
  ASSERT_EQ(metrics.size(), 4u);
  EXPECT_EQ(metrics[1]["step"], 1);
  EXPECT_EQ(metrics[2]["validation_loss"], 0.5);
  EXPECT_EQ(metrics[3]["loss"], 7);
}

}  // namespace
}  // namespace ridge::report
