// SPDX-License-Identifier: Apache-2.0
// A bucket is an inference graph for a padded shape. It is built, optimized and bound on first use
// and then kept. The session writes its inputs.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "models/forward_graph.h"
#include "models/model_file.h"
#include "passes/pipeline.h"
#include "runtime/program.h"
#include "runtime/store.h"
#include "serve/model_stage.h"
#include "serve/session_options.h"

namespace ridge::serve {

// The shape of the bucket for `tokens` tokens at positions below `context` and `rows` tokens to
// sample from. A decode bucket has one token per slot. A prefill bucket may have no rows.
models::InferenceShape bucket_shape(models::InferenceTask task,
                                    int64_t tokens,
                                    int64_t context,
                                    int64_t rows,
                                    bool cached,
                                    const models::CacheShape& cache);

// The shapes of few buckets that together cover every step of up to `most_tokens` tokens with a
// cache, largest first: at most a quarter of a bucket is padding from 4 tokens on, a step that has
// more than 64 has few rows or all, and only one lone token has buckets for several contexts.
// Elsewhere kernels of a GPU read the positions that exist, whatever the context.
std::vector<models::InferenceShape> prepared_shapes(const models::CacheShape& cache,
                                                    int64_t most_tokens);

// A bucket's graph after the passes, and the graph that loads the weights of a rank and stage.
// Without rows, the graph ends with the last layer's attention; the load graph always loads all
// weights.
struct BucketGraph {
  Graph graph;
  LoadGraph load;
};
BucketGraph build_bucket(const models::ModelFile& file,
                         const models::InferenceShape& shape,
                         const passes::Selection& selection,
                         const passes::PassTarget& target,
                         int64_t rank = 0,
                         const ModelStage& stage = {});
// The whole model's graph alone, for plans and predictions. Of a model without stored weights, only
// few layers are built and optimized; the others are copies.
Graph planned_bucket(const models::ModelFile& file,
                     const models::InferenceShape& shape,
                     const passes::Selection& selection,
                     const passes::PassTarget& target);
std::string bucket_title(const models::InferenceShape& shape);

// One graph that is ready to run, and the names of its own inputs in the store.
class Bucket {
 public:
  Bucket(const models::InferenceShape& shape,
         Graph graph,
         backends::Backend& backend,
         runtime::Store& store,
         std::shared_ptr<backends::Memory> arena);

  const models::InferenceShape& shape() const { return shape_; }
  void run() { program_.run(0); }
  record::ProfiledRun run_profiled() { return program_.run_profiled(0); }
  std::vector<float> output() const {
    return program_.read(0, program_.graph(0).graph().outputs[0]);
  }
  const runtime::Program& program() const { return program_; }

  // The name in the store of an input of N or R elements.
  const std::string& input(std::string_view name) const;
  // Writes an input of N or R elements. Shorter values are padded with -1.
  void write(std::string_view name, std::span<const int32_t> values);

 private:
  models::InferenceShape shape_;
  runtime::Store& store_;
  runtime::Program program_;
  // Pairs of an input's name and its name in the store.
  std::vector<std::pair<std::string_view, std::string>> names_;
  std::vector<int32_t> padded_;
};

class BucketCache {
 public:
  BucketCache(const models::ModelFile& file,
              const models::CacheShape& cache,
              const SessionOptions& options,
              backends::Backend& backend,
              runtime::Store& store)
      : file_(file), cache_(cache), options_(options), backend_(backend), store_(store) {}

  // Builds a bucket that later steps may take in place of their own, so that they need not wait for
  // one. The first one should be the largest.
  Bucket& prepare(const models::InferenceShape& shape);

  // Returns the smallest prepared bucket for `tokens` tokens at positions below `context` and
  // `rows` tokens to sample from, else the bucket for just these, which is built if needed. The
  // first call also loads the weights.
  Bucket& at(models::InferenceTask task, int64_t tokens, int64_t context, int64_t rows);

  // Plans a bucket's graph without making a bucket.
  std::shared_ptr<const cost::CostedGraph> planned(const models::InferenceShape& shape) const;
  // Plans the graph of a run of `tokens` tokens at positions below `context` with as many rows as
  // it can have.
  std::shared_ptr<const cost::CostedGraph> planned_run(int64_t tokens, int64_t context) const {
    return planned(run_shape(tokens, context));
  }
  // The largest context that has the same graph.
  int64_t planned_context(int64_t context) const { return run_shape(1, context).context; }

  int64_t arena_bytes() const { return arena_bytes_; }
  int64_t count() const { return std::ssize(buckets_); }

 private:
  // The key is task, tokens, rows and context.
  using Key = std::tuple<models::InferenceTask, int64_t, int64_t, int64_t>;

  models::InferenceShape run_shape(int64_t tokens, int64_t context) const {
    return bucket_shape(models::InferenceTask::kPrefill, tokens, context, cache_.slots,
                        options_.cached, cache_);
  }
  Bucket& built(const models::InferenceShape& shape);
  std::unique_ptr<Bucket> make(const models::InferenceShape& shape);
  void load(const LoadGraph& load);

  const models::ModelFile& file_;
  models::CacheShape cache_;
  const SessionOptions& options_;
  backends::Backend& backend_;
  runtime::Store& store_;
  bool is_loaded_ = false;
  // The largest so far. Runs follow each other, so a bucket takes it if it is large enough.
  std::shared_ptr<backends::Memory> arena_;
  int64_t arena_bytes_ = 0;        // all arenas together
  std::vector<Bucket*> prepared_;  // sorted by tokens, rows and context
  std::map<Key, std::unique_ptr<Bucket>> buckets_;
};

}  // namespace ridge::serve
