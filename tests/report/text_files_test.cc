// SPDX-License-Identifier: Apache-2.0
// Tables, CSV and Markdown of a run: foreign bytes are harmless, and numbers match the record.
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "record/operation_table.h"
#include "report/brief_report.h"
#include "report/lab_fixture.h"
#include "report/markdown_report.h"
#include "report/operators_csv.h"
#include "report/tables.h"

namespace ridge::report {
namespace {

// A reader of RFC 4180, independent of the writer; returns records of fields.
std::vector<std::vector<std::string>> read_csv(const std::string& text) {
  std::vector<std::vector<std::string>> records(1, std::vector<std::string>(1));
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    std::string& field = records.back().back();
    if (quoted && c == '"' && i + 1 < text.size() && text[i + 1] == '"')
      field += text[++i];
    else if (c == '"')
      quoted = !quoted;
    else if (quoted)
      field += c;
    else if (c == ',')
      records.back().emplace_back();
    else if (c == '\r' && text[i + 1] == '\n')
      records.emplace_back(1), ++i;
    else
      field += c;
  }
  EXPECT_FALSE(quoted);
  EXPECT_EQ(records.back().size(), 1u);  // the text ends in a line break
  records.pop_back();
  return records;
}

TEST(OperatorsCsv, QuotesWhatNeedsQuotes) {
  EXPECT_EQ(csv_field("plain text"), "plain text");
  EXPECT_EQ(csv_field("a,b"), "\"a,b\"");
  EXPECT_EQ(csv_field("say \"x\""), "\"say \"\"x\"\"\"");
  EXPECT_EQ(csv_field("two\nlines"), "\"two\nlines\"");
  EXPECT_EQ(csv_field(""), "");
}

TEST(OperatorsCsv, EachLineHasEachColumnAndTimesAddUp) {
  record::LabRecord lab = lab_record();
  auto records = read_csv(operators_csv(lab));
  ASSERT_EQ(records.size(), 1u + 4u);  // the two GEMMs of the layers fold into one row
  size_t time = static_cast<size_t>(std::find(records[0].begin(), records[0].end(), "time_ns") -
                                    records[0].begin());
  int64_t sum = 0;
  for (size_t i = 1; i < records.size(); ++i) {
    ASSERT_EQ(records[i].size(), records[0].size()) << i;
    EXPECT_EQ(records[i][0], kHostile);
    sum += std::stoll(records[i][time]);
  }
  EXPECT_EQ(sum, lab.runs[1].step.kernel_ns);
}

TEST(MarkdownReport, HoldsTheSectionsAndTheNumbers) {
  std::string text = markdown_report(lab_record());
  for (const char* part :
       {"# Ridge lab report", "## The ladder", "| baseline | compiled |", "2.00x", "7.0185", "PaLM",
        "## Operations", "### Roofline", "### Memory", "### Passes", "## Advice", "+25.0%"})
    EXPECT_NE(text.find(part), std::string::npos) << part;
}

TEST(MarkdownReport, HostileNamesStartNoMarkup) {
  std::string text = markdown_report(lab_record());
  // In the fenced roofline, everything is plain text.
  size_t fence = text.find("```"), end = text.find("```", fence + 3);
  ASSERT_NE(end, std::string::npos);
  text.erase(fence, end - fence);
  // The command is in a code span, fenced by more backticks than it contains. There is no markup
  // anywhere else.
  size_t command = text.find("<b>");
  EXPECT_LT(command, text.find("- machine:"));
  EXPECT_EQ(text.find("<b>", command + 1), std::string::npos);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find('\xff'), std::string::npos);
  // Every row of a table has as many bars as its header, so none came from a name.
  std::istringstream lines(text);
  size_t bars = 0;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("|")) {
      bars = 0;
      continue;
    }
    size_t count = 0;
    for (size_t i = 0; i < line.size(); ++i)
      count += line[i] == '|' && (i == 0 || line[i - 1] != '\\');
    EXPECT_TRUE(bars == 0 || count == bars) << line;
    bars = count;
  }
}

