// SPDX-License-Identifier: Apache-2.0
// Runs several sequences on one model: prompts in chunks, then one token for each sequence per
// step. Works on token ids, not text, and prints nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/backend.h"
#include "models/model_file.h"
#include "passes/pipeline.h"
#include "serve/bucket.h"
#include "serve/sampling.h"
#include "serve/sequence_blocks.h"
#include "serve/token_biases.h"

namespace ridge::serve {

// The block tables grow with the number of sequences; a larger number is most likely a typing
// error.
inline constexpr int64_t kMostSlots = 4096;

struct SessionOptions {
  int64_t slots = 1;     // concurrent sequences
  int64_t capacity = 0;  // positions per sequence; 0: the model's context
  int64_t chunk = 512;   // prefill chunk size
  // If false, there is one slot, and every token is computed from the whole sequence again.
  bool cached = true;
  passes::Selection selection{"compiled", "-tune_gemm"};
  // Whether a sequence shares what the cache still holds of others that began alike.
  bool keeps_prefixes = false;
  // Without keeps_prefixes: keys and values lie in blocks of models::kBlockTokens positions, as with it.
  bool pages = false;
  // That the cache holds for all sequences, if they share; 0: the capacity of each.
  int64_t positions = 0;
  // The type of keys and values: that of activations, or, if these are fp32, f32, bf16 or i8.
  std::optional<DType> cache_dtype;  // none: that of activations
};

// Replaces 0 and none by the defaults. Throws usage Errors for options out of range.
SessionOptions checked(SessionOptions options, const models::ModelConfig& config);
// The cache of a session with these options, of which the capacity is set.
models::CacheShape cache_of(const SessionOptions& options, const models::ModelConfig& config);

struct Prompt {
  int64_t slot = 0;
  std::span<const int32_t> ids;
  SamplingOptions sampling;
  uint32_t tenant = 0;    // prefixes are shared within a tenant only
  int64_t generated = 0;  // ids at the end that are the answer so far: penalties count them
};

// What one run computes of a sequence: the ids that follow its positions.
struct Part {
  int64_t slot = 0;
  std::span<const int32_t> ids;
  bool samples = true;  // whether the token after them is sampled
};

// The sum of -ln p over the scored tokens.
struct Likelihood {
  double nll = 0;
  int64_t tokens = 0;
};

// A profiled run of one bucket.
struct SessionRun {
  const Bucket* bucket = nullptr;
  record::ProfiledRun profile;
};

class Session {
 public:
  // The file must outlive the session. Throws a usage Error for options out of range and an
  // out-of-memory Error if the cache does not fit.
  Session(const models::ModelFile& file, const SessionOptions& options, backends::Backend& backend);

  // Starts sequences in their slots and returns the first token of each; other slots are left
  // alone. Throws usage Errors for an empty prompt, a token id out of range, or a prompt longer
  // than the capacity, and as `logits` does if a token cannot be sampled because logits are NaN or
  // infinite.
  std::vector<int32_t> start(std::span<const Prompt> prompts);

  // The same in steps that the caller chooses. `begin` gives a slot to a prompt and computes
  // nothing; it throws as `start` does. The slot's length is then that of what is held.
  void begin(const Prompt& prompt);
  // How many ids at the start of a slot's prompt `begin` found in the cache, with keeps_prefixes.
  // They are not computed again.
  int64_t held(int64_t slot) const { return held_[static_cast<size_t>(slot)]; }
  // The slot's sequence has ended.
  void release(int64_t slot);
  // Blocks of the cache that the slot lacks for so many positions, and those that no slot uses. A
  // run must not need more than there are.
  int64_t missing_blocks(int64_t slot, int64_t length) const {
    return blocks_.missing(slot, length);
  }
  const SequenceBlocks& blocks() const { return blocks_; }
  // Has the system give the cache its pages now, if there is memory for them, so that no run waits for
  // pages. Once something has run.
  void touch_cache();
  // Computes parts of several sequences, prompts and last tokens alike, in one run. Each part has
  // its own slot, 1 to `chunk` ids, and room for them; all have at most most_ids(). tokens[i] is
  // the token after part i, or -1 if it is not sampled or its logits are NaN or infinite. A run
  // that throws leaves its slots undefined until `begin` with nothing held. Needs a cache.
  void run(std::span<const Part> parts, std::span<int32_t> tokens);
  int64_t most_ids() const { return std::max(options_.chunk, options_.slots); }

