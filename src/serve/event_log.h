// SPDX-License-Identifier: Apache-2.0
// A bounded log of an engine's last steps, last requests and their stages, and KV-block states.
// Recording allocates nothing. The engine writes, any thread reads. EngineCounts has the sums.
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

struct LoggedStep {
  int64_t number = 0;  // The log counts steps from 1.
  int64_t event = 0;   // The log numbers all changes.
  double begin_ns = 0, end_ns = 0;
  int64_t sequences = 0;  // batch size
  int64_t decode_tokens = 0, prefill_tokens = 0;
  StepCost cost = {};                // zero if the step failed
  DType product_type = DType::kF32;  // data type of most MACs
};

enum class Stage : uint8_t { kQueued, kPrefill, kDecode };

// A request is queued again when it loses its blocks to others.
struct LoggedRequest {
  static constexpr size_t kMostStages = 16;
  struct StageBegin {
    Stage stage = Stage::kQueued;
    double begin_ns = 0;
  };

  uint64_t id = 0;
  int64_t event = 0;  // number of its last change
  int64_t prompt_tokens = 0, cached_tokens = 0, generated_tokens = 0;
  double first_ns = 0, last_ns = 0;  // times of its first and last token; 0: no token yet
  double end_ns = 0;                 // 0: it has not ended
  Finish finish = Finish::kNone;
  std::array<StageBegin, kMostStages> stages = {};  // Later stages are dropped.
  size_t stage_count = 0;

  std::span<const StageBegin> reached() const { return std::span(stages).first(stage_count); }
};

// The blocks in at most kMostCells cells of equal size. A cell shows its most used block.
struct BlockMap {
  static constexpr int64_t kMostCells = 4096;

  int64_t blocks = 0, blocks_per_cell = 1;
  std::array<int64_t, kBlockStates> counts = {};  // number of blocks in each BlockState
  std::vector<BlockState> cells = {};
};

class EventLog {
 public:
  static constexpr size_t kSteps = 4096, kRequests = 512;

  explicit EventLog(int64_t blocks);

  // The engine calls these. `submit` returns the index that the others take as `request`, or -1 if
  // open requests have filled the log; calls with -1 do nothing.
  int64_t submit(uint64_t id, int64_t prompt_tokens, double now_ns);
  void admit(int64_t request, int64_t cached_tokens, double now_ns);
  void requeue(int64_t request, double now_ns);
  void token(int64_t request, double now_ns);
  void end(int64_t request, Finish finish, double now_ns);
  void step(LoggedStep step);
  // Copies the blocks' states if the engine is idle, or if the log is read and the copy is old.
  void blocks(const SequenceBlocks& blocks, bool is_idle, double now_ns);

  struct Snapshot {
    double origin_ns = 0;                 // time at which the log began
    int64_t event = 0;                    // `after` of the next call
    std::vector<LoggedStep> steps;        // oldest first
    std::vector<LoggedRequest> requests;  // sorted by id
    BlockMap blocks;
  };
  // Returns the changes after event `after` (0: the whole log), with the last `most_steps` steps.
  Snapshot since(int64_t after, size_t most_steps = kSteps) const;

 private:
  LoggedRequest* changed(int64_t request);
  static void enter(LoggedRequest& request, Stage stage, double now_ns);

  const double origin_ns_;
  mutable std::mutex mutex_;
  int64_t event_ = 0;
  int64_t step_count_ = 0;
  std::vector<LoggedStep> steps_;        // a ring
  std::vector<LoggedRequest> requests_;  // a ring that keeps open requests
  size_t next_request_ = 0;
  BlockMap blocks_;
  double blocks_ns_ = 0;        // time of the last copy of blocks_
  mutable double read_ns_ = 0;  // time of the last `since`
};

}  // namespace ridge::serve
