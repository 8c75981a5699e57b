// SPDX-License-Identifier: Apache-2.0
// report.html: its data are the figures of the folder's files, no name becomes markup, and it stays
// small. page_browser_test.py opens it in a browser.
#include "report/report_page.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "files/json.h"
#include "files/scratch.h"
#include "report/lab_fixture.h"
#include "test_paths.h"

namespace ridge::report {
namespace {

using nlohmann::json;

constexpr std::string_view kDataBegin = R"(<script type="application/json" id="data">)";

std::string data_of(const std::string& page) {
  const size_t begin = page.find(kDataBegin) + kDataBegin.size();
  return page.substr(begin, page.find("</script>", begin) - begin);
}

std::vector<OutputFile> lab_files() {
  record::LabRecord lab = lab_record();
  return output_files(lab);
}

json folder_of(const std::vector<OutputFile>& files) {
  return json::parse(data_of(page_file(files).text))["folders"][0];
}

json& file(std::map<std::string, json>& files, const char* name) { return files.at(name); }

size_t column(const json& kernels, const char* name) {
  const json& columns = kernels["columns"];
  return static_cast<size_t>(std::find(columns.begin(), columns.end(), name) - columns.begin());
}

TEST(ReportPage, HoldsTheFiguresOfTheRecord) {
  const record::LabRecord lab = lab_record();
  const json folder = folder_of(lab_files());
  ASSERT_EQ(folder["runs"].size(), 2u);
  const json& run = folder["runs"][1];
  EXPECT_EQ(run["step"]["median_ns"], 1e6);
  EXPECT_EQ(run["memory_profile"]["timeline"].size(), lab.runs[1].memory.timeline.size());
  EXPECT_EQ(run["flops_profile"]["total_macs"], 9'000'000);
  const std::vector<record::NodeRecord>& nodes = lab.runs[1].step.nodes;
  const json& kernels = run["kernels"];
  ASSERT_EQ(kernels["rows"].size(), nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    const json& row = kernels["rows"][i];
    EXPECT_EQ(row[column(kernels, "node")], nodes[i].node);
    EXPECT_EQ(row[column(kernels, "time_ns")], nodes[i].time_ns);
    EXPECT_EQ(row[column(kernels, "flops")], nodes[i].work.flops);
    EXPECT_EQ(row[column(kernels, "read_bytes")], nodes[i].read_bytes);
    EXPECT_EQ(row[column(kernels, "max_ns")], nodes[i].samples_ns[0]);
  }
  size_t spans = 0;
  for (const record::TimelineRun& each : lab.runs[1].step.timeline) spans += each.run.spans.size();
  EXPECT_EQ(kernels["spans"].size(), spans);
  EXPECT_EQ(kernels["is_one_step"], false);
  EXPECT_FALSE(folder["runs"][0].contains("kernels"));
}

TEST(ReportPage, NothingInANameIsMarkup) {
  record::LabRecord lab = lab_record();
  for (record::RunRecord& run : lab.runs) {
    run.setting.model = "</script><script>alert(1)</script><!--";
    for (record::NodeRecord& node : run.step.nodes)
      node.scope = "<img src=x onerror=alert(1)>&amp;";
  }
  const std::string data = data_of(page_file(output_files(lab)).text);
  EXPECT_EQ(data.find_first_of("<>&"), std::string::npos);
  EXPECT_EQ(json::parse(data)["folders"][0]["runs"][0]["setting"]["model"],
            "</script><script>alert(1)</script><!--");
}

TEST(ReportPage, NeedsNoNetwork) {
  const std::string page(kPageTemplate);
  for (const char* reference : {"src=", "@import", "url(", "<link", "fetch(", "XMLHttpRequest"})
    EXPECT_EQ(page.substr(0, page.find("<script>")).find(reference), std::string::npos)
        << reference;
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
}

TEST(ReportPage, HoldsTheLossesOfALog) {
  const files::ScratchFolder folder;
  EXPECT_THROW(read_run_folder(folder.path()), Error);
  files::write_plain(folder / "metrics.jsonl", R"({"step": 0, "loss": 4.0}
{"step": 1, "loss": 3.0}
{"step": 2, "validation_loss": 3.5}
{"step": 2, "loss": 2.0}
)");
  const RunFolder log = read_run_folder(folder.path());
  const json document = folder_document(log);
  EXPECT_TRUE(document["runs"].empty());
  EXPECT_EQ(document["log"]["training"], json::parse("[[0, 4.0], [1, 3.0], [2, 2.0]]"));
  EXPECT_EQ(document["log"]["validation"], json::parse("[[2, 3.5]]"));
  EXPECT_NE(data_of(report_page(std::span(&log, 1))).find("validation"), std::string::npos);
}

TEST(ReportPage, LeavesOutWhatDoesNotFit) {
  const RunFolder folder = run_folder(lab_files());
  const std::string whole = report_page(std::span(&folder, 1));
  EXPECT_TRUE(json::parse(data_of(whole))["folders"][0]["left_out"].empty());
  DocumentLimits limits;
  limits.kernels = 2;
  limits.spans = 3;
  limits.memory_points = 1;
  limits.samples = 2;
  const json cut = folder_document(folder, limits);
  EXPECT_EQ(cut["runs"][1]["kernels"]["rows"].size(), 2u);
  EXPECT_LE(cut["runs"][1]["kernels"]["spans"].size(), 3u);
  EXPECT_EQ(cut["runs"][1]["memory_profile"]["timeline"].size(), 1u);
  EXPECT_LE(cut["runs"][1]["loss"]["curve"].size(), 2u);
  EXPECT_EQ(cut["left_out"].size(), 7u) << cut["left_out"];  // 2 x (losses, steps), 3 of kernels
  const auto size = static_cast<int64_t>(whole.size());
  EXPECT_LE(static_cast<int64_t>(report_page(std::span(&folder, 1), size - 1).size()), size - 1);
  EXPECT_THROW(report_page(std::span(&folder, 1), static_cast<int64_t>(kPageTemplate.size())),
               Error);
}

// The kernels of a folder without kernels.json come from its trace.
TEST(ReportPage, ReadsFoldersOfTheFirstVersion) {
  const json folder = folder_document(read_run_folder(test_data("runs/version_1")));
  ASSERT_EQ(folder["runs"].size(), 2u);
  const json& run = folder["runs"][1];
  EXPECT_GT(run["attribution"]["kernel_ns"], 0);
  const json& kernels = run["kernels"];
  EXPECT_EQ(kernels["is_one_step"], true);
  const json& total = run["operations"]["total"];
  EXPECT_EQ(kernels["rows"].size(), total["nodes"].get<size_t>());
  for (const char* name : {"calls", "flops", "macs", "read_bytes", "written_bytes"}) {
    int64_t sum = 0;
    for (const json& row : kernels["rows"]) sum += row[column(kernels, name)].get<int64_t>();
    EXPECT_EQ(sum, total[name].get<int64_t>()) << name;
  }
  EXPECT_EQ(run["memory_profile"]["timeline"][0].size(), 12u);
}

// Each kernel of such a folder is the sum of the trace's slices of its node.
TEST(ReportPage, KernelsOfTheFirstVersionAreSumsOfTheTrace) {
  struct Sum {
    int64_t calls = 0;
    double us = 0, predicted_us = 0;
  };
  std::map<std::pair<std::string, int64_t>, Sum> sums;
  const json trace = files::read_json(test_data("runs/version_1/trace.json"));
  for (const json& event : trace.at("traceEvents"))
    if (event.at("ph") == "X" && event.contains("args") && event["args"].contains("node")) {
      const json& args = event["args"];
      Sum& sum = sums[{args.at("graph"), args.at("node")}];
      ++sum.calls;
      sum.us += event.at("dur").get<double>();
      sum.predicted_us += args.at("predicted_us").get<double>();
    }
  const json folder = folder_document(read_run_folder(test_data("runs/version_1")));
  const json& kernels = folder["runs"][1]["kernels"];
  ASSERT_EQ(kernels["rows"].size(), sums.size());
  for (const json& row : kernels["rows"]) {
    const auto found = sums.find({row[column(kernels, "graph")], row[column(kernels, "node")]});
    ASSERT_NE(found, sums.end());
    const Sum& sum = found->second;
    EXPECT_EQ(row[column(kernels, "calls")], sum.calls);
    const double ns = row[column(kernels, "time_ns")].get<double>();
    EXPECT_NEAR(ns, 1000 * sum.us, 0.5 * static_cast<double>(sum.calls) + 1e-3);  // whole ns
    EXPECT_EQ(row[column(kernels, "exclusive_ns")], row[column(kernels, "time_ns")]);
    EXPECT_NEAR(row[column(kernels, "predicted_ns")].get<double>(), 1000 * sum.predicted_us, 1e-3);
  }
}

TEST(ReportPage, DamagedFilesAreBadFiles) {
  const auto fails = [](auto&& damage) {
    RunFolder folder = run_folder(lab_files());
    damage(folder.files);
    try {
      folder_document(folder);
    } catch (const Error& error) {
      return error.code() == ExitCode::kBadFile;
    }
    return false;
  };
  using Files = std::map<std::string, json>;
  EXPECT_TRUE(fails([](Files& f) { file(f, "performance_summary.json")["version"] = 99; }));
  EXPECT_TRUE(fails([](Files& f) { file(f, "performance_summary.json").erase("runs"); }));
  EXPECT_TRUE(fails([](Files& f) { file(f, "kernels.json")["version"] = 2; }));
  EXPECT_TRUE(fails([](Files& f) { file(f, "kernels.json")["columns"].erase(0); }));
  EXPECT_TRUE(fails([](Files& f) { file(f, "kernels.json")["runs"][0]["rows"][0].erase(0); }));
  EXPECT_TRUE(fails([](Files& f) { file(f, "kernels.json")["runs"][0]["spans"][0][0] = 5; }));
  EXPECT_TRUE(fails([](Files& f) { file(f, "kernels.json")["runs"][0]["spans"][0][1] = "x"; }));
  EXPECT_TRUE(fails([](Files& f) { file(f, "kernels.json")["runs"][0]["rows"][0][3] = 5; }));
  EXPECT_TRUE(fails([](Files& f) { file(f, "kernels.json")["runs"][0]["rows"][0][15] = "x"; }));
  EXPECT_TRUE(fails([](Files& f) {
    json& kernels = file(f, "kernels.json");
    kernels["runs"][0]["rows"][0][column(kernels, "producers")] = {"x"};
  }));
  EXPECT_TRUE(fails([](Files& f) { file(f, "kernels.json")["runs"][0]["scopes"] = 1; }));
  EXPECT_TRUE(
      fails([](Files& f) { file(f, "memory.json")["runs"][0]["timeline"][0]["bytes"] = 1; }));
  EXPECT_TRUE(fails([](Files& f) { file(f, "flops_profile.json")["runs"] = 7; }));
  EXPECT_FALSE(fails([](Files& f) { f.erase("kernels.json"); }));
  for (const std::filesystem::path& path : {test_data("models"), std::filesystem::path("no/such")})
    files::expect_error([&] { read_run_folder(path); }, ExitCode::kBadFile,
                        "expected an output folder");
}

}  // namespace
}  // namespace ridge::report
