// SPDX-License-Identifier: Apache-2.0
// TensorBoard 2 reads the folders of --log-dir: its scalars are the numbers of metrics.jsonl.
// RIDGE_PEER_PYTHON is a Python that has it; otherwise pip fetches it, and without a network the
// test is skipped. Its plugin for PyTorch's profiler reads the trace of --format workshop.
#include <nlohmann/json.hpp>

#include "apps/program_run.h"
#include "peer_python.h"

namespace ridge::apps {
namespace {

using nlohmann::json;

using TensorBoardTest = ProgramTest;

constexpr const char* kReader = R"(
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
log = EventAccumulator(sys.argv[1])
log.Reload()
print(json.dumps({tag: [[e.step, e.value] for e in log.Scalars(tag)] for tag in log.Tags()['scalars']}))
)";

TEST_F(TensorBoardTest, ReadsTheNumbersOfTheLog) {
  const std::string python = python_with("tensorboard", "'tensorboard>=2,<3'", folder_.path());
  if (python.empty()) GTEST_SKIP() << "pip could not fetch tensorboard";
  const Output train =
      run({"train", "--preset", "tiny", "--device", "cpu", "--steps", "5", "--log-dir", "log"});
  ASSERT_EQ(train.code, 0) << train.err;
  files::write_plain(folder_ / "read.py", kReader);
  const std::string said =
      output_of(fmt::format("'{}' '{}' '{}' 2>'{}'", python, (folder_ / "read.py").string(),
                            (folder_ / "log").string(), (folder_ / "error.txt").string()));
  ASSERT_FALSE(said.empty()) << files::contents(folder_ / "error.txt");
  const json tags = json::parse(said);
  std::istringstream lines(files::contents(folder_ / "log/metrics.jsonl"));
  int64_t steps = 0;
  for (std::string line; std::getline(lines, line); ++steps) {
    const json each = json::parse(line);
    for (const auto& [tag, key, scale] :
         {std::tuple{"train/loss", "loss", 1.0},
          std::tuple{"train/learning_rate", "learning_rate", 1.0},
          std::tuple{"speed/step_ms", "step_ns", 1e-6},
          std::tuple{"speed/tokens_per_s", "tokens_per_s", 1.0},
          std::tuple{"speed/mfu", "mfu", 1.0},
          std::tuple{"memory/resident_bytes", "resident_bytes", 1.0}}) {
      const json& scalar = tags.at(tag).at(static_cast<size_t>(steps));
      EXPECT_EQ(scalar[0], each["step"]) << tag;
      const double expected = each[key].get<double>() * scale;
      // Events hold floats.
      EXPECT_NEAR(scalar[1].get<double>(), expected, 1e-6 * expected) << tag;
    }
  }
  EXPECT_EQ(steps, 5);
}

// Prints what the plugin shows: views, operators with host and device time, kernels, peak memory.
constexpr const char* kPluginReader = R"(
import json, sys
from torch_tb_profiler.profiler.data import RunProfileData
from torch_tb_profiler.profiler.run_generator import RunGenerator
data = RunProfileData.parse("ridge", "", sys.argv[1], None)
run = RunGenerator("ridge", "", data).generate_run_profile()
print(json.dumps({
    "views": [view.name for view in run.views],
    "operators": {row["name"]: [row["calls"], row["host_total_duration"], row.get("device_total_duration", 0)]
                  for row in run.operation_table_by_name["data"]},
    "kernels": {row[0]: row[-4] for row in run.kernel_table["data"]["rows"]},
    "peaks": list(run.memory_snapshot.get_peak_memory().values()),
    "steps": data.steps_names}))
)";

TEST_F(TensorBoardTest, PluginReadsTheTraceOfTheWorkshopsFiles) {
  const std::string python =
      python_with("torch_tb_profiler",
                  "'torch-tb-profiler==0.4.3' 'tensorboard>=2,<3' 'setuptools<80'", folder_.path());
  if (python.empty()) GTEST_SKIP() << "pip could not fetch torch-tb-profiler";
  const Output lab =
      run({"lab", "--preset", "tiny", "--device", "cpu", "--level", "baseline", "--steps", "4",
           "--warmup", "1", "--no-advice", "--format", "workshop", "--out", "files"});
  ASSERT_EQ(lab.code, 0) << lab.err;
  files::write_plain(folder_ / "read.py", kPluginReader);
  const std::string said =
      output_of(fmt::format("'{}' '{}' '{}' 2>'{}'", python, (folder_ / "read.py").string(),
                            (folder_ / "files/pytorch_profiling/ridge.pt.trace.json").string(),
                            (folder_ / "error.txt").string()));
  ASSERT_FALSE(said.empty()) << files::contents(folder_ / "error.txt");
  const json page = json::parse(said);
  for (const char* view : {"overall", "operator", "kernel", "trace", "memory"})
    EXPECT_TRUE(std::ranges::count(page.at("views"), view)) << view;
  EXPECT_EQ(page.at("steps").size(), 1u);
  const json& summary = json::parse(files::contents(folder_ / "files/performance_summary.json"));
  for (const json& row : summary.at("runs").at(0).at("operations").at("by_op")) {
    const std::string op = row.at("key");
    ASSERT_TRUE(page.at("operators").contains(op)) << op;
    EXPECT_EQ(page["operators"][op][0], row.at("calls")) << op;
    EXPECT_GT(page["operators"][op][1], 0) << op;
    EXPECT_TRUE(page.at("kernels").contains(op)) << op;
  }
  ASSERT_EQ(page.at("peaks").size(), 1u);
  EXPECT_EQ(page["peaks"][0], json::parse(files::contents(folder_ / "files/memory.json"))
                                  .at("runs")
                                  .at(0)
                                  .at("peak_at")
                                  .at("total_bytes"));
}

}  // namespace
}  // namespace ridge::apps
