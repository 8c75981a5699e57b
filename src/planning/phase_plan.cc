// SPDX-License-Identifier: Apache-2.0
// Builds and counts the graphs of prefill and decode without a session.
#include "planning/phase_plan.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "base/arena.h"
#include "serve/bucket.h"

namespace ridge::planning {
namespace {

// Runs of prefill with the same number of tokens. The positions of the first run end at `reach`;
// those of each further run end one run's tokens later.
struct Chunks {
  int64_t tokens = 0;
  int64_t reach = 0;
  int64_t count = 0;
  int64_t rows = 0;  // prompts that end in each of them
};

// Splits prompts of one length like serve::Session::start: a chunk may span several prompts, but it
// ends at a prompt that it leaves unfinished.
std::vector<Chunks> prefill_chunks(int64_t batch, int64_t length, int64_t most) {
  std::vector<Chunks> all;
  for (int64_t prompt = 0, done = 0; prompt < batch;) {
    if (const int64_t full = (length - done) / most; full > 0) {
      const bool ends = done + full * most == length;
      if (full > ends) all.push_back({most, done + most, full - ends});
      if (ends) all.push_back({most, length, 1, 1});
      done += full * most;
      if (ends) ++prompt, done = 0;
      continue;
    }
    Chunks chunk{0, 0, 1};
    while (prompt < batch && chunk.tokens < most) {
      int64_t taken = std::min(length - done, most - chunk.tokens);
      chunk.tokens += taken, done += taken;
      chunk.reach = std::max(chunk.reach, done);
      if (done < length) break;
      ++chunk.rows, ++prompt, done = 0;
    }
    all.push_back(chunk);
  }
  return all;
}

// Graphs by shape, built on first use, like a session's buckets.
class PhasePlanner {
 public:
  PhasePlanner(const models::ModelFile& file,
               const serve::PhaseSetup& e,
               const passes::PassTarget& target)
      : file_(file), e_(e), target_(target) {
    serve::SessionOptions options =
        serve::checked(serve::session_options(e, e.length), file.config());
    chunk_ = options.chunk;
    cache_ = serve::cache_of(options, file.config());
  }

  // Returns each distinct graph once, with its number of runs.
  std::vector<cost::ProgramGraph> prefill() {
    std::vector<cost::ProgramGraph> graphs;
    for (Chunks chunks : prefill_chunks(e_.batch, e_.length, chunk_))
      while (chunks.count > 0) {
        const int64_t count = chunks_alike(chunks);
        add(graphs, at(models::InferenceTask::kPrefill, chunks.tokens, chunks.reach, chunks.rows),
            count);
        chunks.count -= count;
        chunks.reach += count * chunks.tokens;
      }
    return graphs;
  }

  std::vector<cost::ProgramGraph> decode() {
    return {at(models::InferenceTask::kDecode, e_.batch, e_.length, e_.batch)};
  }

  // The bytes of the parameters of all graphs so far, which share one store.
  std::map<DType, int64_t> held_bytes() const {
    std::map<DType, int64_t> bytes;
    for (const auto& [name, value] : stored())
      if (value->storage == Storage::kParameter)
        bytes[value->type.dtype] += storage_bytes(value->type.dtype, value->type.shape.elements());
    return bytes;
  }

  // Owned memory of all graphs so far: one store, and the arenas. As in a session, a graph takes
  // the largest arena before it if that is large enough.
  int64_t owned_bytes() const {
    int64_t bytes = 0;
    for (const auto& [name, value] : stored()) {
      const int64_t size = storage_bytes(value->type.dtype, value->type.shape.elements());
      bytes += round_up(std::max<int64_t>(size, 1), kAlignmentBytes);
    }
    return bytes + arena_bytes_;
  }

 private:
  // The values in the store, by name.
  std::unordered_map<std::string_view, const Value*> stored() const {
    std::unordered_map<std::string_view, const Value*> all;
    for (const auto& [key, graph] : planned_)
      for (const Value& value : graph.graph().values)
        if (value.storage != Storage::kTemporary && value.producer == kNoNode)
          all.try_emplace(value.name, &value);
    return all;
  }

  models::InferenceShape shape_of(models::InferenceTask task,
                                  int64_t tokens,
                                  int64_t context,
                                  int64_t rows) const {
    return serve::bucket_shape(task, tokens, context, rows, true, cache_);
  }

  // The first chunks that run in one bucket, found by bisection: longer contexts never take smaller
  // buckets, and a long prompt has many more chunks than buckets.
  int64_t chunks_alike(const Chunks& chunks) const {
    auto context = [&](int64_t chunk) {
      return shape_of(models::InferenceTask::kPrefill, chunks.tokens,
                      chunks.reach + chunk * chunks.tokens, chunks.rows)
          .context;
    };
    int64_t alike = 1, other = chunks.count;
    while (alike < other) {
      const int64_t middle = alike + (other - alike) / 2;
      if (context(middle) == context(0))
        alike = middle + 1;
      else
        other = middle;
    }
    return alike;
  }

  static void add(std::vector<cost::ProgramGraph>& graphs,
                  const cost::ProgramGraph& graph,
                  int64_t count) {
    auto found = std::find_if(graphs.begin(), graphs.end(),
                              [&](const auto& each) { return each.costed == graph.costed; });
    if (found == graphs.end()) {
      graphs.push_back(graph);
      graphs.back().repeat = count;
    } else {
      found->repeat += count;
    }
  }

  const cost::ProgramGraph& at(models::InferenceTask task,
                               int64_t tokens,
                               int64_t context,
                               int64_t rows) {
    models::InferenceShape shape = shape_of(task, tokens, context, rows);
    auto [found, is_new] =
        planned_.try_emplace({task, shape.tokens, shape.context, shape.row_count()});
    if (is_new) {
      found->second = cost::program_graph(
          serve::bucket_title(shape), serve::planned_bucket(file_, shape, e_.selection, target_), 1,
          target_);
      if (const int64_t bytes = found->second.costed->memory.arena_bytes; bytes > largest_arena_) {
        arena_bytes_ += bytes;
        largest_arena_ = bytes;
      }
    }
    return found->second;
  }

  const models::ModelFile& file_;
  const serve::PhaseSetup& e_;
  const passes::PassTarget& target_;
  int64_t chunk_ = 0;
  models::CacheShape cache_;
  // By task, tokens, context and rows.
  std::map<std::tuple<models::InferenceTask, int64_t, int64_t, int64_t>, cost::ProgramGraph>
      planned_;
  int64_t arena_bytes_ = 0, largest_arena_ = 0;
};

}  // namespace

record::PhasePlan plan_phases(const models::ModelFile& file,
                              const serve::PhaseSetup& e,
                              const passes::PassTarget& target,
                              const cost::Ceilings* ceilings) {
  PhasePlanner planner(file, e, target);
  record::PhasePlan plan{{serve::begin_phase(e, "prefill", file.config()),
                          serve::begin_phase(e, "decode", file.config())},
                         0,
                         {}};
  serve::count_phase(planner.prefill(), ceilings, plan.records.prefill);
  serve::count_phase(planner.decode(), ceilings, plan.records.decode);
  plan.owned_bytes = planner.owned_bytes();
  plan.held_bytes = planner.held_bytes();
  return plan;
}

int64_t session_bytes(const models::ModelFile& file,
                      const serve::PhaseSetup& e,
                      const passes::PassTarget& target) {
  PhasePlanner planner(file, e, target);
  planner.prefill();
  planner.decode();
  return planner.owned_bytes();
}

}  // namespace ridge::planning
