// SPDX-License-Identifier: Apache-2.0
// TensorBoard 2 reads the folders of --log-dir: its scalars are the numbers of metrics.jsonl.
// RIDGE_PEER_PYTHON is a Python that has it; otherwise pip fetches it, and without a network the
// test is skipped.
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

}  // namespace
}  // namespace ridge::apps