  // Computes the next token of each of these slots from its last token. Each slot must have room.
  // Throws as `logits` does if a token cannot be sampled.
  void step(std::span<const int64_t> slots, std::span<int32_t> tokens);

  // Positions of a sequence that are computed.
  int64_t length(int64_t slot) const { return lengths_[static_cast<size_t>(slot)]; }
  // Positions that a sequence has left. At 0, its last token cannot be stored.
  int64_t room(int64_t slot) const { return options_.capacity - length(slot); }
  // The logits [V] from which the slot's last token was sampled. The slot must have been in the
  // last run. If one is not finite, throws a file Error that names the first tensor of the file that
  // is not finite, or a run-time Error if all are finite.
  std::vector<float> logits(int64_t slot) const;

  // Positions that a slot can go back to: `length`, or 0. Without a cache there is nothing to go back
  // to. The ring of a sliding window still has the keys that position `length` attends to if at most
  // `chunk` positions are discarded. Not with keeps_prefixes, whose blocks do not change.
  int64_t reusable(int64_t slot, int64_t length) const;
  // Discards a slot's positions from `length` on, all of which must be reusable; the next step
  // computes position `length`.
  void rewind(int64_t slot, int64_t length);

  // The likelihood of ids[1..], each given the ids before it. Uses slot 0. Takes 2 to `capacity`
  // ids. Throws as `logits` does.
  Likelihood score(std::span<const int32_t> ids);

  // From now on, runs are profiled node by node and appended to `runs`; null turns profiling off.
  void observe(std::vector<SessionRun>* runs) { observed_ = runs; }

  const models::ModelConfig& config() const { return file_.config(); }
  const models::ModelFile& file() const { return file_; }
  // A graph that a run of so many ids at positions below `reach` would use if as many slots as can be
  // were sampled, planned and not bound; and the largest reach that has the same graph.
  std::shared_ptr<const cost::CostedGraph> planned_run(int64_t ids, int64_t reach) const {
    return buckets_.planned(models::InferenceTask::kPrefill, ids, reach, options_.slots);
  }
  int64_t planned_context(int64_t reach) const {
    return bucket_shape(models::InferenceTask::kPrefill, 1, reach, 1, options_.cached, cache_)
        .context;
  }
  // The bucket of the last run, of which there must be one.
  const Bucket& last_bucket() const { return *last_; }
  const SessionOptions& options() const { return options_; }
  int64_t store_bytes() const { return store_.bytes(); }
  int64_t owned_bytes() const { return store_.bytes() + buckets_.arena_bytes(); }

 private:
  // An input of a bucket that has one value for each token or row.
  struct RunInput {
    std::string_view name;
    std::span<const int32_t> values;
  };

  void expect_tokens(std::span<const int32_t> tokens) const;
  void expect_finite(std::string_view what, std::span<const float> values) const;
  [[noreturn]] void refuse_not_finite(std::string_view what, std::string_view found) const;
  void check_ids(std::span<const int32_t> ids) const;
  void extend(int64_t slot, int64_t length);
  void write_tables();
  void write_slots();
  void run_bucket(models::InferenceTask task,
                  int64_t tokens,
                  int64_t reach,
                  int64_t rows,
                  std::initializer_list<RunInput> inputs);
  void run_parts(std::span<const Part> parts);
  void run_whole(int64_t slot);
  int32_t take_token(int64_t slot);
  void read_tokens();

  const models::ModelFile& file_;
  backends::Backend& backend_;
  SessionOptions options_;
  models::CacheShape cache_;
  SequenceBlocks blocks_;
  std::vector<int64_t> held_;  // by slot
  runtime::Store store_;
  TokenBiases biases_;
  BucketCache buckets_;
  Bucket* last_ = nullptr;
  std::vector<SessionRun>* observed_ = nullptr;

  // One entry per slot.
  std::vector<int64_t> lengths_;  // positions computed
  std::vector<int32_t> tokens_;   // sampled last
  std::vector<int32_t> next_positions_, seeds_;
  std::vector<int64_t> logit_rows_;  // of the last run's logits
  std::vector<float> settings_;      // [S,6]
  std::vector<int32_t> history_;     // the whole sequence; only without a cache
  std::vector<int32_t> ids_, positions_, token_slots_, rows_, row_slots_;  // of one run
};

}  // namespace ridge::serve
