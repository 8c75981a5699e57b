// SPDX-License-Identifier: Apache-2.0
// Every table and section of a lab and of an inference study fits the terminal, names the columns
// that it leaves out, and separates what is not compared.
#include <gtest/gtest.h>

#include <sstream>

#include "report/brief_report.h"
#include "report/inference_report.h"
#include "report/lab_fixture.h"
#include "report/tables.h"

namespace ridge::report {
namespace {

record::LabRecord wide_lab() {
  record::LabRecord lab = lab_record();
  lab.runs.clear();
  for (int64_t batch : {8, 64})
    for (const char* level : {"baseline", "fused", "kernels", "compiled"}) {
      record::RunRecord run = run_record(level, 1.2345e6);
      run.setting.batch_size = batch;
      run.plain_wall_ns = {1.2345e6, 1.3456e6, 1.4567e6, 1.5678e6};
      run.step.overlapped_ns = run.step.kernel_ns / 2;  // shows the exclusive times
      lab.runs.push_back(std::move(run));
    }
  lab.detailed = {3};
  lab.trials = {{lab.advice[0], lab.runs[2], lab.runs[3]}};
  return lab;
}

record::InferenceRecord study() {
  const Summary time = summarize(std::vector<double>{1.2345e6, 1.3456e6, 1.4567e6});
  record::InferenceRecord study;
  study.lab = wide_lab();
  for (record::RunRecord& run : study.lab.runs) {
    run.setting.task = "prefill";
    run.modules = {{"attention", {1234567, 2469134, 0}, 123456, 12345, 4, 345678, 234567}};
    run.logits = {1, 2};
    run.amounts = {{{DType::kF32, 1'234'567}}, {{DType::kQ4_0x16, 123'456}}};
  }
  study.gains = {{128, time, time, 123456, 1e-6}};
  study.latencies = {{32, 64, 32, 1.2e6, 3.4e6, 5.6e6, time, 7.8e8}};
  const record::AttentionForm form{12, 123456789, 12345678, 1234567, 1e6, "", time, 12345678};
  study.attention = {{1, 64, 32768, form, form}};
  return study;
}

void expect_fits(const std::string& text, int columns) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    EXPECT_LE(display_width(line), columns) << line;
}

std::vector<Table> all_tables() {
  const record::LabRecord lab = wide_lab();
  const record::RunRecord& run = lab.runs[3];
  std::vector<Table> tables = {ladder_table(lab, record::ladders(lab).front()), sweep_table(lab),
                               pass_table(run.passes), memory_table(run.memory),
                               trial_table(lab.trials[0])};
  for (const record::OperationTable& table :
       {table_by_op(run.step, lab.limits()), table_by_scope(run.step, lab.limits()),
        table_by_phase(run.step, lab.limits())})
    tables.push_back(operation_table(table, run.step));
  for (StudySection& section : study_sections(study())) tables.push_back(std::move(section.table));
  return tables;
}

// The headers of a table, from its Markdown, which has all columns.
std::vector<std::string> headers(const Table& table) {
  std::istringstream cells(table.markdown().substr(2, table.markdown().find("\n") - 4));
  std::vector<std::string> headers;
  for (std::string cell; std::getline(cells, cell, '|');) {
    cell.erase(0, cell.find_first_not_of(' '));
    headers.push_back(cell.substr(0, cell.find_last_not_of(' ') + 1));
  }
  return headers;
}

TEST(Width, TablesFitAndNameTheColumnsLeftOut) {
  const std::vector<Table> tables = all_tables();
  EXPECT_EQ(tables.size(), 15u);
  for (int columns : {80, 100, 200}) {
    size_t narrowed = 0;
    for (const Table& table : tables) {
      const std::string text = table.text({.columns = columns, .fit = true});
      expect_fits(text, columns);
      const size_t note = text.find("not shown at this width: ");
      narrowed += note != std::string::npos;
      std::string shown = text.substr(0, text.find('\n'));
      if (note != std::string::npos) shown += text.substr(note);
      std::replace(shown.begin(), shown.end(), '\n', ' ');
      for (const std::string& header : headers(table))
        EXPECT_NE(shown.find(header), std::string::npos) << header << " at " << columns << "\n"
                                                         << text;
    }
    EXPECT_TRUE(columns > 100 ? narrowed == 0 : narrowed > 3) << narrowed << " at " << columns;
  }
}

// Only the op, its roof and its share of it stay in 54 columns.
TEST(Width, ARooflineFits) {
  record::LabRecord lab = lab_record();
  for (record::NodeRecord& node : lab.runs[1].step.nodes)
    node.op = node.op == "matmul" ? "matmul_of_layer_zero" : "other";
  for (int columns : {54, 60, 70, 80}) {
    const std::string text = roofline(lab, lab.runs[1], {.columns = columns, .fit = true});
    expect_fits(text, columns);
    EXPECT_EQ(text.find("FLOP/B  ") == std::string::npos, columns < 70) << text;
    for (const char* part : {"matmul_of_layer_zero", "share of roof", "f32 GEMM"})
      EXPECT_NE(text.find(part), std::string::npos) << part << " at " << columns;
  }
}

// The lines between the rows of a table, as numbers of rows above them.
std::vector<int> rules(const Table& table) {
  std::istringstream lines(table.text());
  std::vector<int> rules;
  int row = -1;  // the header
  for (std::string line; std::getline(lines, line);)
    if (line.find_first_not_of("\u2500") == std::string::npos)
      rules.push_back(row);
    else
      ++row;
  EXPECT_EQ(rules.front(), 0);
  rules.erase(rules.begin());
  return rules;
}

// Eight runs are two ladders of four levels each.
TEST(Rules, SeparateWhatIsNotCompared) {
  record::InferenceRecord both = study();
  EXPECT_EQ(rules(sweep_table(both.lab)), std::vector<int>{4});
  EXPECT_EQ(rules(phase_table(both)), std::vector<int>{4});
  EXPECT_EQ(rules(resource_table(both)), std::vector<int>{4});
  EXPECT_EQ(rules(rate_shares_table(both)), std::vector<int>{4});
  both.lab.runs[1].modules.push_back(both.lab.runs[1].modules[0]);
  EXPECT_EQ(rules(module_table(both)), std::vector<int>{5});
  const record::AttentionRecord one = both.attention[0];
  both.attention = {one, one, one, one, one};
  both.attention[2].head_size = both.attention[3].head_size = 128;
  EXPECT_EQ(rules(attention_table(both)), (std::vector<int>{2, 4}));
}

// Whatever has a share over 100% has its reason below, and nothing else has one.
TEST(Sections, ExplainSharesOverOne) {
  record::InferenceRecord fast = study(), slow = study();
  for (record::RunRecord& run : fast.lab.runs) {
    run.weight_bytes = 1000;
    run.plain_wall_ns = {20};  // twice the 25 bytes/ns of memory, and within L2
    run.modules[0].time_ns = 1;
  }
  for (const auto& [each, is_over] : {std::pair(&fast, true), std::pair(&slow, false)}) {
    std::string notes, tables;
    for (const StudySection& section : study_sections(*each)) {
      notes += section.note;
      tables += section.table.markdown();
    }
    EXPECT_EQ(tables.find(" 200.0% ") != std::string::npos, is_over) << tables;
    EXPECT_EQ(notes.find("MBU over 100%: the weights lie in the last-level cache (1.00 MiB).") !=
                  std::string::npos,
              is_over)
        << notes;
    EXPECT_EQ(notes.find(std::string(" A share ") + kOverRoof) != std::string::npos, is_over);
  }
}

TEST(Width, SectionsFit) {
  const record::LabRecord lab = wide_lab();
  for (int columns : {80, 100, 160}) {
    const TerminalOptions options{.colour = true, .columns = columns, .fit = true};
    expect_fits(heading_text(lab, options), columns);
    expect_fits(ladder_text(lab, options), columns);
    expect_fits(operations_text(lab, lab.runs[3], options), columns);
    expect_fits(advice_text(lab, options), columns);
    expect_fits(trials_text(lab, options), columns);
    for (const StudySection& section : study_sections(study()))
      expect_fits(section_text(section, options), columns);
    expect_fits(brief_heading(lab, options), columns);
    expect_fits(brief_ladder(lab, options), columns);
    expect_fits(brief_operations(lab, lab.runs[3], options), columns);
    expect_fits(brief_advice(lab, options), columns);
    expect_fits(brief_study(study(), options), columns);
  }
}

}  // namespace
}  // namespace ridge::report
