// SPDX-License-Identifier: Apache-2.0
// Traces in tools for PyTorch's traces, HolisticTraceAnalysis 0.5.0 and AMD's TraceLens: their
// figures are those of the run. RIDGE_PEER_PYTHON is a Python that has them; otherwise pip fetches
// them into a scratch folder, and without a network the tests are skipped. PyPI's "tracelens" is
// another program.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "apps/program_run.h"
#include "peer_python.h"

namespace ridge::apps {
namespace {

using nlohmann::json;

class TraceToolsTest : public ProgramTest {
 protected:
  // A Python with the package; empty if there is none.
  static std::string python() {
    static const files::ScratchFolder folder;
    static const std::string found =
        python_with("hta", "HolisticTraceAnalysis==0.5.0", folder.path());
    return found;
  }

  static std::string trace_lens_python() {
    static const files::ScratchFolder folder;
    static const std::string found = python_with(
        "TraceLens", "git+https://github.com/AMD-AGI/TraceLens@171dd74721ca", folder.path());
    return found;
  }

  // The rows "type,time ms,percent" of the report of TraceLens about all kernels of a trace.
  std::map<std::string, double> timeline_ms(const std::filesystem::path& trace) const {
    const std::string out = (folder_ / "trace-lens").string();
    std::filesystem::remove_all(out);
    output_of(
        fmt::format("cd '{}' && '{}' -m "
                    "TraceLens.Reporting.generate_perf_report_pytorch --profile_json_path '{}' "
                    "--output_csvs_dir '{}' >lens.txt 2>&1",
                    folder_.path().string(), trace_lens_python(), trace.string(), out));
    std::map<std::string, double> rows;
    if (!std::filesystem::exists(out + "/gpu_timeline.csv")) return rows;
    std::istringstream lines(files::contents(out + "/gpu_timeline.csv"));
    std::string line;
    std::getline(lines, line);
    while (std::getline(lines, line)) {
      const size_t comma = line.find(',');
      rows[line.substr(0, comma)] = std::stod(line.substr(comma + 1));
    }
    return rows;
  }
  void compare_timeline(const std::filesystem::path& trace, const json& kernels_of_run) const;

