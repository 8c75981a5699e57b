// SPDX-License-Identifier: Apache-2.0
// The cells of the ladder and of the sweep, from a record with round numbers.
#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "report/lab_fixture.h"
#include "report/tables.h"

namespace ridge::report {
namespace {

std::vector<std::vector<std::string>> cells(const Table& table) {
  std::istringstream lines(table.markdown());
  std::vector<std::vector<std::string>> rows;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream parts(line.substr(2, line.size() - 4));
    std::vector<std::string>& row = rows.emplace_back();
    for (std::string cell; std::getline(parts, cell, '|');) {
      const size_t begin = cell.find_first_not_of(' '), end = cell.find_last_not_of(' ');
      row.push_back(begin == std::string::npos ? "" : cell.substr(begin, end + 1 - begin));
    }
  }
  rows.erase(rows.begin() + 1);  // the rule of Markdown
  return rows;
}

// A step of 10 ms with 9 ms of kernels, of which 1 ms moves data and 1 ms overlaps.
record::LabRecord lab_of_round_numbers() {
  record::LabRecord lab = lab_record();
  lab.ceilings->measured_at = "2026-01-02T03:04:05Z";
  record::RunRecord& run = lab.runs[1];
  run.plain_wall_ns.assign(8, 8e6);
  run.paired_wall_ns.assign(4, 8e6);
  run.predicted_ns = 6e6;
  run.model.forward = {80'000'000, 0, 0};
  run.model.backward = {160'000'000, 0, 0};
  run.planned_bytes = 3 << 20;
  run.launches = 1234;
  run.clock_ns = 80'000;
  run.launch_rate_samples = {0.5};
  run.memory.owned_bytes = 4 << 20;
  run.memory.arena_bytes = 1 << 20;
  run.memory.foreign_bytes = 2 << 20;
  run.memory.after = {0, 5 << 20};
  record::StepRecord& step = run.step;
  const int64_t exclusive_ns[] = {1'000'000, 1'500'000, 1'500'000, 1'000'000, 3'000'000};
  for (size_t i = 0; i < step.nodes.size(); ++i) step.nodes[i].exclusive_ns = exclusive_ns[i];
  step.nodes[0].work = {};
  step.wall_ns = 10'000'000;
  step.kernel_ns = 9'000'000;
  step.overlapped_ns = 1'000'000;
  step.idle_ns = 1'500'000;
  step.idle_before_first_ns = 500'000;
  step.host_ns = 500'000;
  step.wall_samples_ns.assign(4, 10e6);
  auto phase = [](double ns) { return summarize(std::vector<double>(8, ns)); };
  step.forward = phase(2e6);
  step.backward = phase(3e6);
  step.optimizer = phase(4e6);
  return lab;
}

TEST(LadderTable, HoldsTheNumbersOfTheRun) {
  const record::LabRecord lab = lab_of_round_numbers();
  std::map<std::string, std::string> found;
  for (const std::vector<std::string>& row : cells(ladder_table(lab, record::ladders(lab)[0]))) {
    ASSERT_EQ(row.size(), 3u);
    EXPECT_TRUE(found.emplace(row[0], row[2]).second) << row[0];
  }
  const std::map<std::string, std::string> expected = {
      {"", "compiled"},
      {"step, median", "8.00 ms"},
      {"95% interval", "8.00 ms - 8.00 ms"},
      {"forward", "2.00 ms"},
      {"backward", "3.00 ms"},
      {"optimizer", "4.00 ms"},
      {"overlap", "-1.00 ms"},
      {"step, predicted", "6.00 ms (-25.0%)"},
      {"speed-up", "0.25x"},
      {"samples/s", "1.00 k"},
      {"tokens/s", "128 k"},
      {"kernel calls per step", "1,234"},
      {"kernels profiled", "10"},
      {"launch rate", "50.0%"},
      {"model FLOP/s", "60.0 GFLOP/s"},
      {"MFU (PaLM)", "60.0%"},
      {"bytes moved per step", "3.00 MiB"},
      {"peak memory, owned", "4.00 MiB"},
      {"predicted resident", "6.00 MiB"},
      {"measured resident", "5.00 MiB"},
      {"loss, first", "7.0185"},
      {"loss, last", "6.9500"},
      {"loss, mean", "6.9888"},
      {"losses agree", "yes (1e-06)"},
      {"busy", "80.0%"},
      {"computing", "70.0%"},
      {"moving data", "10.0%"},
      {"idle before the first kernel", "5.0%"},
      {"gaps", "10.0%"},
      {"host", "5.0%"},
      {"profiling overhead, counted", "1.000%"},
      {"measured", "+25.0% (+25.0% - +25.0%)"},
      {"whole run", "+8.3%"},  // 4 of 12 steps
  };
  EXPECT_EQ(found, expected);
}

TEST(LadderTable, DashesStandForWhatIsNotKnown) {
  record::LabRecord lab = lab_of_round_numbers();
  lab.ceilings.reset();
  lab.runs[1].clock_ns = 0;
  lab.runs[1].predicted_ns = 0;
  lab.runs[1].launch_rate_samples.clear();
  lab.runs[0].launch_rate_samples = {1};
  record::StepRecord& step = lab.runs[1].step;
  step.wall_samples_ns.clear();
  step.wall_ns = 0;
  step.forward = {};
  int dashes = 0;
  for (const std::vector<std::string>& row : cells(ladder_table(lab, record::ladders(lab)[0])))
    dashes += row[2] == "-" ? 1 : 0;
  // Forward, predicted, launch rate, MFU, six shares of the step and three overheads.
  EXPECT_EQ(dashes, 13);
}

TEST(LadderTable, AnIntervalOfFewSamplesSaysItsCoverage) {
  auto cell = [](size_t samples) {
    return interval_cell(summarize(std::vector<double>(samples, 8e6)));
  };
  EXPECT_EQ(cell(0), "-");
  EXPECT_EQ(cell(1), "-");
  EXPECT_EQ(cell(2), "8.00 ms - 8.00 ms (50%)");
  EXPECT_EQ(cell(5), "8.00 ms - 8.00 ms (94%)");
  EXPECT_EQ(cell(6), "8.00 ms - 8.00 ms");
  EXPECT_EQ(prediction_cell(0, 8e6), "-");
  EXPECT_EQ(prediction_cell(6e6, 0), "6.00 ms");
}

TEST(SweepTable, HoldsTheNumbersOfEachRun) {
  const record::LabRecord lab = lab_of_round_numbers();
  const auto rows = cells(sweep_table(lab));
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0], (std::vector<std::string>{"batch", "length", "level", "step", "95% interval",
                                               "predicted", "samples/s", "tokens/s", "speed-up",
                                               "owned memory", "MFU", "mean loss"}));
  EXPECT_EQ(rows[2], (std::vector<std::string>{"8", "128", "compiled", "8.00 ms",
                                               "8.00 ms - 8.00 ms", "6.00 ms (-25.0%)", "1.00 k",
                                               "128 k", "0.25x", "4.00 MiB", "60.0%", "6.9888"}));
}

}  // namespace
}  // namespace ridge::report
