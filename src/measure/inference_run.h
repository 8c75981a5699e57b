// SPDX-License-Identifier: Apache-2.0
// Measured inference: prefills, decodes, generations and the cache's gain, each a record. It prints
// nothing; its prompts are random ids, for times do not depend on them.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/backend.h"
#include "models/model_file.h"
#include "record/inference_record.h"
#include "serve/session.h"

namespace ridge::measure {

// How often something is measured: until the time is spent, but within these bounds.
struct Repeats {
  int64_t least = 4;
  int64_t most = 40;
  double budget_ns = 1e9;
};

struct InferenceExperiment {
  record::Setting setting;  // what the record will say; task, batch and length are filled in
  passes::Selection selection{"compiled", ""};
  int64_t batch = 1;
  int64_t length = 128;  // tokens of each prompt; a decode's context
  int64_t chunk = 512;
  Repeats repeats;
};

// What a session needs for it.
serve::SessionOptions session_options(const InferenceExperiment& experiment, int64_t capacity);

struct PhaseRecords {
  record::RunRecord prefill;
  record::RunRecord decode;
};
// One session: prefills of `batch` prompts of `length` tokens, then decodes whose tokens see
// `length` keys. After one of each that is not measured, plain and instrumented runs alternate.
// `ceilings` may be null: then nothing is predicted.
PhaseRecords measure_phases(const models::ModelFile& file,
                            const InferenceExperiment& experiment,
                            backends::Backend& backend,
                            const cost::Ceilings* ceilings);

// Two generations of `tokens` for each of `batch` prompts: one that makes the graphs, and after one
// more prefill the one that is measured.
record::LatencyRecord measure_latency(const models::ModelFile& file,
                                      const InferenceExperiment& experiment,
                                      int64_t tokens,
                                      backends::Backend& backend);

// A token after `length` others, with and without the cache.
record::CacheGainRecord measure_cache_gain(const models::ModelFile& file,
                                           const InferenceExperiment& experiment,
                                           backends::Backend& backend);

// `count` ids below `vocabulary`, the same for the same seed.
std::vector<int32_t> random_ids(int64_t count, int64_t vocabulary, uint32_t seed);

}  // namespace ridge::measure
