// SPDX-License-Identifier: Apache-2.0
// The graphs of prefill and decode without a session, and their counts.
#include "serve/phase_plan.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>

#include "serve/bucket.h"
#include "serve/session.h"

namespace ridge::serve {
namespace {

// What most multiply-adds are made in: where a group of products rounds its input, in that.
std::string multiplied_in(std::span<const record::CountedGraph> graphs, const std::string& dtype) {
  std::map<std::string, int64_t> macs;
  for (const record::CountedGraph& each : graphs)
    for (size_t i = 0; i < each.graph->nodes.size(); ++i) {
      std::optional<DType> rounded = cost::rounded_to(each.graph->nodes[i]);
      macs[rounded ? std::string(name(*rounded)) : dtype] +=
          each.repeat * (*each.costs)[i].work.macs;
    }
  auto most = std::max_element(macs.begin(), macs.end(),
                               [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == macs.end() ? dtype : most->first;
}

// Tokens of one run, and the positions that they reach.
struct Chunk {
  int64_t tokens = 0;
  int64_t reach = 0;
};

// As Session::start cuts prompts of one length: a chunk holds the ends and beginnings of several,
// but goes no further than one that it leaves unfinished.
std::vector<Chunk> prefill_chunks(int64_t batch, int64_t length, int64_t most) {
  std::vector<Chunk> chunks;
  for (int64_t prompt = 0, done = 0; prompt < batch;) {
    Chunk chunk;
    while (prompt < batch && chunk.tokens < most) {
      int64_t taken = std::min(length - done, most - chunk.tokens);
      chunk.tokens += taken, done += taken;
      chunk.reach = std::max(chunk.reach, done);
      if (done < length) break;
      ++prompt, done = 0;
    }
    chunks.push_back(chunk);
  }
  return chunks;
}

// Graphs by shape, made when first asked for, as a session's buckets are.
class Planner {
 public:
  Planner(const models::ModelFile& file, const Experiment& e, const passes::PassTarget& target)
      : file_(file), e_(e), target_(target) {
    SessionOptions options = checked(session_options(e, e.length), file.config());
    chunk_ = options.chunk;
    cache_ = models::contiguous_cache(options.slots, options.capacity, file.config().window,
                                      options.chunk);
  }

  // Each graph once, however its runs and others' take turns.
  std::vector<record::CountedGraph> prefill() {
    std::vector<record::CountedGraph> graphs;
    for (const Chunk& chunk : prefill_chunks(e_.batch, e_.length, chunk_)) {
      record::CountedGraph one =
          counted(at(models::InferenceTask::kPrefill, chunk.tokens, chunk.reach));
      auto found = std::find_if(graphs.begin(), graphs.end(),
                                [&](const auto& each) { return each.graph == one.graph; });
      if (found != graphs.end())
        ++found->repeat;
      else
        graphs.push_back(std::move(one));
    }
    return graphs;
  }

  std::vector<record::CountedGraph> decode() {
    return {counted(at(models::InferenceTask::kDecode, e_.batch, e_.length))};
  }

  // Of all graphs so far: one store, an arena each.
  int64_t owned_bytes() const {
    std::vector<record::PlannedGraph> graphs;
    int64_t arenas = 0;
    for (const Planned& each : planned_) {
      graphs.push_back({each.stage.name, &each.stage.graph, &each.stage.plan});
      arenas += each.stage.plan.arena_bytes;
    }
    record::MemoryRecord memory = record::planned_memory(graphs);
    return memory.owned_bytes - memory.arena_bytes + arenas;
  }

 private:
  struct Planned {
    models::InferenceShape shape;
    runtime::Stage stage;
  };

  const Planned& at(models::InferenceTask task, int64_t tokens, int64_t context) {
    models::InferenceShape shape = bucket_shape(task, tokens, context, true, cache_);
    for (const Planned& each : planned_)
      if (each.shape.task == task && each.shape.tokens == shape.tokens &&
          each.shape.context == shape.context)
        return each;
    BucketGraph built = build_bucket(file_, shape, e_.selection, target_);
    planned_.push_back(
        {shape, runtime::plan_stage(kBucketStage, std::move(built.graph), 1, target_)});
    return planned_.back();
  }

  static record::CountedGraph counted(const Planned& planned) {
    record::CountedGraph graph = runtime::counted(planned.stage);
    graph.name = bucket_title(planned.shape);
    return graph;
  }

  const models::ModelFile& file_;
  const Experiment& e_;
  const passes::PassTarget& target_;
  int64_t chunk_ = 0;
  models::CacheShape cache_;
  std::deque<Planned> planned_;  // graphs stay where they are
};

}  // namespace

std::vector<record::MeasuredGraph> count_phase(const Experiment& e,
                                               const models::ModelConfig& config,
                                               const char* task,
                                               std::span<const record::CountedGraph> graphs,
                                               const plan::Target& target,
                                               const cost::Ceilings* ceilings,
                                               record::RunRecord& record) {
  record.setting = e.setting;
  record.setting.task = task;
  record.setting.batch_size = e.batch;
  record.setting.sequence = e.length;
  record.setting.dtype = multiplied_in(graphs, e.setting.dtype);
  record.parameters = config.parameters();
  for (const record::CountedGraph& each : graphs)
    record.weight_bytes =
        std::max(record.weight_bytes, cost::parameter_bytes(*each.graph, *each.places));
  record.cache_bytes = e.batch * models::seen_bytes(config, e.length, e.selection.activations());
  return record::count_graphs(graphs, target, ceilings, record);
}

PhasePlan plan_phases(const models::ModelFile& file,
                      const Experiment& e,
                      const passes::PassTarget& target,
                      const cost::Ceilings* ceilings) {
  Planner planner(file, e, target);
  PhasePlan plan;
  count_phase(e, file.config(), "prefill", planner.prefill(), target, ceilings,
              plan.records.prefill);
  count_phase(e, file.config(), "decode", planner.decode(), target, ceilings, plan.records.decode);
  plan.owned_bytes = planner.owned_bytes();
  return plan;
}

int64_t session_bytes(const models::ModelFile& file,
                      const Experiment& e,
                      const passes::PassTarget& target) {
  Planner planner(file, e, target);
  planner.prefill();
  planner.decode();
  return planner.owned_bytes();
}

}  // namespace ridge::serve
