// SPDX-License-Identifier: Apache-2.0
// Texts for the terminal, and JSON, of single commands. Plans, benches and labs have headers of
// their own.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cost/ceilings.h"
#include "record/answer.h"
#include "record/data_set.h"
#include "record/load_summary.h"
#include "record/model_contents.h"
#include "record/run_change.h"
#include "record/run_record.h"
#include "record/summary_file.h"
#include "record/topology.h"
#include "record/tuned_choices.h"
#include "report/json_text.h"
#include "report/terminal.h"

namespace ridge::report {

// A server under load.
std::string load_text(const record::LoadSummary& load, const TerminalOptions& terminal);
Json load_json(const record::LoadSummary& load);

// The choices that were made by timing.
std::string tuned_text(std::span<const record::TunedChoices> all, const TerminalOptions& terminal);

// The perplexity of a text, and how far a second run is from it.
std::string score_text(const record::TextScore& score,
                       const std::optional<record::TextScore>& compared,
                       const TerminalOptions& terminal);
Json score_json(const record::TextScore& score, const std::optional<record::TextScore>& compared);

// Each of the largest logits as [id, logit] or [id, logit, text].
Json logits_json(const record::TopLogits& logits);

// The set that was written, or the contents without the text of the beginning. Both texts end in a
// newline.
std::string data_set_text(const record::DataSetSummary& summary);
std::string data_set_text(const record::DataSetContents& contents, const TerminalOptions& options);
Json data_set_json(const record::DataSetContents& contents);

// `wanted` is the number of tokens that was asked for.
std::string trained_text(const record::TrainedTokenizer& made,
                         int64_t wanted,
                         const TerminalOptions& options);

// The contents of a model file.
std::string contents_text(const record::ModelContents& contents, const TerminalOptions& terminal);
Json contents_json(const record::ModelContents& contents);

// A machine's sockets, cores, caches and GPUs in a line without a newline.
std::string topology_line(const record::Topology& topology);
// A line for each performance warning for kernels on so many threads.
std::string performance_warning_lines(const record::Topology& topology, int threads);
// Both with the tables of caches, nodes and GPUs.
std::string topology_text(const record::Topology& topology,
                          int threads,
                          const TerminalOptions& options);
std::string topology_json(const record::Topology& topology, int threads);

// One of a machine's records of ceilings. A GPU has a second record with its fp32 GEMMs in TF32,
// which otherwise repeats the first.
struct MeasuredCeilings {
  cost::Ceilings ceilings;
  bool tf32 = false;
  bool is_second = false;
};

// Memory, GEMMs and the other rates; with `verbose` by type, size and number of tokens.
std::string ceilings_text(std::span<const MeasuredCeilings> records,
                          bool verbose,
                          const TerminalOptions& terminal);

// "3.2 h" since an ISO 8601 time.
std::string age_text(const std::string& measured_at);

inline std::string device_name(const record::SummaryFile& summary) {
  return summary.device.empty() ? "an unknown machine" : terminal_safe(summary.device);
}

// The results in a summary file (performance_summary.json), as ridge explain DIR prints them: the
// runs, the operations of those reported in detail, the advice and the warnings; without `verbose`
// only what fits a screen.
std::string summary_text(const record::SummaryFile& summary,
                         bool verbose,
                         const TerminalOptions& terminal);
// The same with the keys of performance_summary.json.
Json summary_json(const record::SummaryFile& summary);

// A table of the cost of a step after each pass, and a paragraph on the whole step, which names the
// ceilings' `source`. Without `verbose`, the last row counts the passes that change no cost.
std::string pass_costs_text(std::span<const record::PassCost> costs,
                            const std::string& source,
                            bool verbose,
                            const TerminalOptions& terminal);
Json pass_costs_json(std::span<const record::PassCost> costs);

struct DiffSide {
  std::string path;
  record::SummaryFile file;
};

// The differences between two output folders: one screen, or with `is_verbose` all operations of
// all pairs of runs, of which there is at least one.
std::string diff_text(const DiffSide& a,
                      const DiffSide& b,
                      const std::vector<record::RunChange>& runs,
                      const TerminalOptions& options,
                      bool is_verbose);
Json diff_json(const std::vector<record::RunChange>& runs);

}  // namespace ridge::report
