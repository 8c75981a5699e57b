// SPDX-License-Identifier: Apache-2.0
// Sections and files of an inference study.
#include "report/inference_report.h"

#include <fmt/format.h>

#include <set>

#include "base/units.h"
#include "cost/predict.h"
#include "report/brief_report.h"
#include "report/json_text.h"
#include "report/markdown_report.h"
#include "report/rate_shares.h"
#include "report/report_page.h"
#include "report/tables.h"

namespace ridge::report {
namespace {

std::string reach_text(const record::InferenceRecord& study) {
  std::string text =
      "Causal attention of one head in fp32. Temporaries are the planned arena; a skipped cell "
      "says why.";
  for (const record::AttentionReach& reach : study.reaches)
    text += fmt::format(" At head size {} standard attention fills {} at a length of {}.",
                        reach.head_size, format_bytes(reach.memory_bytes),
                        format_integer(reach.sequence));
  return text;
}

// " MBU over 100%: the weights lie ...", or empty.
std::string mbu_reasons(const record::LabRecord& lab) {
  std::set<std::string> reasons;
  for (const record::RunRecord& run : lab.runs) reasons.insert(mbu_reason(lab, run));
  reasons.erase("");
  return reasons.empty() ? "" : fmt::format(" MBU over 100%: {}.", fmt::join(reasons, "; "));
}

// " The KV cache is in i8.", or empty if it has the type of activations.
std::string cache_note(const record::LabRecord& lab) {
  for (const record::RunRecord& run : lab.runs)
    if (!run.setting.cache_dtype.empty())
      return fmt::format(" The KV cache is in {}.", run.setting.cache_dtype);
  return "";
}

std::vector<record::PhaseShares> all_shares(const record::InferenceRecord& study) {
  std::vector<record::PhaseShares> all;
  for (const record::RunRecord& run : study.lab.runs)
    all.push_back({run.setting.task == "decode", rate_shares(run, *study.lab.ceilings)});
  return all;
}

std::string notes(const record::InferenceRecord& study) {
  std::string text;
  for (const std::string& each : study.left_out) text += "\n- skipped: " + plain(each);
  return text.empty() ? text : text + "\n";
}

}  // namespace

std::vector<StudySection> study_sections(const record::InferenceRecord& study) {
  std::vector<StudySection> sections;
  auto add = [&](std::string title, std::string note, Table table) {
    if (table.rows() > 0) sections.push_back({std::move(title), std::move(note), std::move(table)});
  };
  const std::string_view left_out =
      study.lab.ceilings ? cost::left_out_of_inference(*study.lab.ceilings) : "";
  add("Prefill and decode",
      fmt::format("TTFT is the time of a prefill. TPOT is the time of a decode step that attends "
                  "to `length` KV entries. MFU: {}. MBU: {}.{} "
                  "Predictions are those of `ridge plan`.{}",
                  mfu_convention(study.lab), mbu_convention(study.lab), mbu_reasons(study.lab),
                  left_out.empty() ? "" : " " + std::string(left_out)),
      phase_table(study));
  if (study.lab.ceilings)
    add("Shares of the machine's rates",
        fmt::format("Prefill: {}. Decode: {}. {}", record::kMultiplyShareConvention,
                    record::kReadShareConvention,
                    shares_note(all_shares(study), *study.lab.ceilings)),
        rate_shares_table(study));
  add("Resources",
      "Weights and KV cache are the bytes that a run must read." + cache_note(study.lab),
      resource_table(study));
  add("Attention module and MLP under the roofline",
      "All layers together, projections included. FLOP/B counts compulsory bytes: inputs, outputs, "
      "weights and attended KV entries, each once. The roof is the bandwidth of memory or the "
      "GEMM peak of the type that most GEMMs use." +
          (is_over_roof(study) ? fmt::format(" A share {}.", kOverRoof) : std::string()),
      module_table(study));
  add("The KV cache", "The time of one more token at batch 1, with and without the cache.",
      cache_gain_table(study));
  add("Latency",
      "The wall time of the second generation of a session, compared with TTFT + TPOT x (n - 1). "
      "The first generation also builds the graphs.",
      latency_table(study));
  add("Standard against flash attention", reach_text(study), attention_table(study));
  return sections;
}

std::string section_text(const StudySection& section, const TerminalOptions& options) {
  return "\n" + paint(section.title, Colour::kBold, options) + "\n\n" +
         section.table.text(options) + "\n" + wrap_lines(section.note, options.columns);
}

std::string study_text(const record::InferenceRecord& study,
                       bool verbose,
                       const TerminalOptions& options) {
  const record::RunRecord& last = study.lab.runs[study.lab.detailed.back()];
  if (!verbose)
    return brief_heading(study.lab, options) + brief_study(study, options) +
           brief_operations(study.lab, last, options);
  std::string text =
      heading_text(study.lab, options) +
      fmt::format("file      {}, {} of tensors\n", study.file, format_bytes(study.file_bytes));
  for (const StudySection& section : study_sections(study)) text += section_text(section, options);
  text += operations_text(study.lab, last, options);
  for (const std::string& each : study.left_out)
    text += wrap_lines("skipped: " + terminal_safe(each, kLongestMessage), options.columns);
  return text;
}

std::string inference_summary(const record::InferenceRecord& study) {
  Json json = heading(study.lab);
  json["version"] = 1;
  json["file"] = {
      {"format", study.file}, {"tensor_bytes", study.file_bytes}, {"open_ns", study.open_ns}};
  json["mfu_convention"] = record::kMfuConvention;
  json["mbu_convention"] = record::kMbuConvention;
  json["multiply_share_convention"] = record::kMultiplyShareConvention;
  json["read_share_convention"] = record::kReadShareConvention;
  json["runs"] = "performance_summary.json";
  json["kv_cache"] = value_json(study.gains);
  json["latency"] = value_json(study.latencies);
  json["attention"] = value_json(study.attention);
  json["standard_attention_fits"] = value_json(study.reaches);
  json["left_out"] = study.left_out;
  return json_text(json);
}

std::vector<OutputFile> study_files(record::InferenceRecord& study, const OutputFormat& format) {
  std::vector<OutputFile> files = record_files(study.lab, format);
  files.push_back({"infer_summary.json", inference_summary(study)});
  std::string report = heading_section(study.lab, "Ridge inference report") + notes(study);
  for (const StudySection& section : study_sections(study))
    report += fmt::format("\n## {}\n\n{}\n\n{}", plain(section.title), table_text(section.table),
                          plain(section.note) + "\n");
  for (size_t index : study.lab.detailed)
    report += operations_section(study.lab, study.lab.runs[index]);
  files.push_back({"report.md", std::move(report)});
  files.push_back(page_file(files));
  return files;
}

}  // namespace ridge::report
