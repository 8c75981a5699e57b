// SPDX-License-Identifier: Apache-2.0
// Runs several sequences on one model: first the prompts in chunks, then one token per sequence and
// step. Works on token ids, not text, and prints nothing.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
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

// Block tables grow with the number of sequences. A larger number is most likely a typing error.
inline constexpr int64_t kMostSlots = 4096;

struct SessionOptions {
  int64_t slots = 1;     // concurrent sequences
  int64_t capacity = 0;  // positions per sequence; 0: the model's context
  int64_t chunk = 512;   // prefill chunk size
  // If false, there is one slot, and the whole sequence is recomputed for every token.
  bool cached = true;
  passes::Selection selection{"compiled", "-tune_gemm"};
  // If true, a sequence reuses cached blocks of others with the same prefix.
  bool prefix_caching = false;
  // If true, the cache has blocks of models::kBlockTokens positions even without prefix_caching.
  bool pages = false;
  // With prefix_caching, the tokens that the KV cache has room for. 0: `capacity` for each slot.
  int64_t kv_capacity_tokens = 0;
  // The type of keys and values, by default that of activations. fp32 ones also allow bf16 and i8.
  std::optional<DType> cache_dtype;
};

// Fills in the defaults. Throws usage Errors for options out of range.
SessionOptions checked(SessionOptions options, const models::ModelConfig& config);
// Returns the cache shape of a session. The options must have a capacity.
models::CacheShape cache_of(const SessionOptions& options, const models::ModelConfig& config);

struct Prompt {
  int64_t slot = 0;
  std::span<const int32_t> ids;
  SamplingOptions sampling;
  uint32_t tenant = 0;    // Prefixes are shared only within a tenant.
  int64_t generated = 0;  // number of ids at the end that penalties count as generated
};

// The ids of one sequence that a run computes: a chunk of its prompt, or its last token.
struct SequencePart {
  int64_t slot = 0;
  std::span<const int32_t> ids;
  bool samples = true;  // Whether the run samples the next token.
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
  // The file and the backend must outlive the session. Throws a usage Error for options out of
  // range and an out-of-memory Error if the cache does not fit.
  Session(const models::ModelFile& file, const SessionOptions& options, backends::Backend& backend);

  // Computes prompts in their slots and returns the first token of each. Throws usage Errors for
  // prompts that are empty, too long or have an id out of range, and throws as `logits` does.
  std::vector<int32_t> start(std::span<const Prompt> prompts);

  // Gives a slot to a prompt and computes nothing; `run` then computes it in steps that the caller
  // chooses. The slot's length is the number of cached tokens. Throws as `start` does.
  void begin(const Prompt& prompt);
  // The number of ids at the start of the slot's prompt that `begin` found in the prefix cache.
  int64_t cached_tokens(int64_t slot) const { return cached_tokens_[static_cast<size_t>(slot)]; }
  // Ends the slot's sequence.
  void release(int64_t slot);
  // The number of blocks that the slot lacks for `length` positions. A run must not need more
  // blocks than blocks().available().
  int64_t missing_blocks(int64_t slot, int64_t length) const {
    return blocks_.missing(slot, length);
  }
  const SequenceBlocks& blocks() const { return blocks_; }
  // Builds and records all buckets that runs of parts need, which takes a while, so that none of
  // them has to wait; without it, each is built at its first run. Nothing may run yet. Calls `done`
  // after each bucket with it, the number of built ones and of all. Needs a cache.
  using Prepared = std::function<void(const Bucket& bucket, int64_t built, int64_t all)>;
  void prepare(const Prepared& done);
  // The buckets that are built.
  int64_t bucket_count() const { return buckets_.count(); }
  // Whether a device of its own runs the model, and kernels read no memory of the host.
  bool is_on_device() const { return backend_.borrow({}) == nullptr; }
  // Pre-faults the KV cache if there is memory for it; call after the first run.
  void touch_cache();
  // Computes parts of several sequences, chunks of prompts and last tokens, in one run. Each part
  // has its own slot, 1 to `chunk` ids, and room for them; all together have at most most_ids()
  // ids. tokens[i] becomes the token after part i, or -1 if it is not sampled or its logits are NaN
  // or infinite. After a run that throws, its slots must begin again. Needs a cache.
  void run(std::span<const SequencePart> parts, std::span<int32_t> tokens) {
    launch(parts);
    collect(tokens);
  }
  // `run` in two: the first starts the run, the second waits for its tokens. Another run may start
  // in between; they are collected in their order. After a run that throws, none is left.
  void launch(std::span<const SequencePart> parts);
  void collect(std::span<int32_t> tokens);
  // Starts a run of the next token of each slot, given in ascending order. Only the device knows
  // the ids: they are the tokens that earlier runs sample. Once the caller knows them, it calls
  // `note` with those of sequences that go on.
  void launch_next(std::span<const int64_t> slots);
  void note(int64_t slot, int32_t id) { blocks_.append(slot, {&id, 1}); }
  // Whether the tokens of the slot's sequence change its logits, so that the next run needs them
  // on the host.
  bool has_token_penalties(int64_t slot) const { return biases_.counts_tokens(slot); }
  // Forgets the runs that are not collected.
  void drop_launched();
  int64_t most_ids() const { return std::max(options_.chunk, options_.slots); }

