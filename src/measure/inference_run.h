// SPDX-License-Identifier: Apache-2.0
// Measures prefill, decode, generation and the gain of the KV cache, and makes a record of each. It
// prints nothing. Prompts are random ids, because times do not depend on them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "backends/backend.h"
#include "measure/repeated_runs.h"
#include "models/model_file.h"
#include "record/inference_record.h"
#include "record/plan_record.h"
#include "serve/phase.h"

namespace ridge::measure {

struct InferenceExperiment : serve::PhaseSetup {
  Repeats repeats;
  // Called before each repeat and each token. True ends the measurement, which then has no record,
  // on all ranks at once.
  std::function<bool()> is_stopped = [] { return false; };
};

// Runs one session: prefills of `batch` prompts of `length` tokens, then decode steps whose tokens
// attend to `length` KV entries. The first run of each is a warm-up; then plain and instrumented
// runs alternate. `ceilings` may be null; then nothing is predicted.
std::optional<record::PhaseRecords> measure_phases(const models::ModelFile& file,
                                                   const InferenceExperiment& experiment,
                                                   backends::Backend& backend,
                                                   const cost::Ceilings* ceilings);

// Generates `tokens` tokens for each of `batch` prompts twice. The first generation builds the
// graphs. The second one, after one more prefill, is measured.
std::optional<record::LatencyRecord> measure_latency(const models::ModelFile& file,
                                                     const InferenceExperiment& experiment,
                                                     int64_t tokens,
                                                     backends::Backend& backend);

// Times one token after `length` others, with and without the KV cache, interleaved if two sessions
// fit into half of the free memory.
std::optional<record::CacheGainRecord> measure_cache_gain(const models::ModelFile& file,
                                                          const InferenceExperiment& experiment,
                                                          backends::Backend& backend);

// `count` ids below `vocabulary`, the same for the same seed.
std::vector<int32_t> random_ids(int64_t count, int64_t vocabulary, uint32_t seed);

}  // namespace ridge::measure