TEST(ConsoleReport, IsPlainTextWithoutColour) {
  record::LabRecord lab = lab_record();
  TerminalOptions plain;
  std::string text = heading_text(lab, plain) + ladder_text(lab, plain) +
                     operations_text(lab, lab.runs[1], plain) + advice_text(lab, plain);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  for (const char* part : {"speed-up", "2.00x", "by op", "by scope", "by phase", "layer.*",
                           "roofline", "Advice", "idle", "host", "profiling overhead"})
    EXPECT_NE(text.find(part), std::string::npos) << part;
}

TEST(ConsoleReport, ADisagreeingLossIsLoud) {
  record::LabRecord lab = lab_record();
  EXPECT_NE(ladder_text(lab, {}).find("yes (1e-06)"), std::string::npos);
  lab.runs[1].losses[0] += 0.01;
  EXPECT_NE(ladder_text(lab, {}).find("NO (1.0e-02)"), std::string::npos);
}

// Each node of the fixture's plan is planned once and ran twice.
TEST(LadderText, SaysWhichOpsRanMoreKernelsThanThePlanCounts) {
  record::LabRecord lab = lab_record();
  const std::string note = "compiled: 10 kernels ran for 5 planned calls: ";
  EXPECT_NE(ladder_text(lab, {}).find(note), std::string::npos);
  EXPECT_NE(ladder_text(lab, {}).find("matmul 4 for 2"), std::string::npos);
  EXPECT_NE(markdown_report(lab).find(note), std::string::npos);
  for (record::NodeRecord& node : lab.runs[1].step.nodes) node.calls = 2;
  EXPECT_EQ(ladder_text(lab, {}).find("compiled: "), std::string::npos);
}

TEST(Roofline, HasABarPerOpAndSharesOver100AWarning) {
  record::LabRecord lab = lab_record();
  std::string text = roofline(lab, lab.runs[1], {});
  const size_t matmul = text.find("\nmatmul "), adamw = text.find("\nadamw ");
  ASSERT_NE(matmul, std::string::npos) << text;
  // The op with the longest time is first, as in the table of ops.
  const auto rows = record::table_by_op(lab.runs[1].step, nullptr).rows;
  const auto row = [&](const char* op) {
    return std::ranges::find(rows, op, &record::OperationRow::key);
  };
  EXPECT_EQ(adamw < matmul, row("adamw") < row("matmul")) << text;
  EXPECT_EQ(text.find("warning"), std::string::npos);
  EXPECT_EQ(text.find("vector"), std::string::npos);
  EXPECT_NE(text.find("roofs: memory 20.0 GB/s, L2 150 GB/s, f32 GEMM 100 GFLOP/s\n"),
            std::string::npos)
      << text;
  lab.ceilings->levels.back().copy_bytes_per_ns = 0.01;
  text = roofline(lab, lab.runs[1], {});
  EXPECT_NE(text.find("warning: over 100%"), std::string::npos);
  lab.ceilings.reset();
  EXPECT_NE(roofline(lab, lab.runs[1], {}).find("No roofline"), std::string::npos);
}

// An op without MACs is bounded by the vector rate, one with MACs by the GEMM peak.
TEST(Roofline, EachPointHasItsOwnRoof) {
  record::LabRecord lab = lab_record();
  lab.ceilings->fused_flops_per_ns = 15;
  lab.ceilings->levels.back().copy_bytes_per_ns = 20;
  for (record::NodeRecord& node : lab.runs[1].step.nodes)
    if (node.op == "adamw") node.work = {0, 9600, 0};  // 25 FLOPs per byte, 13.7 per ns
  const std::string text = roofline(lab, lab.runs[1], {});
  auto line = [&](const std::string& op) {
    const size_t at = text.find("\n" + op + " ") + 1;
    return text.substr(at, text.find('\n', at) - at);
  };
  EXPECT_TRUE(line("adamw").ends_with("vector     91% ██████████████▋")) << text;
  EXPECT_TRUE(line("matmul").ends_with("f32 GEMM    5% ▉")) << text;
  EXPECT_NE(text.find("vector 15.0 GFLOP/s"), std::string::npos) << text;
  lab.ceilings->levels.back().copy_bytes_per_ns = 0.5;
  EXPECT_NE(roofline(lab, lab.runs[1], {}).find("  memory  "), std::string::npos);
}

}  // namespace
}  // namespace ridge::report