  // Computes the next token of each slot, which must have room. Throws as `logits` does.
  void step(std::span<const int64_t> slots, std::span<int32_t> tokens);

  // The number of computed positions of a sequence.
  int64_t length(int64_t slot) const { return lengths_[static_cast<size_t>(slot)]; }
  // The number of positions that a sequence has left. At 0, its last token cannot be computed.
  int64_t room(int64_t slot) const { return options_.capacity - length(slot); }
  // Returns the logits [V] of the slot's last token. The slot must have been in the last run. If a
  // logit is not finite, throws a file Error that names the first tensor of the file that is not
  // finite, or a run-time Error if all tensors are finite.
  std::vector<float> logits(int64_t slot) const;

  // Returns `length` if `rewind` can go back to it, else 0. The ring of a sliding window still has
  // the keys that position `length` attends to if at most `chunk` positions are discarded. A
  // session without a cache, or with prefix_caching, whose blocks never change, cannot go back.
  int64_t reusable(int64_t slot, int64_t length) const;
  // Discards a slot's positions from `length` on, which must be reusable.
  void rewind(int64_t slot, int64_t length);

  // Computes the likelihood of ids[1..], each given the ids before it, in slot 0. Takes 2 to
  // `capacity` ids. Throws as `logits` does.
  Likelihood score(std::span<const int32_t> ids);

  // Profiles later runs node by node and appends them to `runs`. Null turns profiling off.
  void observe(std::vector<SessionRun>* runs) { observed_ = runs; }

  const models::ModelConfig& config() const { return file_.config(); }
  const models::ModelFile& file() const { return file_; }
  // Plans the graph of a run of `ids` ids at positions below `reach` with as many rows as it can
  // have.
  std::shared_ptr<const cost::CostedGraph> planned_run(int64_t ids, int64_t reach) const {
    return buckets_.planned(bucket_shape(models::InferenceTask::kPrefill, ids, reach,
                                         options_.slots, options_.cached, cache_));
  }
  // Plans the graph of a shape.
  std::shared_ptr<const cost::CostedGraph> planned(const models::InferenceShape& shape) const {
    return buckets_.planned(shape);
  }
  // The largest reach that has the same graph.
  int64_t planned_context(int64_t reach) const {
    return bucket_shape(models::InferenceTask::kPrefill, 1, reach, 1, options_.cached, cache_)
        .context;
  }
  // The bucket of the last run. There must have been a run.
  const Bucket& last_bucket() const { return *last_; }
  const SessionOptions& options() const { return options_; }
  int64_t store_bytes() const { return store_.bytes(); }
  int64_t owned_bytes() const { return store_.bytes() + buckets_.arena_bytes(); }

 private:
  // A bucket's input with one value for each token or row.
  struct RunInput {
    std::string_view name;
    std::span<const int32_t> values;
  };

  // A run whose tokens are not collected yet.
  struct Launched {
    std::vector<int64_t> slots;               // The parts' slots; -1 samples nothing.
    std::unique_ptr<backends::CopyOut> copy;  // Copies the tokens; null if `tokens` has them.
    std::vector<int32_t> tokens;
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
  void select_bucket(models::InferenceTask task,
                     int64_t tokens,
                     int64_t reach,
                     int64_t rows,
                     std::initializer_list<RunInput> inputs);
  void run_last();
  void begin_parts();
  int64_t add_part(const SequencePart& part);
  void run_parts(std::span<const SequencePart> parts);
  Launched& add_launched();
  void run_whole(int64_t slot);
  int32_t take_token(int64_t slot);
  void read_tokens();

  const models::ModelFile& file_;
  backends::Backend& backend_;
  SessionOptions options_;
  models::CacheShape cache_;
  SequenceBlocks blocks_;
  runtime::Store store_;
  TokenBiases biases_;
  BucketCache buckets_;
  Bucket* last_ = nullptr;
  std::vector<SessionRun>* observed_ = nullptr;
  std::array<Launched, 2> launched_;  // at most two runs, the first one at first_launched_
  size_t first_launched_ = 0, launched_count_ = 0;

  // These have one entry per slot.
  std::vector<int64_t> lengths_;  // computed positions
  std::vector<int64_t> cached_tokens_;
  std::vector<int32_t> tokens_;  // last sampled tokens
  std::vector<int32_t> next_positions_, seeds_;
  std::vector<int64_t> logit_rows_;  // rows in the last run's logits
  std::vector<float> settings_;      // [S,6]
  std::vector<int32_t> history_;     // the whole sequence; only without a cache
  std::vector<int32_t> ids_, positions_, token_slots_, rows_, row_slots_;  // inputs of one run
};

}  // namespace ridge::serve
