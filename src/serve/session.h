// SPDX-License-Identifier: Apache-2.0
// Sequences side by side on one model: prompts in chunks, then a token for each at a time. It knows
// ids, not text, and prints nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "models/model_file.h"
#include "passes/pipeline.h"
#include "serve/bucket.h"
#include "serve/sampling.h"

namespace ridge::serve {

// A step's block tables grow with the sequences; more would be a typing error.
inline constexpr int64_t kMostSlots = 4096;

struct SessionOptions {
  int64_t slots = 1;     // sequences at once
  int64_t capacity = 0;  // positions a sequence; 0: the model's context
  int64_t chunk = 512;   // most tokens of a prefill run
  bool cached = true;    // else every token is computed from the whole sequence again; one slot
  passes::Selection selection{"compiled", "-tune_gemm"};
};

// With what 0 stands for filled in; usage Errors for options out of range.
SessionOptions checked(SessionOptions options, const models::ModelConfig& config);

struct Prompt {
  int64_t slot = 0;
  std::span<const int32_t> ids;
  SamplingOptions sampling;
};

// The sum of -ln p over the tokens counted.
struct Likelihood {
  double nll = 0;
  int64_t tokens = 0;
};

// A graph that a session ran, node by node.
struct SessionRun {
  const Bucket* bucket = nullptr;
  record::ProfiledRun profile;
};

class Session {
 public:
  // The file must outlive the session. Throws a usage Error for options out of range and an
  // out-of-memory Error where the cache does not fit.
  Session(const models::ModelFile& file, const SessionOptions& options, backends::Backend& backend);

  // Begins sequences anew in their slots and chooses the first token of
  // each; other slots are left alone. Usage Errors: an empty prompt, an
  // id out of range, a prompt that leaves no room for a token.
  std::vector<int32_t> start(std::span<const Prompt> prompts);
  // The next token of each slot given, after the one chosen last. A slot must have room.
  void step(std::span<const int64_t> slots, std::span<int32_t> tokens);

  // Positions that a sequence has left; 0: its last token has no place any more.
  int64_t room(int64_t slot) const {
    return options_.capacity - lengths_[static_cast<size_t>(slot)];
  }
  // The logits [V] that the slot's last token was chosen from, if it took part in the last run.
  std::vector<float> logits(int64_t slot) const;

  // Forgets what a slot holds from position `length` on, which must be among its last `chunk` ones:
  // a window's ring keeps no more. The next step computes position `length`.
  void rewind(int64_t slot, int64_t length);

  // The likelihood of ids 1.. given those before, in slot 0. At most `capacity` ids, at least 2.
  Likelihood score(std::span<const int32_t> ids);

  // From here on runs are timed node by node and added to `runs`; null: no more.
  void observe(std::vector<SessionRun>* runs) { observed_ = runs; }

  const models::ModelConfig& config() const { return file_.config(); }
  const SessionOptions& options() const { return options_; }
  int64_t store_bytes() const { return store_.bytes(); }
  int64_t owned_bytes() const { return store_.bytes() + buckets_.arena_bytes(); }

 private:
  void check_ids(std::span<const int32_t> ids) const;
  void begin_slot(const Prompt& prompt);
  void write_tables();
  void write_slots();
  void run(Bucket& bucket);
  void run_chunk(std::span<const Prompt> prompts, size_t& prompt, size_t& done);
  void run_whole(int64_t slot);
  void read_tokens();

  const models::ModelFile& file_;
  SessionOptions options_;
  models::CacheShape cache_;
  runtime::Store store_;
  BucketCache buckets_;
  Bucket* last_ = nullptr;
  std::vector<SessionRun>* observed_ = nullptr;

  // Per slot.
  std::vector<int64_t> lengths_;  // positions computed
  std::vector<int32_t> tokens_;   // chosen last
  std::vector<int32_t> rows_, next_positions_, seeds_;
  std::vector<float> settings_;                         // [S,5]
  std::vector<int32_t> history_;                        // without a cache: the sequence
  std::vector<int32_t> ids_, positions_, token_slots_;  // of one run
};

}  // namespace ridge::serve
