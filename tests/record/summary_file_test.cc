// SPDX-License-Identifier: Apache-2.0
// Reading output folders in the current version and in version 1.
#include "record/summary_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "files/atomic_file.h"
#include "files/damage.h"
#include "files/json.h"
#include "test_paths.h"

namespace ridge::record {
namespace {

std::filesystem::path version_1() { return test_data("runs/version_1"); }

TEST(SummaryFile, ReadsAFolderOfVersion1) {
  const nlohmann::json raw = files::read_json(version_1() / "performance_summary.json");
  ASSERT_EQ(raw.at("version"), 1);
  const SummaryFile file = read_summary(version_1());
  ASSERT_EQ(file.runs.size(), 2u);
  EXPECT_EQ(file.runs[0].setting.level, "baseline");
  EXPECT_EQ(file.runs[1].setting.level, "compiled");
  EXPECT_GT(file.runs[1].launch_rate, 0);
  EXPECT_FALSE(file.runs[1].by_op.empty());
}

void expect_samples(const Summary& found, const nlohmann::json& raw) {
  EXPECT_EQ(found.count, raw.at("samples"));
  EXPECT_EQ(found.median, raw.at("median_ns"));
  EXPECT_EQ(found.low, raw.at("low_ns"));
  EXPECT_EQ(found.high, raw.at("high_ns"));
  EXPECT_EQ(found.coverage, raw.at("coverage"));
}

// Each field against the file's text, by the names of version 1.
TEST(SummaryFile, EachFieldIsThatOfTheFile) {
  const nlohmann::json raw = files::read_json(version_1() / "performance_summary.json");
  const SummaryFile file = read_summary(version_1());
  EXPECT_EQ(file.program, raw.at("program").get<std::string>());
  EXPECT_EQ(file.command, raw.at("command").get<std::string>());
  EXPECT_EQ(file.finished_at, raw.at("finished_at").get<std::string>());
  EXPECT_EQ(file.device, raw.at("machine").at("device").get<std::string>());
  EXPECT_EQ(file.warnings, raw.at("warnings").get<std::vector<std::string>>());
  ASSERT_EQ(file.advice.size(), raw.at("advice").size());
  for (size_t i = 0; i < file.advice.size(); ++i) {
    const nlohmann::json& advice = raw.at("advice").at(i);
    EXPECT_EQ(file.advice[i].title, advice.at("title").get<std::string>());
    EXPECT_EQ(file.advice[i].reason, advice.at("reason").get<std::string>());
    EXPECT_EQ(file.advice[i].command, advice.at("command").get<std::string>());
    EXPECT_EQ(file.advice[i].gain, advice.at("predicted_gain"));
  }
  ASSERT_EQ(file.runs.size(), raw.at("runs").size());
  for (size_t i = 0; i < file.runs.size(); ++i) {
    const nlohmann::json &json = raw.at("runs").at(i), &setting = json.at("setting");
    const SummaryRun& run = file.runs[i];
    EXPECT_EQ(run.setting.task, setting.at("task").get<std::string>());
    EXPECT_EQ(run.setting.model, setting.at("model").get<std::string>());
    EXPECT_EQ(run.setting.level, setting.at("level").get<std::string>());
    EXPECT_EQ(run.setting.switches, setting.at("pass").get<std::string>());
    EXPECT_EQ(run.setting.dtype, setting.at("dtype").get<std::string>());
    EXPECT_EQ(run.setting.batch_size, setting.at("batch_size"));
    EXPECT_EQ(run.setting.sequence, setting.at("seq_len"));
    EXPECT_EQ(run.setting.micro_batches, setting.at("micro_batches"));
    expect_samples(run.step, json.at("step"));
    EXPECT_EQ(run.predicted_ns, json.at("predicted_step_ns"));
    EXPECT_EQ(run.launch_rate, json.at("machine_pace"));
    EXPECT_EQ(run.samples_per_s, json.at("samples_per_s"));
    EXPECT_EQ(run.tokens_per_s, json.at("tokens_per_s"));
    EXPECT_EQ(run.speed_up, json.at("speed_up"));
    EXPECT_EQ(run.mfu, json.at("mfu"));
    EXPECT_EQ(run.kernel_calls, json.at("kernel_calls"));
    EXPECT_EQ(run.owned_bytes, json.at("memory").at("owned_bytes"));
    EXPECT_EQ(run.measured_peak_bytes, json.at("memory").at("measured_peak_bytes"));
    EXPECT_EQ(run.mean_loss, json.at("loss").at("mean").get<double>());
    EXPECT_EQ(run.losses_agree, json.at("loss").at("agrees"));
    EXPECT_EQ(run.by_op.empty(), !json.contains("operations"));
    for (size_t k = 0; k < run.by_op.size(); ++k) {
      const SummaryOperation& row = run.by_op[k];
      const nlohmann::json& operation = json.at("operations").at("by_op").at(k);
      EXPECT_EQ(row.key, operation.at("key").get<std::string>());
      EXPECT_EQ(row.calls, operation.at("calls"));
      EXPECT_EQ(row.time_ns, operation.at("time_ns"));
      EXPECT_EQ(row.exclusive_ns, operation.at("own_ns"));
      expect_samples(row.samples, operation.at("samples"));
      EXPECT_EQ(row.share, operation.at("share"));
      EXPECT_EQ(row.flops_per_s, operation.at("flops_per_s"));
      EXPECT_EQ(row.bytes_per_s, operation.at("bytes_per_s"));
      EXPECT_EQ(row.bound, operation.at("bound").get<std::string>());
      EXPECT_EQ(row.predicted_ns, operation.at("predicted_ns"));
    }
  }
}

TEST(SummaryFile, RefusesAVersionToCome) {
  const std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / "summary_of_version_3.json";
  files::write_file(path, R"({"version": 3})");
  try {
    read_summary(path);
    FAIL() << "expected an Error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("version 1 or 2"), std::string::npos) << error.what();
  }
}

TEST(SummaryFile, NamesOpsAsTheyAreNow) {
  nlohmann::json summary = files::read_json(version_1() / "performance_summary.json");
  summary.at("runs").at(1).at("operations").at("by_op").at(0).at("key") = "matmul_group";
  const SummaryFile file = read_summary(current_summary(summary, "old.json"), "old.json");
  EXPECT_EQ(file.runs.at(1).by_op.at(0).key, "quantized_matmul");
}

// A list of a summary has at most 4096 elements.
TEST(SummaryFile, RefusesListsOfMoreThanAnyRunHas) {
  nlohmann::json summary = files::read_json(version_1() / "performance_summary.json");
  const auto read = [&](size_t warnings) {
    summary["warnings"] = std::vector<std::string>(warnings, "hot");
    return read_summary(current_summary(summary, "long.json"), "long.json").warnings.size();
  };
  EXPECT_EQ(read(4096), 4096u);
  EXPECT_THROW(read(4097), Error);
}

// A damaged summary is refused as a bad file, or its numbers are finite.
TEST(SummaryFile, DamagedSummaries) {
  // Without the parts that are not read back.
  nlohmann::json good = files::read_json(version_1() / "performance_summary.json");
  good.erase("trial");
  for (nlohmann::json& run : good.at("runs")) {
    for (const char* key : {"passes", "attribution", "profiling_cost", "step_samples_ns"})
      run.erase(key);
    if (!run.contains("operations")) continue;
    nlohmann::json& rows = run.at("operations").at("by_op");
    rows = {rows.at(0), rows.at(1)};
  }
  auto read = [](const std::string& text) {
    const SummaryFile file =
        read_summary(current_summary(files::parse_json(text, "bad.json"), "bad.json"), "bad.json");
    for (const SummaryRun& run : file.runs) {
      EXPECT_TRUE(std::isfinite(run.step.median) && std::isfinite(run.tokens_per_s));
      EXPECT_GE(run.step.count, 0);
      EXPECT_FALSE(run.setting.str().empty());
    }
  };
  constexpr int kRounds = 1500;
  const files::Outcomes outcomes = files::read_damaged(good.dump(), read, kRounds);
  EXPECT_GT(outcomes.refused, kRounds / 4);
  EXPECT_GT(outcomes.read, kRounds / 20);
}

}  // namespace
}  // namespace ridge::record
