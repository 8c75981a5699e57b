// SPDX-License-Identifier: Apache-2.0
// Describes a prefill or decode phase of a batch, and makes its record and its counts, which are
// the same whether the phase is planned or run. Nothing runs here.
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
  bool pages = false;                // as in SessionOptions
  int64_t rank = 0;                  // as in SessionOptions
};

// The options of a session that can run the phases.
SessionOptions session_options(const PhaseSetup& setup, int64_t capacity);

// Begins the record of a phase ("prefill", "decode"), without counts.
record::RunRecord begin_phase(const PhaseSetup& setup,
                              const char* task,
                              const models::ModelConfig& config);
// Adds the counts of a phase's graphs to its record, and returns the graphs with their predictions.
// Without ceilings (null) it predicts nothing.
std::vector<record::PredictedGraph> count_phase(std::span<const cost::ProgramGraph> graphs,
                                                const cost::Ceilings* ceilings,
                                                record::RunRecord& record);

}  // namespace ridge::serve
