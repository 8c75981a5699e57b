// SPDX-License-Identifier: Apache-2.0
// Chooses the shapes of buckets, builds them and loads the weights.
#include "serve/bucket.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "base/error.h"
#include "graph/rewriter.h"
#include "models/inference_names.h"
#include "ops/registry.h"
#include "runtime/load.h"
#include "serve/repeated_layers.h"

namespace ridge::serve {
namespace {

// Padding costs as much as real tokens. From 128 tokens on, it adds less than an eighth.
int64_t padded_tokens(int64_t tokens) {
  if (tokens <= 4) return tokens;
  if (tokens <= 16) return round_up(tokens, 4);
  const auto power = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(tokens - 1)));
  return round_up(tokens, std::max<int64_t>(power / 8, 16));
}

// The next of 1 to 8, 10, 12, 14, 16, 20, ...: four steps in each power of two.
int64_t quarter_steps(int64_t tokens) {
  const auto power = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(tokens)));
  return round_up(tokens, std::max<int64_t>(power / 4, 1));
}

// A step that only decodes has a row for every token. Other steps have few different numbers of
// rows, because each pair of tokens and rows is another graph.
int64_t padded_rows(int64_t rows, int64_t tokens, int64_t slots) {
  if (rows == 0) return 0;
  int64_t power = 1;
  while (power < rows) power *= 4;
  return std::min({padded_tokens(rows) == tokens ? tokens : power, tokens, slots});
}

// Powers of two keep graphs few. Padding is cheap: kernels read only the positions that exist.
int64_t padded_context(int64_t context, int64_t capacity) {
  constexpr int64_t kLeast = 256;
  int64_t power =
      static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max(context, kLeast))));
  return std::min(power, capacity);
}

// The inputs and parameters that no node reads.
std::vector<ValueId> unread(const Graph& graph) {
  std::vector<bool> is_read(graph.values.size(), false);
  for (const Node& node : graph.nodes)
    for (ValueId input : node.inputs) is_read[static_cast<size_t>(input)] = true;
  std::vector<ValueId> values;
  for (size_t i = 0; i < graph.values.size(); ++i)
    if (!is_read[i] && graph.values[i].producer == kNoNode)
      values.push_back(static_cast<ValueId>(i));
  return values;
}

// The part of a graph that fills the cache. It is cut after the passes, so that weights are merged
// and repacked as in the other graphs.
Graph up_to_last_attention(const Graph& graph) {
  const auto last = std::find_if(graph.nodes.rbegin(), graph.nodes.rend(), [](const Node& node) {
    return is_a(node, ops::cached_attention_op()) || is_a(node, ops::cached_mix_op()) ||
           is_a(node, ops::append_attention_op());
  });
  RIDGE_CHECK(last != graph.nodes.rend(), "a graph with a cache has attention");
  Graph cut = graph;
  cut.nodes.resize(static_cast<size_t>(graph.nodes.rend() - last));
  cut.outputs = {last->outputs[0]};
  cut = without_dead_nodes(cut);
  return without_dead_nodes(cut, unread(cut));
}

}  // namespace

models::InferenceShape bucket_shape(models::InferenceTask task,
                                    int64_t tokens,
                                    int64_t context,
                                    int64_t rows,
                                    bool cached,
                                    const models::CacheShape& cache) {
  const bool decodes = task == models::InferenceTask::kDecode;
  const int64_t n = decodes ? cache.slots : padded_tokens(tokens);
  models::InferenceShape shape{task, n, cached ? padded_context(context, cache.full.ring()) : n,
                               cached, cache};
  if (task == models::InferenceTask::kPrefill) shape.rows = padded_rows(rows, n, cache.slots);
  return shape;
}

