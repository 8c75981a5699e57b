// SPDX-License-Identifier: Apache-2.0
// Traces in a tool for PyTorch's traces, HolisticTraceAnalysis 0.5.0: its figures are those of the
// run. RIDGE_PEER_PYTHON is a Python that has it; otherwise pip fetches it into a scratch folder,
// and without a network the test is skipped.
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

  static json figures(const std::filesystem::path& trace) {
    const std::string said =
        output_of(fmt::format("'{}' '{}' '{}' 2>/dev/null", python(),
                              source_file("tests/apps/hta_figures.py").string(), trace.string()));
    return said.empty() ? json() : json::parse(said);
  }
};

// What kernels.json says about the same step.
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

// A recorded run, whose slices have the names of its kernels, some of them on a second stream.
TEST_F(TraceToolsTest, HolisticTraceAnalysisFindsOurFiguresOfAGpu) {
  if (python().empty()) GTEST_SKIP() << "pip could not fetch HolisticTraceAnalysis";
  const json kernels = json::parse(files::contents(test_data("runs/h100/kernels.json")));
  compare_times(figures(test_data("runs/h100/trace.json")), Timeline(kernels["runs"][0]));
}

}  // namespace
}  // namespace ridge::apps
