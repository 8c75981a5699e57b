// SPDX-License-Identifier: Apache-2.0
// Defines the records of one `ridge infer-lab` for the report writers. Nothing here measures.
// measure/ and bench/ fill the records.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "record/lab_record.h"
#include "record/run_figures.h"

namespace ridge::record {

// Generation of `tokens` tokens for each of `batch` prompts of `prompt` tokens, split by where the
// time goes. All sequences get their first token at the same time and one more token per decode
// step.
struct LatencyRecord {
  int64_t batch = 1, prompt = 0, tokens = 0;
  double open_ns = 0, first_ns = 0, ttft_ns = 0;
  Summary tpot;
  double wall_ns = 0;

  // TTFT + TPOT x (tokens - 1).
  double predicted_ns() const { return ttft_ns + tpot.median * static_cast<double>(tokens - 1); }
  double error() const { return wall_ns > 0 ? predicted_ns() / wall_ns - 1 : 0; }
  double tokens_per_s() const {
    return wall_ns > 0 ? static_cast<double>(batch * tokens) * 1e9 / wall_ns : 0;
  }
};

template <class See>
void figures(const See& see, const LatencyRecord& r) {
  see("batch_size", r.batch), see("prompt_tokens", r.prompt);
  see({"tokens", "", "per sequence"}, r.tokens);
  see({"session_ns", "", "opening the session: cache, tables"}, r.open_ns);
  see({"first_generation_ns", "", "builds and binds the graphs, too"}, r.first_ns);
  see({"ttft_ns", "", "of a later generation: time to the first tokens"}, r.ttft_ns);
  see({"tpot", "", "of the decode steps"}, r.tpot);
  see({"wall_ns", "", "the whole generation"}, r.wall_ns);
  see("predicted_ns", r.predicted_ns()), see({"error", "share"}, r.error()),
      see("tokens_per_s", r.tokens_per_s());
}

// Time to compute the token after `context` tokens, with the KV cache and by recomputing the whole
// sequence.
struct CacheGainRecord {
  int64_t context = 0;
  Summary with;
  Summary without;
  int64_t cache_bytes = 0;
  double logits_difference = 0;  // max abs difference
};

// One implementation of attention.
struct AttentionForm {
  int64_t launches = 0, planned_bytes = 0;
  int64_t arena_bytes = 0;  // temporaries
  int64_t owned_bytes = 0;  // including q, k, v and the output
  double predicted_ns = 0;  // 0 where no ceilings are known
  std::string skipped;      // the reason why it was not run; empty if it was
  Summary time;
  // Growth of the process's memory, or of its device memory; 0 if the system does not report it.
  int64_t measured_bytes = 0;
};

// Causal attention of one group of heads over a sequence of length S.
struct AttentionRecord {
  int64_t heads = 1;
  int64_t head_size = 0;
  int64_t sequence = 0;
  AttentionForm standard;  // stores the S x S matrix
  AttentionForm flash;
};
// The longest sequence whose standard attention fits into `memory_bytes`, by planned memory.
struct AttentionReach {
  int64_t head_size = 0;
  int64_t memory_bytes = 0;
  int64_t sequence = 0;
};

template <class See>
void figures(const See& see, const CacheGainRecord& r) {
  see("context", r.context), see("with", r.with), see("without", r.without),
      see("cache_bytes", r.cache_bytes);
  see({"logits_difference", "", "max abs difference"}, r.logits_difference);
}

template <class See>
void figures(const See& see, const AttentionForm& r) {
  see("kernel_calls", r.launches), see("planned_bytes", r.planned_bytes);
  see({"arena_bytes", "", "temporaries"}, r.arena_bytes);
  see({"owned_bytes", "", "with q, k, v and the output"}, r.owned_bytes);
  see("predicted_ns", r.predicted_ns);
  see({"skipped", "", "why it was not run; empty if it was"}, r.skipped);
  see("time", r.time);
  see({"measured_bytes", "", "growth of the memory of the process or its device"},
      r.measured_bytes);
}

template <class See>
void figures(const See& see, const AttentionRecord& r) {
  see("heads", r.heads), see("head_size", r.head_size), see("seq_len", r.sequence),
      see("standard", r.standard), see("flash", r.flash);
}

template <class See>
void figures(const See& see, const AttentionReach& r) {
  see("head_size", r.head_size), see("memory_bytes", r.memory_bytes), see("seq_len", r.sequence);
}

struct InferenceRecord {
  LabRecord lab;           // prefills and decodes by level, batch size and length
  std::string file;        // "GGUF", "safetensors"
  int64_t file_bytes = 0;  // bytes of the file's tensors
  double open_ns = 0;      // reading the file's header and configuration
  std::vector<LatencyRecord> latencies;
  std::vector<CacheGainRecord> gains;
  std::vector<AttentionRecord> attention;
  std::vector<AttentionReach> reaches;
  std::vector<std::string> left_out;  // why measurements were skipped, a line each
};

// Two times of the same work that differ by a larger factor are inconsistent.
inline constexpr double kOtherSpeed = 1.5;
// False if either is unknown (0).
bool are_inconsistent(double a_ns, double b_ns);

// A time and the table that shows it: "the table of levels".
struct ShownTime {
  double ns = 0;
  std::string_view where;
};
// Adds a warning that names both if they are inconsistent.
void compare(const std::string& what, const ShownTime& a, const ShownTime& b, LabRecord& lab);

// Checks the trial's runs: each by itself, and the first one against the lab's run of the same
// setting.
void check_trial_consistency(LabRecord& lab);

// Compares decoding with the KV cache with the decodes, a generation with the sum of its parts, and
// its first tokens with the prefills.
void check_consistency(InferenceRecord& study);

}  // namespace ridge::record