std::vector<models::InferenceShape> prepared_shapes(const models::CacheShape& cache,
                                                    int64_t most_tokens) {
  constexpr int64_t kFewRows = 8, kManyTokens = 64;
  std::vector<models::InferenceShape> shapes;
  const auto add = [&](int64_t tokens, int64_t rows, int64_t context) {
    shapes.push_back({models::InferenceTask::kPrefill, tokens, context, true, cache,
                      std::min({rows, tokens, cache.slots})});
  };
  const int64_t ring = cache.full.ring();
  for (int64_t context = 1; context <= ring; context = padded_context(context, ring) + 1)
    add(1, 1, padded_context(context, ring));
  for (int64_t tokens = 1; tokens < most_tokens;) {
    tokens = std::min(quarter_steps(tokens + 1), most_tokens);
    if (tokens > kManyTokens && cache.slots > kFewRows) add(tokens, kFewRows, ring);
    add(tokens, tokens, ring);
  }
  std::ranges::reverse(shapes);
  return shapes;
}

std::string bucket_title(const models::InferenceShape& shape) {
  return fmt::format("inference of {}, context {}", shape.tokens, shape.context);
}

BucketGraph build_bucket(const models::ModelFile& file,
                         const models::InferenceShape& shape,
                         const passes::Selection& selection,
                         const passes::PassTarget& target,
                         int64_t rank,
                         const ModelStage& stage) {
  models::InferenceShape with_rows = shape;
  if (shape.rows == 0) with_rows.rows = 1;
  models::ForwardGraph forward =
      models::build_inference_graph(file.config(), ops::table(), with_rows, file.lookup());
  BucketGraph built{{}, std::move(forward.load)};
  built.load.rank = rank;
  built.graph =
      stage.is_whole() ? std::move(forward.graph) : cut_stage(forward.graph, stage, built.load);
  passes::PassContext context{ops::table(), target, built.load, nullptr, target.passes()};
  for (const passes::Stage each :
       {passes::Stage::kForward, passes::Stage::kStep, passes::Stage::kTarget})
    built.graph = passes::run_stage(each, built.graph, selection, context, nullptr);
  if (shape.rows != 0 && !stage.is_whole()) share_results(built.graph, forward.graph, stage);
  if (shape.rows == 0 && stage.is_last()) built.graph = up_to_last_attention(built.graph);
  return built;
}

Graph planned_bucket(const models::ModelFile& file,
                     const models::InferenceShape& shape,
                     const passes::Selection& selection,
                     const passes::PassTarget& target) {
  // Stored layers may differ in their types.
  const auto few = file.has_weights() ? std::nullopt : with_few_layers(file.config());
  if (!few) return build_bucket(file, shape, selection, target).graph;
  const models::ModelFile thin = models::ModelFile::of_shape(*few);
  const Graph graph = build_bucket(thin, shape, selection, target).graph;
  if (std::optional<Graph> all = with_all_layers(graph, *few, file.config()))
    return *std::move(all);
  return build_bucket(file, shape, selection, target).graph;
}

Bucket::Bucket(const models::InferenceShape& shape,
               Graph graph,
               backends::Backend& backend,
               runtime::Store& store,
               std::shared_ptr<backends::Memory> arena)
    : shape_(shape),
      store_(store),
      program_(backend, store),
      padded_(static_cast<size_t>(std::max(shape.tokens, shape.row_count()))) {
  for (std::string_view name : {models::kIds, models::kPositions, models::kSlots, models::kLabels})
    names_.emplace_back(name, models::bucket_input(name, shape.tokens));
  for (std::string_view name : {models::kRows, models::kRowSlots})
    names_.emplace_back(name, models::bucket_input(name, shape.row_count()));
  program_.add(bucket_title(shape), std::move(graph));
  program_.bind(std::move(arena));
}

const std::string& Bucket::input(std::string_view name) const {
  return std::ranges::find(names_, name, &std::pair<std::string_view, std::string>::first)->second;
}

