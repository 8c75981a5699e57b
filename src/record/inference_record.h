// SPDX-License-Identifier: Apache-2.0
// Everything that one `ridge infer-lab` found out, for the report writers. Nothing here measures;
// serve/ fills it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "record/lab_record.h"

namespace ridge::record {

// A generation of `tokens` for each of `batch` prompts of `prompt` tokens, by the parts of its
// time. The first tokens of all sequences come together, and then one of each at a time.
struct LatencyRecord {
  int64_t batch = 1;
  int64_t prompt = 0;
  int64_t tokens = 0;   // of a sequence
  double open_ns = 0;   // the session: cache, tables
  double first_ns = 0;  // the first generation, which builds and binds the graphs
  double ttft_ns = 0;   // of a later one: to the first tokens
  Summary tpot;         // of its steps
  double wall_ns = 0;   // of it all

  // TTFT + TPOT x (tokens - 1).
  double predicted_ns() const { return ttft_ns + tpot.median * static_cast<double>(tokens - 1); }
  double error() const { return wall_ns > 0 ? predicted_ns() / wall_ns - 1 : 0; }
  double tokens_per_s() const;
};

// One more token after `context` of them, from the cache and from the whole sequence again.
struct CacheGainRecord {
  int64_t context = 0;
  Summary with;
  Summary without;
  int64_t cache_bytes = 0;
  double logits_difference = 0;  // the largest
};

// One way to compute attention.
struct AttentionForm {
  int64_t launches = 0;
  int64_t planned_bytes = 0;  // moved
  int64_t arena_bytes = 0;    // temporaries
  int64_t owned_bytes = 0;    // with q, k, v and the output
  double predicted_ns = 0;    // 0 where no ceilings are known
  std::string skipped;        // why it was not run; empty: it was
  Summary time;
  // What the process, or what it holds of a device, grew by; 0 where nothing tells
  int64_t measured_bytes = 0;
};

// Causal attention of one group of heads over a sequence of S.
struct AttentionRecord {
  int64_t heads = 1;
  int64_t head_size = 0;
  int64_t sequence = 0;
  AttentionForm standard;  // the S x S matrix in memory
  AttentionForm flash;
};
// The longest sequence whose standard attention fits into `memory_bytes` by the plan.
struct AttentionReach {
  int64_t head_size = 0;
  int64_t memory_bytes = 0;
  int64_t sequence = 0;
};

struct InferenceRecord {
  LabRecord lab;           // prefills and decodes by level, batch and length
  std::string file;        // "GGUF", "safetensors"
  int64_t file_bytes = 0;  // of its tensors
  double open_ns = 0;      // reading the file's header and configuration
  std::vector<LatencyRecord> latencies;
  std::vector<CacheGainRecord> gains;
  std::vector<AttentionRecord> attention;
  std::vector<AttentionReach> reaches;
  std::vector<std::string> left_out;  // what the time did not allow, a sentence each
};

}  // namespace ridge::record
