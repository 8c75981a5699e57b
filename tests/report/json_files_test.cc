// SPDX-License-Identifier: Apache-2.0
// The JSON files of a run: they parse, and hold the numbers of the record.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "record/summary_file.h"
#include "report/lab_files.h"
#include "report/lab_fixture.h"
#include "report/output_files.h"

namespace ridge::report {
namespace {

using nlohmann::json;

TEST(PerformanceSummary, HoldsEachRunAndItsOperations) {
  record::LabRecord lab = lab_record();
  json summary = json::parse(performance_summary(lab));
  ASSERT_EQ(summary["runs"].size(), 2u);
  const json& run = summary["runs"][1];
  EXPECT_EQ(run["setting"]["level"], "compiled");
  EXPECT_EQ(run["step"]["median_ns"], 1e6);
  EXPECT_EQ(run["speed_up"], 2.0);
  EXPECT_NEAR(run["samples_per_s"].get<double>(), 8 / 1e-3, 1e-6);
  EXPECT_NEAR(run["tokens_per_s"].get<double>(), 8 * 128 / 1e-3, 1e-6);
  // 2 x 9e6 MACs in a millisecond, relative to 100 FLOPs per nanosecond.
  EXPECT_NEAR(run["mfu"].get<double>(), 18e6 / 1e6 / 100, 1e-12);
  EXPECT_EQ(run["loss"]["first"], 7.0185);
  EXPECT_TRUE(run["loss"]["agrees"].get<bool>());
  EXPECT_FALSE(summary["runs"][0].contains("operations"));
  int64_t time = 0;
  for (const json& row : run["operations"]["by_op"]) time += row["time_ns"].get<int64_t>();
  EXPECT_EQ(time, run["attribution"]["kernel_ns"].get<int64_t>());
  EXPECT_EQ(run["operations"]["total"]["time_ns"].get<int64_t>(), time);
  EXPECT_EQ(summary["advice"].size(), 1u);
  EXPECT_EQ(summary["version"], record::kSummaryVersion);
}

TEST(PerformanceSummary, DifferingLossesAreSaidToDiffer) {
  record::LabRecord lab = lab_record();
  lab.runs[1].losses[1] += 1e-4;
  json summary = json::parse(performance_summary(lab));
  EXPECT_FALSE(summary["runs"][1]["loss"]["agrees"].get<bool>());
  lab.runs[1].setting.dtype = "bf16";
  EXPECT_TRUE(json::parse(performance_summary(lab))["runs"][1]["loss"]["agrees"].get<bool>());
  lab.runs[1].losses[1] = std::nan("");
  summary = json::parse(performance_summary(lab));
  EXPECT_FALSE(summary["runs"][1]["loss"]["agrees"].get<bool>());
  EXPECT_TRUE(summary["runs"][1]["loss"]["mean"].is_null());
}

TEST(PerformanceSummary, ATrialIsComparedInTokensPerSecond) {
  record::LabRecord lab = lab_record();
  record::TrialRecord trial{lab.advice[0], lab.runs[0], lab.runs[1]};
  trial.after.setting.batch_size = 16;  // twice the tokens in half the time
  lab.trials = {trial};
  json summary = json::parse(performance_summary(lab));
  ASSERT_EQ(summary["trials"].size(), 1u);
  const json& written = summary["trials"][0];
  EXPECT_NEAR(written["measured_gain"].get<double>(), 3.0, 1e-9);
  EXPECT_TRUE(written["clear_of_noise"].get<bool>());
  EXPECT_EQ(written["verdict"], "clear of noise");
  EXPECT_EQ(written["predicted_gain"], 0.25);
}

TEST(FlopsProfile, NamesConventionAndPeak) {
  json run = json::parse(flops_profile(lab_record()))["runs"][1];
  EXPECT_EQ(run["total_flops"], 18'100'000);
  EXPECT_EQ(run["total_macs"], 9'000'000);
  EXPECT_EQ(run["model"]["forward"]["macs"], 3'000'000);
  EXPECT_DOUBLE_EQ(run["flops_per_parameter"].get<double>(), 18'100'000 / 1000.0);
  EXPECT_EQ(run["executed"]["total"]["flops"], 17'000'000);
  EXPECT_EQ(run["mfu"]["device_peak_flops_per_s"], 100e9);
  EXPECT_EQ(run["mfu"]["model_flops"], 18'000'000);
  EXPECT_TRUE(run["mfu"]["convention"].get<std::string>().starts_with("PaLM"));
  EXPECT_EQ(run["mfu"]["device_peak_dtype"], "f32");
}

TEST(ComputationalIntensity, IsFlopsPerByteAgainstTheRidge) {
  json run = json::parse(computational_intensity(lab_record()))["runs"][0];
  EXPECT_DOUBLE_EQ(run["flops_per_planned_byte"].get<double>(), 17e6 / 1920);
  EXPECT_DOUBLE_EQ(run["flops_per_compulsory_byte"].get<double>(), 17e6 / 640);
  EXPECT_DOUBLE_EQ(run["ridge_point_flops_per_byte"].get<double>(), 5);
  for (const json& row : run["by_op"]) {
    double intensity = row["flops"].get<double>() / row["bytes"].get<double>();
    EXPECT_DOUBLE_EQ(row["flops_per_byte"].get<double>(), intensity);
    EXPECT_NEAR(row["attainable_flops_per_s"].get<double>(), std::min(100.0, 20 * intensity) * 1e9,
                1);
  }
  EXPECT_FALSE(run["by_scope"].empty());
}

TEST(MemoryJson, ClassesAddUpAtEveryNode) {
  const json runs = json::parse(memory_json(lab_record()))["runs"];
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0]["timeline"].size(), 5u);  // not reported in detail
  EXPECT_EQ(runs[0]["owned_bytes"], lab_record().runs[0].memory.owned_bytes);
  const json& run = runs[1];
  ASSERT_EQ(run["timeline"].size(), 5u);
  for (const json& point : run["timeline"]) {
    ASSERT_EQ(point["bytes"].size(), 7u);
    int64_t sum = 0;
    for (const char* name : {"parameters", "gradients", "optimizer_state", "kv_cache",
                             "activations", "workspace", "data"})
      sum += point["bytes"][name].get<int64_t>();
    EXPECT_EQ(sum, point["total_bytes"].get<int64_t>());
  }
  EXPECT_EQ(run["peak_at"]["node"], 4);
  EXPECT_EQ(run["process"]["predicted_peak_bytes"], 50700);
  EXPECT_EQ(run["process"]["measured_peak_bytes"], 51000);
}