void Bucket::write(std::string_view name, std::span<const int32_t> values) {
  const std::string& input = this->input(name);
  if (!store_.has(input)) return;
  const auto extent = static_cast<size_t>(store_.type(input).shape[0]);
  RIDGE_CHECK(values.size() <= extent, "{} of {} in a bucket of {}", name, values.size(), extent);
  std::fill_n(std::ranges::copy(values, padded_.begin()).out, extent - values.size(), -1);
  store_.write_input(input, padded_.data(), static_cast<int64_t>(extent * sizeof(int32_t)));
}

Bucket& BucketCache::built(const models::InferenceShape& shape) {
  const Key key(shape.task, shape.tokens, shape.row_count(), shape.context);
  if (const auto found = buckets_.find(key); found != buckets_.end()) return *found->second;
  return *buckets_.emplace(key, make(shape)).first->second;
}

Bucket& BucketCache::prepare(const models::InferenceShape& shape) {
  Bucket& bucket = built(shape);
  prepared_.push_back(&bucket);
  std::ranges::sort(prepared_, {}, [](const Bucket* each) {
    return std::tuple(each->shape().tokens, each->shape().row_count(), each->shape().context);
  });
  return bucket;
}

Bucket& BucketCache::at(models::InferenceTask task, int64_t tokens, int64_t context, int64_t rows) {
  const auto covers = [&](const Bucket* each) {
    const models::InferenceShape& shape = each->shape();
    return shape.task == task && shape.tokens >= tokens && shape.row_count() >= rows &&
           shape.context >= context;
  };
  if (const auto found = std::ranges::find_if(prepared_, covers); found != prepared_.end())
    return **found;
  return built(bucket_shape(task, tokens, context, rows, options_.cached, cache_));
}

std::shared_ptr<const cost::CostedGraph> BucketCache::planned(
    const models::InferenceShape& shape) const {
  return cost::program_graph(bucket_title(shape),
                             planned_bucket(file_, shape, options_.selection, backend_), 1,
                             backend_)
      .costed;
}

std::unique_ptr<Bucket> BucketCache::make(const models::InferenceShape& shape) {
  BucketGraph built =
      build_bucket(file_, shape, options_.selection, backend_, options_.rank, options_.stage);
  if (!is_loaded_) load(built.load);
  is_loaded_ = true;
  auto made = std::make_unique<Bucket>(shape, std::move(built.graph), backend_, store_, arena_);
  if (made->program().arena() != arena_) {
    arena_ = made->program().arena();
    arena_bytes_ += arena_->bytes();
  }
  return made;
}

// If kernels read host memory, weights are copied if there is room for them in addition to the KV
// cache: GEMMs read large pages faster than the pages of a mapped file (on two cores 33 GB/s
// against 25). The pages of the file are released as they are copied, so the copies take their
// place. A quarter more must be free, because the system can take back a file's pages when memory
// runs short, but not copies.
void BucketCache::load(const LoadGraph& load) {
  if (!file_.has_weights()) return runtime::load_random_weights(load, store_);
  const bool is_read_in_place = backend_.borrow({}) != nullptr;
  const int64_t cache_bytes = options_.cached ? models::cache_bytes(file_.config(), cache_) : 0;
  const int64_t needed_bytes = file_.file_bytes() + file_.file_bytes() / 4;
  const bool copies = is_read_in_place && backend_.available_bytes() - cache_bytes > needed_bytes;
  runtime::load_stored(
      load,
      {.bytes = [this](const std::string& name) { return file_.bytes(name); },
       .expect = [this](std::span<const std::byte> bytes) { file_.expect(bytes); },
       .release = [this](std::span<const std::byte> bytes) { file_.release(bytes); },
       .keep = [this](std::span<const std::byte> bytes) { file_.keep(bytes); },
       .copies = copies},
      store_);
  if (!copies) return;
  // All weights are copies now, so that also pages that two tensors share can be released.
  for (std::span<const std::byte> part : file_.file_parts()) file_.release(part);
}

}  // namespace ridge::serve
