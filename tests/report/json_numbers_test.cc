// SPDX-License-Identifier: Apache-2.0
// Whole parts of the JSON files from records with distinct round numbers, so that no two fields can
// be taken for each other.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "files/scratch.h"
#include "record/operation_table.h"
#include "record/summary_file.h"
#include "report/inference_report.h"
#include "report/lab_files.h"
#include "report/lab_fixture.h"
#include "report/operators_csv.h"

namespace ridge::report {
namespace {

using nlohmann::json;

Summary samples(double from) { return {6, from + 2, from + 1, from + 3, 0.96875}; }

json samples_json(double from) {
  return {{"median_ns", from + 2},
          {"low_ns", from + 1},
          {"high_ns", from + 3},
          {"samples", 6},
          {"coverage", 0.96875}};
}

record::LabRecord distinct_lab() {
  record::LabRecord lab = lab_record();
  record::RunRecord& run = lab.runs[1];
  run.plain_wall_ns = {1001, 1002, 1003, 1004, 1005, 1006};
  run.paired_wall_ns = {1000, 1000, 1000, 1000};
  run.clock_ns = 10.035;
  run.launch_rate_samples = {0.75};
  run.losses = {7, 6.5, 3};
  run.validations = {{2, 6.75}, {3, 6.25}};
  run.weight_bytes = 4014;
  run.cache_bytes = 2007;
  run.logits = {1, 2};
  run.modules = {{"mlp", {21, 42, 0}, 23, 24, 25, 26, 27}};
  run.passes = {{"merge_qkv",
                 "forward",
                 "one product",
                 "nothing",
                 {1, 2, 3, 4, 5, 6},
                 {7, 8, 9, 10, 11, 12},
                 13}};
  run.memory.allocated_bytes = 50001;
  run.memory.live_peak_bytes = 60001;
  record::StepRecord& step = run.step;
  for (size_t i = 0; i < step.nodes.size(); ++i) step.nodes[i].exclusive_ns = 100 << i;
  step.nodes[0].work = step.nodes[3].work = {};  // these only move data
  step.wall_samples_ns = {1250, 1250, 1250, 1250};
  step.forward = samples(100);
  step.backward = samples(200);
  step.optimizer = samples(300);
  step.wall_ns = 8000;
  step.kernel_ns = 5000;
  step.overlapped_ns = 1000;
  step.idle_ns = 3000;
  step.idle_before_first_ns = 400;
  step.host_ns = 1000;
  step.dropped = 17;
  lab.runs[0].logits = {1, 2.5};
  lab.runs[0].losses = {7, 6.5, 3.25};
  return lab;
}

TEST(PerformanceSummary, HoldsEachNumberOfARun) {
  const json run = json::parse(performance_summary(distinct_lab()))["runs"][1];
  EXPECT_EQ(run["parameters"], 1000);
  EXPECT_EQ(run["step"], json({{"median_ns", 1003.5},
                               {"low_ns", 1001},
                               {"high_ns", 1006},
                               {"samples", 6},
                               {"coverage", 0.96875}}));
  EXPECT_EQ(run["forward"], samples_json(100));
  EXPECT_EQ(run["backward"], samples_json(200));
  EXPECT_EQ(run["optimizer"], samples_json(300));
  EXPECT_EQ(run["predicted_step_ns"], 900'000);
  EXPECT_EQ(run["launch_rate"], 0.75);
  EXPECT_EQ(run["kernel_calls"], 5);
  EXPECT_EQ(run["planned_bytes"], 1920);
  EXPECT_EQ(run["compulsory_bytes"], 640);
  EXPECT_EQ(run["memory"], json({{"owned_bytes", 50000},
                                 {"allocated_bytes", 50001},
                                 {"arena_bytes", 20000},
                                 {"foreign_bytes", 700},
                                 {"predicted_peak_bytes", 50700},
                                 {"measured_peak_bytes", 51000},
                                 {"measured_resident_bytes", 40000},
                                 {"peak_is_of_the_steps_alone", false}}));
  EXPECT_NEAR(run["profiling_cost"]["counted"].get<double>(), 0.01, 1e-12);
  EXPECT_EQ(run["profiling_cost"]["measured"], 0.25);
  EXPECT_EQ(run["profiling_cost"]["measured_low"], 0.25);
  EXPECT_EQ(run["profiling_cost"]["measured_high"], 0.25);
  EXPECT_EQ(run["profiling_cost"]["of_run"], 0.1);
  EXPECT_EQ(run["attribution"], json({{"wall_ns", 8000},
                                      {"kernel_ns", 5000},
                                      {"overlapped_ns", 1000},
                                      {"idle_ns", 3000},
                                      {"busy_ns", 4000},
                                      {"idle_before_first_ns", 400},
                                      {"computing_ns", 200 + 400 + 1600},
                                      {"moving_data_ns", 100 + 800},
                                      {"host_ns", 1000},
                                      {"attributed_share", 0.5},
                                      {"instrumented_steps", 4},
                                      {"dropped_records", 17}}));
  EXPECT_EQ(run["step_samples_ns"], json({1001, 1002, 1003, 1004, 1005, 1006}));
  EXPECT_EQ(run["loss"], json({{"first", 7},
                               {"last", 3},
                               {"mean", 5.5},
                               {"all", {7, 6.5, 3}},
                               {"max_abs_difference", 0.25},
                               {"agrees", false},
                               {"validation", {{2, 6.75}, {3, 6.25}}}}));
  auto cost = [](int first) {
    return json{{"nodes", first},     {"kernel_calls", first + 1}, {"flops", first + 2},
                {"bytes", first + 3}, {"peak_bytes", first + 4},   {"predicted_ns", first + 5}};
  };
  EXPECT_EQ(run["passes"], json::array({{{"name", "merge_qkv"},
                                         {"stage", "forward"},
                                         {"trade", "nothing"},
                                         {"before", cost(1)},
                                         {"after", cost(7)},
                                         {"elapsed_ns", 13}}}));
  EXPECT_FALSE(run.contains("mbu"));
}

TEST(PerformanceSummary, HoldsWhatOnlyInferenceHas) {
  record::LabRecord lab = distinct_lab();
  for (record::RunRecord& run : lab.runs) run.setting.task = "decode";
  const json run = json::parse(performance_summary(lab))["runs"][1];
  EXPECT_NEAR(run["mbu"].get<double>(), 6021 / 1003.5 / 25, 1e-12);
  EXPECT_EQ(run["mbu_reason"], "");
  EXPECT_EQ(run["mbu_peak"],
            json({{"per_s", 25e9}, {"source", "measured"}, {"data_sheet_per_s", nullptr}}));
  EXPECT_EQ(run["weight_bytes"], 4014);
  EXPECT_EQ(run["cache_bytes"], 2007);
  EXPECT_EQ(run["logits_difference"], 0.5);
  EXPECT_EQ(run["modules"], json::array({{{"name", "mlp"},
                                          {"macs", 21},
                                          {"flops", 42},
                                          {"planned_bytes", 23},
                                          {"compulsory_bytes", 24},
                                          {"flops_per_compulsory_byte", 1.75},
                                          {"kernel_calls", 25},
                                          {"time_ns", 26},
                                          {"predicted_ns", 27}}}));
}

TEST(PerformanceSummary, HoldsTheAdviceTheTrialAndTheMachine) {
  record::LabRecord lab = distinct_lab();
  lab.advice[0].confidence = 0.9;
  lab.trials = {{lab.advice[0], lab.runs[0], lab.runs[1]}};
  lab.ceilings->machine = {"a CPU", "avx2", 4, 2, {"a library"}, 0, "", 1 << 30};
  lab.ceilings->measured_at = "2026-01-02T03:04:05Z";
  const json summary = json::parse(performance_summary(lab));
  EXPECT_EQ(summary["advice"][0]["reason"], "why");
  EXPECT_EQ(summary["advice"][0]["command"], "--pass=+x");
  EXPECT_EQ(summary["advice"][0]["predicted_gain"], 0.25);
  EXPECT_EQ(summary["advice"][0]["predicted_memory_gain"], -0.1);
  EXPECT_EQ(summary["advice"][0]["predicted_before_ns"], 1e6);
  EXPECT_EQ(summary["advice"][0]["predicted_after_ns"], 8e5);
  EXPECT_EQ(summary["advice"][0]["owned_before_bytes"], 50000);
  EXPECT_EQ(summary["advice"][0]["owned_after_bytes"], 55000);
  EXPECT_EQ(summary["advice"][0]["same_training"], true);
  EXPECT_EQ(summary["advice"][0]["confidence"], 0.9);
  const json& trial = summary["trials"][0];
  EXPECT_EQ(trial["advice"], summary["advice"][0]["title"]);
  EXPECT_EQ(trial["before"], summary["runs"][0]);
  json after = summary["runs"][1];
  after.erase("operations");
  EXPECT_EQ(trial["after"], after);
  EXPECT_EQ(summary["machine"], json({{"device", "a CPU"},
                                      {"isa", "avx2"},
                                      {"cores", 4},
                                      {"threads", 2},
                                      {"libraries", json::array({"a library"})},
                                      {"memory_bytes", 1 << 30},
                                      {"ceilings", "measured"},
                                      {"measured_at", "2026-01-02T03:04:05Z"},
                                      {"peak_flops_per_s", {{"f32", 100e9}}},
                                      {"memory_bytes_per_s", 20e9}}));
}

TEST(PerformanceSummary, IsReadAsWritten) {
  files::ScratchFolder folder;
  record::LabRecord lab = distinct_lab();
  lab.command = "ridge lab";
  for (record::RunRecord& run : lab.runs) {
    run.setting.model = "small";
    run.setting.switches = "+recompute";
  }
  for (record::NodeRecord& node : lab.runs[1].step.nodes)
    if (node.op == kHostile) node.op = "glu";
  files::write_plain(folder / "performance_summary.json", performance_summary(lab));
  const record::SummaryFile file = record::read_summary(folder.path());
  EXPECT_EQ(file.command, lab.command);
  ASSERT_EQ(file.runs.size(), 2u);
  EXPECT_EQ(file.runs[1].setting.str(), "small compiled +recompute 8x128");
  EXPECT_EQ(file.runs[1].step.median, 1003.5);
  EXPECT_EQ(file.runs[1].mean_loss, 5.5);
  EXPECT_FALSE(file.runs[1].losses_agree);
  const record::OperationTable table = table_by_op(lab.runs[1].step, lab.limits());
  ASSERT_EQ(file.runs[1].by_op.size(), table.rows.size());
  for (size_t i = 0; i < table.rows.size(); ++i) {
    EXPECT_EQ(file.runs[1].by_op[i].key, table.rows[i].key);
    EXPECT_EQ(file.runs[1].by_op[i].calls, table.rows[i].calls);
    EXPECT_EQ(file.runs[1].by_op[i].time_ns, static_cast<double>(table.rows[i].time_ns));
    EXPECT_EQ(file.runs[1].by_op[i].share, table.rows[i].share);
  }
}

TEST(FlopsProfile, HoldsEachCount) {
  record::LabRecord lab = lab_record();
  record::RunRecord& run = lab.runs[1];
  run.model.optimizer = {1, 1000, 3};
  run.parameters = 500;
  run.executed = {8'000'000, 16'000'000, 9};
  lab.ceilings->products[0].theoretical_flops_per_ns = 160;
  lab.ceilings->measured_at = "2026-01-02T03:04:05Z";
  json profile = json::parse(flops_profile(lab))["runs"][1];
  auto work = [](int64_t macs, int64_t flops, int64_t transcendentals) {
    return json{{"macs", macs}, {"flops", flops}, {"transcendentals", transcendentals}};
  };
  EXPECT_EQ(profile["model"]["forward"], work(3'000'000, 6'100'000, 5));
  EXPECT_EQ(profile["model"]["backward"], work(6'000'000, 12'000'000, 7));
  EXPECT_EQ(profile["model"]["optimizer"], work(1, 1000, 3));
  EXPECT_EQ(profile["model"]["total"], work(9'000'000, 18'100'000, 12));
  EXPECT_EQ(profile["executed"]["total"], work(8'000'000, 16'000'000, 9));
  EXPECT_EQ(profile["executed"]["flops_per_s"], 16e9);
  EXPECT_EQ(profile["parameters"], 500);
  EXPECT_EQ(profile["flops_per_parameter"], 36'200);
  EXPECT_DOUBLE_EQ(profile["flops_per_token"].get<double>(), 18'100'000 / 1024.0);
  EXPECT_DOUBLE_EQ(profile["flops_per_parameter_and_token"].get<double>(), 18e6 / (500 * 1024.0));
  EXPECT_EQ(profile["mfu"]["value"], 0.18);
  EXPECT_EQ(profile["mfu"]["model_flops_per_s"], 18e9);
  EXPECT_EQ(profile["mfu"]["device_peak_source"], "measured");
  EXPECT_EQ(profile["mfu"]["data_sheet_flops_per_s"], 160e9);
  EXPECT_EQ(profile["hfu"], 0.16);
  lab.ceilings.reset();
  EXPECT_EQ(json::parse(flops_profile(lab))["runs"][1]["hfu"], 0);
}

TEST(MemoryJson, HoldsEachNumber) {
  record::LabRecord lab = distinct_lab();
  record::MemoryRecord& memory = lab.runs[1].memory;
  for (int i = 0; i < plan::kMemoryClasses; ++i) memory.store_bytes[i] = 100 + i;
  const json run = json::parse(memory_json(lab))["runs"][1];
  EXPECT_EQ(run["owned_bytes"], 50000);
  EXPECT_EQ(run["arena_bytes"], 20000);
  EXPECT_EQ(run["allocated_bytes"], 50001);
  EXPECT_EQ(run["live_peak_bytes"], 60001);
  EXPECT_EQ(run["process"]["foreign_bytes"], 700);
  EXPECT_EQ(run["process"]["measured_resident_bytes"], 40000);
  auto classes = [](int64_t first, int64_t step) {
    json all;
    for (const char* name : {"parameters", "gradients", "optimizer_state", "kv_cache",
                             "activations", "workspace", "data"}) {
      all[name] = first;
      first += step;
    }
    return all;
  };
  EXPECT_EQ(run["store_bytes"], classes(100, 1));
  EXPECT_EQ(run["peak_by_class_bytes"], classes(1004, 1000));
  EXPECT_EQ(run["peak_at"], json({{"graph", "step"},
                                  {"node", 4},
                                  {"op", "adamw"},
                                  {"scope", "optimizer"},
                                  {"phase", "optimizer"},
                                  {"total_bytes", 28028},
                                  {"bytes", classes(1004, 1000)}}));
  EXPECT_EQ(run["timeline"][4], run["peak_at"]);
}

TEST(OperatorsCsv, HoldsEachNumber) {
  record::LabRecord lab = lab_record();
  lab.runs[1].setting = {"small", "compiled", "+x", "fp32", "cpu",   "avx2",
                         2,       8,          128,  3,      "train", ""};
  const std::string text = operators_csv(lab);
  EXPECT_NE(
      text.find("\r\nsmall,compiled,+x,fp32,8,128,3,forward,layer.*/attention,matmul,2,2,1900,"
                "1900,1900,1900,0.000000,10000,5000,512,256,13.0208,5263157895,"
                "404210526,compute,1710,0.0000\r\n"),
      std::string::npos)
      << text;
}

TEST(InferenceSummary, HoldsEachNumber) {
  record::InferenceRecord study;
  study.lab = lab_record();
  study.file = "GGUF";
  study.file_bytes = 1234;
  study.open_ns = 56;
  study.gains = {{128, samples(10), samples(20), 4096, 0.5}};
  study.latencies = {{2, 64, 33, 1000, 2000, 3000, samples(98), 6250}};
  const record::AttentionForm standard{1, 2, 3, 4, 5, "", samples(30), 6},
      flash{7, 8, 9, 10, 11, "too long", {}, 12};
  study.attention = {{3, 64, 512, standard, flash}};
  study.reaches = {{64, 1 << 20, 362}};
  study.left_out = {"a", "b"};
  const json found = json::parse(inference_summary(study));
  EXPECT_EQ(found["version"], 1);
  EXPECT_EQ(found["runs"], "performance_summary.json");
  EXPECT_TRUE(found["mfu_convention"].get<std::string>().starts_with("PaLM"));
  EXPECT_TRUE(found["mbu_convention"].get<std::string>().starts_with("stored bytes"));
  EXPECT_EQ(found["file"], json({{"format", "GGUF"}, {"tensor_bytes", 1234}, {"open_ns", 56}}));
  EXPECT_EQ(found["kv_cache"], json::array({{{"context", 128},
                                             {"with", samples_json(10)},
                                             {"without", samples_json(20)},
                                             {"cache_bytes", 4096},
                                             {"logits_difference", 0.5}}}));
  // 3000 + 100 x 32 = 6200 of 6250 ns for 66 tokens
  EXPECT_NEAR(found["latency"][0]["error"].get<double>(), -0.008, 1e-12);
  json latency = found["latency"][0];
  latency.erase("error");
  EXPECT_EQ(latency, json({{"batch_size", 2},
                           {"prompt_tokens", 64},
                           {"tokens", 33},
                           {"session_ns", 1000},
                           {"first_generation_ns", 2000},
                           {"ttft_ns", 3000},
                           {"tpot", samples_json(98)},
                           {"wall_ns", 6250},
                           {"predicted_ns", 6200},
                           {"tokens_per_s", 66e9 / 6250}}));
  auto form = [](int first, const char* skipped, const json& time) {
    return json{{"kernel_calls", first},
                {"planned_bytes", first + 1},
                {"arena_bytes", first + 2},
                {"owned_bytes", first + 3},
                {"predicted_ns", first + 4},
                {"skipped", skipped},
                {"time", time},
                {"measured_bytes", first + 5}};
  };
  const json none = {
      {"median_ns", 0}, {"low_ns", 0}, {"high_ns", 0}, {"samples", 0}, {"coverage", 0}};
  EXPECT_EQ(found["attention"], json::array({{{"heads", 3},
                                              {"head_size", 64},
                                              {"seq_len", 512},
                                              {"standard", form(1, "", samples_json(30))},
                                              {"flash", form(7, "too long", none)}}}));
  EXPECT_EQ(found["standard_attention_fits"],
            json::array({{{"head_size", 64}, {"memory_bytes", 1 << 20}, {"seq_len", 362}}}));
  EXPECT_EQ(found["left_out"], json({"a", "b"}));
}

TEST(InferenceReport, NamesWhatWasSkipped) {
  record::InferenceRecord study;
  study.lab = lab_record();
  auto report = [&] {
    for (const OutputFile& file : study_files(study))
      if (file.name == "report.md") return file.text;
    return std::string();
  };
  EXPECT_EQ(report().find("- skipped: "), std::string::npos);
  study.left_out = {"flash attention at 32,768", "the cache's gain"};
  // A blank line ends the list.
  EXPECT_NE(
      report().find("\n- skipped: flash attention at 32,768\n- skipped: the cache's gain\n\n"),
      std::string::npos)
      << report();
}

}  // namespace
}  // namespace ridge::report
