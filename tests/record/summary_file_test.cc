// SPDX-License-Identifier: Apache-2.0
// Reading output folders in the current version and in version 1.
#include "record/summary_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "files/atomic_file.h"
#include "files/json.h"

namespace ridge::record {
namespace {

const std::filesystem::path kVersion1 = std::string(RIDGE_TEST_DATA) + "/runs/version_1";

TEST(SummaryFile, ReadsAFolderOfVersion1) {
  const nlohmann::json raw = files::read_json(kVersion1 / "performance_summary.json");
  ASSERT_EQ(raw.at("version"), 1);
  const SummaryFile file = read_summary(kVersion1);
  ASSERT_EQ(file.runs.size(), 2u);
  EXPECT_EQ(file.runs[0].setting.level, "baseline");
  const nlohmann::json& compiled = raw.at("runs").at(1);
  const SummaryRun& run = file.runs[1];
  EXPECT_EQ(run.setting.level, "compiled");
  EXPECT_EQ(run.step.median, compiled.at("step").at("median_ns"));
  EXPECT_EQ(run.launch_rate, compiled.at("machine_pace"));
  EXPECT_GT(run.launch_rate, 0);
  const nlohmann::json& operations = compiled.at("operations").at("by_op");
  ASSERT_EQ(run.by_op.size(), operations.size());
  for (size_t i = 0; i < run.by_op.size(); ++i) {
    EXPECT_EQ(run.by_op[i].key, operations.at(i).at("key").get<std::string>());
    EXPECT_EQ(run.by_op[i].exclusive_ns, operations.at(i).at("own_ns"));
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

}  // namespace
}  // namespace ridge::record
