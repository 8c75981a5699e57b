// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: any bytes as a config.json. A configuration of small extents is built,
// rewritten by the passes, planned and counted, for training and for inference. The parameters of
// the graphs must be those of the closed form, and no pass may change the model's work.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "backends/null/null_backend.h"
#include "cost/costed_graph.h"
#include "files/json.h"
#include "fuzz/refusal.h"
#include "graph/verifier.h"
#include "models/config_json.h"
#include "models/forward_graph.h"
#include "models/parameter_list.h"
#include "ops/registry.h"
#include "train/step.h"

namespace {

using namespace ridge;  // NOLINT: a program of one file
using fuzz::expect;
using models::InferenceTask;

constexpr int64_t kChunk = 8, kSlots = 2;

// Small enough that an input takes milliseconds; larger extents follow the same code.
bool is_small(const models::ModelConfig& c) {
  return c.layers <= 2 && c.heads <= 16 && c.hidden <= 1024 && c.head_size <= 256 &&
         c.feed_forward <= 4096 && c.vocabulary <= 65536;
}

const passes::PassTarget& target() {
  static const auto null = backends::null::make_null_target();
  return *null;
}

void expect_sound(const cost::CostedGraph& costed) {
  expect(costed.memory.arena_bytes >= 0);
  for (const cost::NodeCost& each : costed.costs)
    expect(each.work.flops >= 0 && each.read_bytes >= 0 && each.written_bytes >= 0 &&
           each.launches >= 0);
}

Work planned_training(const models::ModelConfig& config, const passes::Selection& selection) {
  train::StepOptions options;
  options.batch_size = 2;
  options.sequence = std::clamp<int64_t>(config.context, 2, kChunk);
  const train::TrainingStep step = train::build_step({config, options, selection}, target());
  Work model;
  for (const train::StepGraph& each : step.graphs) {
    const cost::ProgramGraph program =
        cost::program_graph(each.name, each.graph, each.repeat, target());
    expect_sound(*program.costed);
    model = model + cost::model_totals(program.graph()).step();
  }
  return model;
}

Work planned_inference(const models::ModelConfig& config,
                       const models::InferenceShape& shape,
                       const passes::Selection& selection) {
  models::ForwardGraph forward = models::build_inference_graph(
      config, ops::table(), shape, [](const std::string& parameter, const Shape& each) {
        return models::StoredWeight{parameter, each.rank() == 2 ? DType::kBF16 : DType::kF32};
      });
  verify(forward.graph);
  passes::PassContext context{ops::table(), target(), forward.load, nullptr, target().passes()};
  Graph graph = std::move(forward.graph);
  for (passes::Stage stage :
       {passes::Stage::kForward, passes::Stage::kStep, passes::Stage::kTarget})
    graph = passes::run_stage(stage, graph, selection, context, nullptr);
  const cost::ProgramGraph program = cost::program_graph("fuzz", std::move(graph), 1, target());
  expect_sound(*program.costed);
  return cost::model_totals(program.graph()).step();
}

// The model's work in a training step, or in a bucket of inference.
Work planned(const models::ModelConfig& config,
             bool trains,
             InferenceTask task,
             const char* level) {
  // GPUs multiply weights in bf16 by activations in bf16.
  const passes::Selection selection(level, trains ? "" : "+store_bf16,+autocast_bf16");
  if (trains) return planned_training(config, selection);
  const int64_t capacity = std::min<int64_t>(config.context, 64),
                chunk = std::min(kChunk, capacity);
  const models::CacheShape cache = models::cache_shape(
      {.slots = kSlots, .capacity = capacity, .window = config.window, .chunk = chunk});
  const int64_t tokens = task == InferenceTask::kDecode ? kSlots : chunk;
  return planned_inference(config, {task, tokens, capacity, true, cache}, selection);
}

// `choice` is the kind of graph: all would take three times as long.
void use(const models::ModelConfig& config, size_t choice) {
  int64_t elements = 0;
  for (const models::Parameter& each : models::parameters_of(config))
    elements += each.shape.elements();
  expect(elements == config.parameters());
  const bool trains = choice % 3 == 0 && config.family == models::Family::kLlama;
  const InferenceTask task = choice % 3 == 1 ? InferenceTask::kPrefill : InferenceTask::kDecode;
  expect(planned(config, trains, task, "baseline").flops ==
         planned(config, trains, task, "compiled").flops);
}

void read(std::string_view text) {
  const models::ModelConfig config =
      models::parse_config(files::parse_json(text, "fuzz.json"), "fuzz.json");
  expect(config.parameters() > 0 && config.parameters() <= models::kMostParameters);
  if (is_small(config)) use(config, text.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::allow_refusal([&] { read({reinterpret_cast<const char*>(data), size}); });
  return 0;
}
