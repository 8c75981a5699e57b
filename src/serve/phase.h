// SPDX-License-Identifier: Apache-2.0
// Prefill and decode of a batch by their description, which is planned or run, and their record and
// counts, which are the same in both cases. Nothing runs here.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "record/run_counts.h"
#include "record/run_record.h"
#include "serve/session.h"

namespace ridge::serve {

struct PhaseSetup {
  record::Setting setting;  // copied into the record; task, batch and length are filled in
  passes::Selection selection{"compiled", ""};
  int64_t batch = 1;
  int64_t length = 128;  // tokens in each prompt; KV entries that a decoded token attends to
  int64_t chunk = 512;
  std::optional<DType> cache_dtype;  // as in SessionOptions
  bool pages = false;                // likewise
};

// The options of a session that can run the phases.
SessionOptions session_options(const PhaseSetup& setup, int64_t capacity);

// The record of a phase ("prefill", "decode") before anything is counted.
record::RunRecord begin_phase(const PhaseSetup& setup,
                              const char* task,
                              const models::ModelConfig& config);
// Adds the counts of a phase's graphs to its record, and returns the graphs with their predictions.
// `ceilings` may be null; then nothing is predicted.
std::vector<record::PredictedGraph> count_phase(std::span<const cost::ProgramGraph> graphs,
                                                const cost::Ceilings* ceilings,
                                                record::RunRecord& record);

}  // namespace ridge::serve