// Numbers stand beside what they count.
TEST(OutputFiles, SayTheirConventions) {
  const record::LabRecord lab = lab_record();
  auto says = [](const json& text, const char* word) {
    return text.is_string() && text.get<std::string>().find(word) != std::string::npos;
  };
  const json summary = json::parse(performance_summary(lab)),
             flops = json::parse(flops_profile(lab)),
             intensity = json::parse(computational_intensity(lab)),
             memory = json::parse(memory_json(lab));
  EXPECT_TRUE(says(summary["intervals"], "true median"));
  EXPECT_TRUE(says(summary["operation_times"], "exclusive_ns"));
  EXPECT_TRUE(says(summary["runs"][0]["mfu_convention"], "PaLM"));
  EXPECT_TRUE(says(flops["unit"], "1 MAC = 2 FLOPs"));
  EXPECT_TRUE(says(flops["runs"][0]["model"]["total_counts"], "optimizer is separate"));
  EXPECT_TRUE(says(flops["runs"][0]["executed"]["total_counts"], "recomputation"));
  EXPECT_TRUE(says(flops["runs"][0]["hfu_convention"], "executed FLOPs"));
  EXPECT_TRUE(says(intensity["bytes"], "compulsory"));
  EXPECT_TRUE(says(intensity["roof"], "cache"));
  for (const char* word : {"owned", "foreign", "live"})
    EXPECT_TRUE(memory["conventions"].contains(word)) << word;
  for (const json& each : {summary, flops, intensity, memory}) {
    EXPECT_EQ(each["program"], "ridge 0.0.0");
    EXPECT_EQ(each["finished_at"], "2025-01-01T00:00:00Z");
    EXPECT_TRUE(says(each["command"], "ridge lab --preset"));
  }
}

TEST(OutputFiles, AreTheOnesPromisedAndParse) {
  record::LabRecord lab = lab_record();
  std::vector<std::string> names;
  for (const OutputFile& file : output_files(lab)) {
    names.push_back(file.name);
    EXPECT_FALSE(file.text.empty());
    EXPECT_TRUE(!file.name.ends_with(".json") || json::accept(file.text)) << file.name;
  }
  EXPECT_EQ(names, (std::vector<std::string>{"performance_summary.json", "flops_profile.json",
                                             "computational_intensity.json", "operators.csv",
                                             "memory.json", "kernels.json", "trace.json",
                                             "report.md", "report.html"}));
  EXPECT_EQ(lab.warnings.size(), 1u);
}

TEST(OutputFiles, StandWithoutCeilingsAndWithoutMeasurements) {
  record::LabRecord lab = lab_record();
  lab.ceilings.reset();
  for (record::RunRecord& run : lab.runs) run.step = {};
  for (const OutputFile& file : output_files(lab))
    EXPECT_TRUE(!file.name.ends_with(".json") || json::accept(file.text)) << file.name;
}

}  // namespace
}  // namespace ridge::report