  static json figures(const std::filesystem::path& trace) {
    const std::string said =
        output_of(fmt::format("'{}' '{}' '{}' 2>/dev/null", python(),
                              source_file("tests/apps/hta_figures.py").string(), trace.string()));
    return said.empty() ? json() : json::parse(said);
  }
};

// kernels.json says this about the same step.
struct Timeline {
  explicit Timeline(const json& run) {
    std::vector<std::pair<double, double>> spans;
    for (const json& span : run["spans"]) {
      const double begin = span[1].get<double>() / 1000, end = span[2].get<double>() / 1000;
      spans.push_back({begin, end});
      sum_us[run["rows"][span[0].get<size_t>()][2]] += end - begin;
    }
    std::sort(spans.begin(), spans.end());
    double ended = spans.front().first;
    for (const auto& [begin, end] : spans) {
      busy_us += std::max(0.0, end - std::max(begin, ended));
      ended = std::max(ended, end);
    }
    kernel_us = ended - spans.front().first;
  }
  double kernel_us = 0;  // from the first kernel's begin to the last one's end
  double busy_us = 0;
  std::map<std::string, double> sum_us;  // by op
};

void expect_near(double got, double expected, const std::string& what) {
  EXPECT_NEAR(got, expected, 0.01 * expected) << what;
}

void compare_times(const json& got, const Timeline& ours) {
  ASSERT_FALSE(got.is_null());
  EXPECT_EQ(got["ranks"], json({0}));
  EXPECT_EQ(got["iterations"].size(), 1u);
  EXPECT_EQ(got["devices"].size(), 1u);
  EXPECT_EQ(got["kinds"], json({"COMPUTATION"}));
  expect_near(got["kernel_us"], ours.kernel_us, "from the first to the last kernel");
  expect_near(got["compute_us"], ours.busy_us, "busy");
  expect_near(got["idle_us"], ours.kernel_us - ours.busy_us, "idle");
}

void compare(const json& got, const json& kernels_of_run) {
  const Timeline ours(kernels_of_run);
  compare_times(got, ours);
  double stream_idle_us = 0;
  for (const json& each : got["stream_idle_us"]) stream_idle_us += each.get<double>();
  expect_near(stream_idle_us, ours.kernel_us - ours.busy_us, "idle time of the stream");
  EXPECT_EQ(got["sum_us"].size(), ours.sum_us.size());
  for (const auto& [op, us] : ours.sum_us) expect_near(got["sum_us"].value(op, 0.0), us, op);
}

void TraceToolsTest::compare_timeline(const std::filesystem::path& trace,
                                      const json& kernels_of_run) const {
  const Timeline ours(kernels_of_run);
  const std::map<std::string, double> rows = timeline_ms(trace);
  ASSERT_FALSE(rows.empty()) << files::contents(folder_ / "lens.txt");
  expect_near(rows.at("computation_time") * 1000, ours.busy_us, "computation");
  expect_near(rows.at("busy_time") * 1000, ours.busy_us, "busy");
  expect_near(rows.at("total_time") * 1000, ours.kernel_us, "from the first to the last kernel");
}

TEST_F(TraceToolsTest, TraceLensFindsOurFigures) {
  if (trace_lens_python().empty()) GTEST_SKIP() << "pip could not fetch TraceLens";
  const Output lab = run({"lab", "--preset", "tiny", "--device", "cpu", "--steps", "6", "--level",
                          "baseline,compiled", "--profile-level", "baseline,compiled",
                          "--no-advice", "--out", "lab"});
  ASSERT_EQ(lab.code, 0) << lab.err;
  const json runs = json::parse(files::contents(folder_ / "lab/kernels.json"))["runs"];
  ASSERT_EQ(runs.size(), 2u);
  compare_timeline(folder_ / "lab/trace.json", runs[0]);
  compare_timeline(folder_ / "lab/trace-2.json", runs[1]);
  const json gpu = json::parse(files::contents(test_data("runs/h100/kernels.json")));
  compare_timeline(test_data("runs/h100/trace.json"), gpu["runs"][0]);
}

TEST_F(TraceToolsTest, HolisticTraceAnalysisFindsOurFigures) {
  if (python().empty()) GTEST_SKIP() << "pip could not fetch HolisticTraceAnalysis";
  for (const bool packed : {false, true}) {
    std::vector<std::string> command = {"lab",
                                        "--preset",
                                        "tiny",
                                        "--device",
                                        "cpu",
                                        "--steps",
                                        "8",
                                        "--profile-level",
                                        "baseline,compiled",
                                        "--level",
                                        "baseline,compiled",
                                        "--no-advice",
                                        "--out",
                                        "lab",
                                        "--force"};
    if (packed) command.push_back("--gzip");
    const Output lab = run(command);
    ASSERT_EQ(lab.code, 0) << lab.err;
    const json runs = json::parse(files::contents(folder_ / "lab" / "kernels.json"))["runs"];
    ASSERT_EQ(runs.size(), 2u);
    const std::string end = packed ? ".json.gz" : ".json";
    compare(figures(folder_ / "lab" / ("trace" + end)), runs[0]);
    compare(figures(folder_ / "lab" / ("trace-2" + end)), runs[1]);
  }
}

// The communication of two ranks on CPUs, of the folder with a trace of each.
TEST_F(TraceToolsTest, HolisticTraceAnalysisFindsTheCommunicationOfRanks) {
  if (python().empty()) GTEST_SKIP() << "pip could not fetch HolisticTraceAnalysis";
  if (!std::filesystem::exists("/usr/bin/mpirun")) GTEST_SKIP() << "mpirun is missing";
  const Output train = run({"train", "--preset", "tiny", "--device", "cpu", "--data-parallel", "2",
                            "--steps", "4", "--out", "run"});
  ASSERT_EQ(train.code, 0) << train.err;
  const json found = json::parse(output_of(fmt::format(
      "'{}' '{}' --ranks '{}' 2>/dev/null", python(),
      source_file("tests/apps/hta_figures.py").string(), (folder_ / "run/ranks").string())));
  EXPECT_EQ(found["ranks"], (json{0, 1}));
  for (const char* rank : {"0", "1"}) {
    // Nothing else runs meanwhile on a CPU.
    EXPECT_EQ(found["overlap_percent"][rank], 0);
    EXPECT_GT(found["communication_us"][rank], 0);
  }
}

// A recorded run, whose slices have the names of its kernels, some of them on a second stream.
TEST_F(TraceToolsTest, HolisticTraceAnalysisFindsOurFiguresOfAGpu) {
  if (python().empty()) GTEST_SKIP() << "pip could not fetch HolisticTraceAnalysis";
  const json kernels = json::parse(files::contents(test_data("runs/h100/kernels.json")));
  compare_times(figures(test_data("runs/h100/trace.json")), Timeline(kernels["runs"][0]));
}

}  // namespace
}  // namespace ridge::apps
