// SPDX-License-Identifier: Apache-2.0
// A model that is loaded into a store, and the buckets that run it. Writes the inputs of a run and
// knows no sequences.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "models/model_file.h"
#include "passes/pipeline.h"
#include "runtime/store.h"
#include "serve/bucket.h"
#include "serve/run_inputs.h"
#include "serve/sequence_blocks.h"
#include "serve/session_options.h"

namespace ridge::serve {

// A profiled run of one bucket.
struct SessionRun {
  const Bucket* bucket = nullptr;
  record::ProfiledRun profile;
};

// The run for which a bucket is chosen.
struct BucketChoice {
  models::InferenceTask task = models::InferenceTask::kPrefill;
  int64_t tokens = 0, context = 0, rows = 0;
};

class ModelRunner {
 public:
  // The file, the options and the backend must outlive the runner.
  ModelRunner(const models::ModelFile& file,
              const SessionOptions& options,
              backends::Backend& backend);

  // Runs the bucket for the inputs, whose slots must have blocks.
  void run(const RunInputs& inputs);
  // Runs a bucket whose inputs `write` writes.
  void run(const BucketChoice& choice, const std::function<void()>& write);
  // Calls `announcer`, if any, before each run, once its inputs are written.
  using Announcer = std::function<void(const BucketChoice& choice)>;
  void announce(Announcer announcer) { announcer_ = std::move(announcer); }
  // Writes the block tables that have changed.
  void write_tables(SequenceBlocks& blocks);
  // Copies blocks of the caches of all layers, as far as `positions` positions fill them.
  void copy_blocks(std::span<const BlockCopy> copies, int64_t positions);
  // Builds all buckets that together cover each step of up to `most_tokens` tokens, and runs each
  // with padding, so that a device has recorded it. Calls `done` after each bucket with it, the
  // number of built ones and of all.
  using Prepared = std::function<void(const Bucket& bucket, int64_t built, int64_t all)>;
  void prepare(int64_t most_tokens, const Prepared& done);
  // Pre-faults the KV cache if there is memory for it; call after the first run.
  void touch_cache();
  // Profiles later runs node by node and appends them to `runs`. Null turns profiling off.
  void observe(std::vector<SessionRun>* runs) { observed_ = runs; }

  // Whether a device of its own runs the model, and kernels read no memory of the host.
  bool is_on_device() const { return backend_.borrow({}) == nullptr; }
  const models::ModelFile& file() const { return file_; }
  const models::CacheShape& cache() const { return cache_; }
  runtime::Store& store() { return store_; }
  const BucketCache& buckets() const { return buckets_; }
  // The bucket of the last run, or null.
  const Bucket* last_bucket() const { return last_; }
  int64_t store_bytes() const { return store_.bytes(); }
  int64_t owned_bytes() const { return store_.bytes() + buckets_.arena_bytes(); }

 private:
  void write(const RunInputs& inputs);
  void copy_ids(const std::vector<int32_t>& slots);

  const models::ModelFile& file_;
  backends::Backend& backend_;
  models::CacheShape cache_;
  runtime::Store store_;
  BucketCache buckets_;
  Bucket* last_ = nullptr;
  std::vector<SessionRun>* observed_ = nullptr;
  Announcer announcer_;
};

}  // namespace ridge::serve
