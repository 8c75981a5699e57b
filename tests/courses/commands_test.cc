// SPDX-License-Identifier: Apache-2.0
// Subcommands, options and files that the program has with courses/ alone, run from outside.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "apps/program_run.h"

namespace ridge::apps {
namespace {

using nlohmann::json;
using CoursesCommandTest = ProgramTest;

std::vector<std::string> train(std::vector<std::string> more) {
  std::vector<std::string> all = tiny({"train", "--batch-size", "1", "--seq-len", "16"});
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST_F(CoursesCommandTest, TheWorkshopsFormatAddsTheFilesOfItsScripts) {
  ASSERT_EQ(run(train({"--steps", "3", "--out", "a", "--format", "workshop"})).code, 0);
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / "a"))
    if (entry.is_regular_file())
      names.insert(std::filesystem::relative(entry.path(), folder_ / "a").string());
  EXPECT_EQ(names, (std::set<std::string>{"performance_summary.json",
                                          "flops_profile.json",
                                          "computational_intensity.json",
                                          "roofline_data.json",
                                          "operator_analysis.json",
                                          "memory_analysis.json",
                                          "performance_summary_report.md",
                                          "flops_analysis/flops_profile.json",
                                          "flops_analysis/computational_intensity.json",
                                          "flops_analysis/roofline_data.json",
                                          "pytorch_profiling/performance_summary.json",
                                          "pytorch_profiling/operator_analysis.json",
                                          "pytorch_profiling/memory_analysis.json",
                                          "pytorch_profiling/comprehensive_profiling_report.md",
                                          "pytorch_profiling/ridge.pt.trace.json",
                                          "report.html",
                                          "report.md",
                                          "trace.json",
                                          "kernels.json",
                                          "memory.json",
                                          "operators.csv"}));
  for (const char* folder : {"a", "a/pytorch_profiling"}) {
    const Output output = run({"explain", folder});
    EXPECT_EQ(output.code, 0) << output.err;
    EXPECT_NE(output.out.find("matmul"), std::string::npos);
  }
  EXPECT_EQ(run({"report", "a", "--chart", "steps.svg"}).code, 0);
  EXPECT_NE(files::contents(folder_ / "steps.svg").find("instrumented step"), std::string::npos);
  const json summary = json::parse(files::contents(folder_ / "a" / "performance_summary.json"));
  EXPECT_EQ(summary["config"]["hidden_dim"], 256);
  EXPECT_EQ(summary["config"]["n_layers"], 4);
  EXPECT_EQ(summary["training_params"]["num_steps"], 3);
  EXPECT_GT(summary["performance_summary"]["avg_forward_time"].get<double>(), 0);
  EXPECT_LT(summary["performance_summary"]["avg_forward_time"].get<double>(),
            summary["performance_summary"]["avg_batch_time"].get<double>());
  const json flops = json::parse(files::contents(folder_ / "a" / "flops_profile.json"));
  EXPECT_EQ(flops["step_by_step_results"].size(), 3u);
  expect_refused(train({"--steps", "2", "--out", "b", "--format", "other"}), 2, "[format]");
  expect_refused(train({"--steps", "2", "--format", "workshop"}), 2, "--format");
}

TEST_F(CoursesCommandTest, BenchModuleHasTheNotebooksFigures) {
  auto point = [&](const char* phase) {
    const Output output = run({"bench", "module", "mlp", "--config", "gemma3-270m", "--phase",
                               phase, "--batch-size", "8", "--seq-len", "2048", "--bytes",
                               "notebook", "--form", "eager", "--plan", "--json"});
    EXPECT_EQ(output.code, 0) << output.err;
    return json::parse(output.out)["cases"][0];
  };
  EXPECT_EQ(point("prefill")["flops"], 129'151'008'768);
  EXPECT_NEAR(point("prefill")["flops_per_unfused_byte"], 212.54, 0.005);
  EXPECT_NEAR(point("decode")["flops_per_unfused_byte"], 7.731, 0.0005);
}

// The kernels by name (of a product the op's, as its kernel's differs by machine), and a folder
// that explain, report and diff read as that of a training.
TEST_F(CoursesCommandTest, BenchProfilesOpsModulesAndGraphs) {
  files::write_plain(
      folder_ / "g.txt",
      "%0 = input f32[64,64] \"x\"\n%1 : f32[64,64] = tanh(%0) #forward\nreturn %1\n");
  const std::vector<std::pair<std::vector<std::string>, std::string>> all = {
      {{"op", "matmul", "--sweep", "n=k=m=16,32"}, "  matmul "},
      {{"module", "mlp", "--config", "tiny", "--seq-len", "64", "--form", "eager,fused"}, "\nglu"},
      {{"graph", "g.txt", "--backward", "--level", "baseline"}, "\ntanh"},
      {{"attention", "--seq-len", "16", "--heads", "2", "--kv-heads", "2"}, "\nsoftmax"}};
  for (const auto& [arguments, kernel] : all) {
    std::vector<std::string> line = {"bench"};
    line.insert(line.end(), arguments.begin(), arguments.end());
    line.insert(line.end(), {"--profile", "--seconds", "0.01", "--out", "p-" + arguments[0]});
    const Output output = run(line);
    ASSERT_EQ(output.code, 0) << output.err;
    EXPECT_NE(output.out.find("Kernels of "), std::string::npos);
    EXPECT_NE(output.out.find(kernel), std::string::npos) << output.out;
    const std::filesystem::path folder = folder_ / ("p-" + arguments[0]);
    for (const char* name : {"trace.json", "memory.json", "kernels.json", "report.html",
                             "report.md", "bench.json", "performance_summary.json"})
      EXPECT_TRUE(std::filesystem::exists(folder / name)) << folder << name;
    EXPECT_EQ(run({"explain", folder.string()}).code, 0);
  }
  EXPECT_EQ(run({"report", "p-op", "--chart", "op.svg", "--roofline", "roof.svg"}).code, 0);
  EXPECT_EQ(run({"diff", "p-op", "p-op"}).code, 0);
  expect_refused({"bench", "op", "matmul", "--shape", "n=8", "--counts", "--profile"}, 2,
                 "--profile");
  expect_refused({"bench", "op", "matmul", "--shape", "n=8", "--cold", "--profile"}, 2, "--cold");
  expect_refused({"bench", "op", "matmul", "--profile"}, 2, "--profile");
}

TEST_F(CoursesCommandTest, DemosAreListedAndShown) {
  EXPECT_EQ(json::parse(run({"demo", "list", "--json"}).out).size(), 21u);
  EXPECT_EQ(run({"exhibit", "list"}).out, run({"demo", "list"}).out) << "the former name";
  const Output output =
      run({"demo", "fusion", "--budget", "1s", "--threads", "1", "--json", "--out", "shown"});
  ASSERT_EQ(output.code, 0) << output.err;
  const json shown = json::parse(output.out);
  EXPECT_EQ(shown["teaches"].size(), 4u);
  EXPECT_NE(shown["prediction"], "");
  for (const json& each : shown["cases"])
    EXPECT_EQ(each["kernel_calls"], each["form"] == "eager" ? 8 : 1) << each;
  EXPECT_EQ(json::parse(files::contents(folder_ / "shown" / "bench.json"))["kind"], "exhibit");
  const Output all =
      run({"demo", "all", "--budget", "0.1", "--threads", "1", "--json", "--out", "all"});
  ASSERT_EQ(all.code, 0) << all.err;
  EXPECT_EQ(json::parse(all.out).size(), 21u);
  for (const json& each : json::parse(all.out))
    EXPECT_TRUE(
        std::filesystem::exists(folder_ / "all" / std::string(each["exhibit"]) / "report.html"))
        << each;
  expect_refused({"demo", "all", "--out", "all"}, 2, "is not empty");
  expect_refused({"demo", "fusionn"}, 2, "did you mean fusion?");
  expect_refused({"demo", "fusion", "--budget", "0"}, 2, "[budget]");
  expect_refused({"demo", "list", "--budget", "1s"}, 2, "--budget has no effect with list");
}

}  // namespace
}  // namespace ridge::apps
