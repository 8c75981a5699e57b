// SPDX-License-Identifier: Apache-2.0
// Runs several sequences on one model: first the prompts in chunks, then one token per sequence and
// step. Works on token ids, not text, and prints nothing.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "serve/model_runner.h"
#include "serve/run_inputs.h"
#include "serve/sampling.h"
#include "serve/sequence_blocks.h"
#include "serve/session_options.h"
#include "serve/slot_pool.h"
#include "serve/slot_sampling.h"

namespace ridge::serve {

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

// Throws a usage Error for an id out of range.
void check_ids(std::span<const int32_t> ids, int64_t vocabulary);

class Session {
 public:
  // The file and the backend must outlive the session. Throws a usage Error for options out of
  // range and an out-of-memory Error if the cache does not fit.
  Session(const models::ModelFile& file, const SessionOptions& options, backends::Backend& backend);

  // Computes prompts in their slots and returns the first token of each. Throws usage Errors for
  // prompts that are empty, too long or have an id out of range, and throws as `logits` does.
  std::vector<int32_t> start(std::span<const Prompt> prompts);
  // Computes the next token of each slot, which must have room. Throws as `logits` does.
  void step(std::span<const int64_t> slots, std::span<int32_t> tokens);

  // Gives a slot to a prompt and computes nothing; `compute` then does, in steps that the caller
  // chooses. The slot's length is the number of cached tokens. Throws as `start` does.
  void begin(const Prompt& prompt);
  // Ends the slot's sequence.
  void release(int64_t slot) { blocks_.release(slot); }
  // Starts a run of parts of several sequences, chunks of prompts and last tokens. Each part has
  // its own slot, 1 to `chunk` ids, and room for them; all together have at most most_ids() ids,
  // and lack at most blocks().available() blocks. sampling() reads the tokens. After a run that
  // throws, its slots must begin again.
  void compute(std::span<const SequencePart> parts);
  // Starts a run of the next token of each slot, given in ascending order. Only the device knows
  // the ids: they are the tokens that earlier runs sample. Once the caller knows them, it calls
  // `note` with those of sequences that go on. Needs a cache.
  void compute_next(std::span<const int64_t> slots);
  void note(int64_t slot, int32_t id) { blocks_.append(slot, {&id, 1}); }
  // Builds and records all buckets that `compute` needs, which takes a while, so that none of them
  // has to wait; without it, each is built at its first run. Nothing may run yet. Needs a cache.
  void prepare(const ModelRunner::Prepared& done);

  // Returns the logits [V] of the slot's last token. The slot must have been in the last run. If a
  // logit is not finite, throws a file Error that names the first tensor of the file that is not
  // finite, or a run-time Error if all tensors are finite.
  std::vector<float> logits(int64_t slot) const;
  // Adds ids to the slot's sequence, which need no prompt before them. Returns the task's output:
  // of kScore the mean of -ln p of the labels, each given the ids up to its own place; of kLogits
  // [ids,V]; of kHidden [ids,D], after the last norm. Throws as `logits` does. Needs a cache.
  std::vector<float> values(int64_t slot,
                            std::span<const int32_t> ids,
                            models::InferenceTask task,
                            std::span<const int32_t> labels = {});

  // The number of computed positions of a sequence.
  int64_t length(int64_t slot) const { return blocks_.length(slot); }
  // The number of positions that a sequence has left. At 0, its last token cannot be computed.
  int64_t room(int64_t slot) const { return options_.capacity - length(slot); }
  // Returns `length` if `rewind` can go back to it, else 0. The ring of a sliding window still has
  // the keys that position `length` attends to if at most `chunk` positions are discarded. A
  // session without a cache, or with prefix_caching, whose blocks never change, cannot go back.
  int64_t reusable(int64_t slot, int64_t length) const;
  // Discards a slot's positions from `length` on, which must be reusable.
  void rewind(int64_t slot, int64_t length);

  const SequenceBlocks& blocks() const { return blocks_; }
  SequenceBlocks& blocks() { return blocks_; }
  SlotSampling& sampling() { return sampling_; }
  SlotPool& free_slots() { return free_slots_; }
  ModelRunner& runner() { return runner_; }
  const ModelRunner& runner() const { return runner_; }
  const models::ModelConfig& config() const { return runner_.file().config(); }
  const SessionOptions& options() const { return options_; }
  int64_t most_ids() const { return std::max(options_.chunk, options_.slots); }

 private:
  void add(const SequencePart& part);
  void run();

  SessionOptions options_;
  ModelRunner runner_;
  SequenceBlocks blocks_;
  SlotSampling sampling_;
  RunInputs inputs_;
  SlotPool free_slots_;
  std::vector<int32_t> history_;  // the whole sequence; only without a cache
};

}  // namespace ridge::serve
