// SPDX-License-Identifier: Apache-2.0
// What an engine did lately: its last steps, its last requests and their stages, and the states of
// its KV blocks. Bounded, and allocates nothing while it records. The engine writes, any thread
// reads. It adds up nothing: EngineCounts has the sums.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "serve/request.h"
#include "serve/sequence_blocks.h"
#include "serve/step_cost.h"

namespace ridge::serve {

struct StepActivity {
  int64_t number = 0;  // from 1; the recorder's
  int64_t event = 0;   // the recorder's
  double begin_ns = 0, end_ns = 0;
  int64_t sequences = 0;  // the batch
  int64_t decode_tokens = 0, prefill_tokens = 0;
  StepCost cost = {};                // zero if the step failed
  DType product_type = DType::kF32;  // in which most MACs are
};

enum class Stage : uint8_t { kQueued, kPrefill, kDecode };

// A request is queued again when it loses its blocks to others.
struct RequestActivity {
  static constexpr size_t kMostStages = 16;
  struct Entry {
    Stage stage = Stage::kQueued;
    double begin_ns = 0;
  };

  uint64_t id = 0;
  int64_t event = 0;  // of its last change
  int64_t prompt_tokens = 0, cached_tokens = 0, generated_tokens = 0;
  double first_ns = 0, last_ns = 0;  // of its first and last token; 0: none yet
  double end_ns = 0;                 // 0: it has not ended
  Finish finish = Finish::kNone;
  std::array<Entry, kMostStages> stages = {};  // further ones are not kept
  size_t stage_count = 0;

  std::span<const Entry> entries() const { return std::span(stages).first(stage_count); }
};

// The blocks in order, in at most kMostCells cells of equally many. A cell of several has the state
// of the most used one.
struct BlockMap {
  static constexpr int64_t kMostCells = 4096;

  int64_t blocks = 0, blocks_per_cell = 1;
  std::array<int64_t, kBlockStates> counts = {};  // of blocks, by BlockState
  std::vector<BlockState> cells = {};
};

class Activity {
 public:
  static constexpr size_t kSteps = 4096, kRequests = 512;

  explicit Activity(int64_t blocks);

  // The engine's calls. `request` is what `submit` returned: -1 if all places have open requests.
  int64_t submit(uint64_t id, int64_t prompt_tokens, double now_ns);
  void admit(int64_t request, int64_t cached_tokens, double now_ns);
  void requeue(int64_t request, double now_ns);
  void token(int64_t request, double now_ns);
  void end(int64_t request, Finish finish, double now_ns);
  void step(StepActivity step);
  // Copies the states of the blocks if somebody reads them and the last copy is old, or if nothing
  // follows soon.
  void blocks(const SequenceBlocks& blocks, bool is_idle, double now_ns);

  struct Snapshot {
    double origin_ns = 0;                   // when the recording began; times are later
    int64_t event = 0;                      // for the next call's `after`
    std::vector<StepActivity> steps;        // oldest first
    std::vector<RequestActivity> requests;  // by id
    BlockMap blocks;
  };
  // What has happened after an event (0: all that is kept), at most so many steps, the last ones.
  Snapshot since(int64_t after, size_t most_steps = kSteps) const;

 private:
  RequestActivity* changed(int64_t request);
  static void enter(RequestActivity& request, Stage stage, double now_ns);

  const double origin_ns_;
  mutable std::mutex mutex_;
  int64_t event_ = 0;
  int64_t step_count_ = 0;
  std::vector<StepActivity> steps_;  // rings
  std::vector<RequestActivity> requests_;
  size_t next_request_ = 0;
  BlockMap blocks_;
  double blocks_ns_ = 0;        // when they were copied
  mutable double read_ns_ = 0;  // when somebody last asked
};

}  // namespace ridge::serve
