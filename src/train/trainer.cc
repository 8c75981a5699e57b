// SPDX-License-Identifier: Apache-2.0
// Setting up and stepping.
#include "train/trainer.h"

#include <chrono>
#include <map>
#include <utility>

#include "base/error.h"
#include "ops/registry.h"
#include "runtime/load.h"

namespace ridge::train {

Trainer::Trainer(const models::ModelConfig& config,
                 const StepOptions& options,
                 const passes::Selection& selection,
                 backends::Backend& backend)
    : config_(config),
      options_(options),
      backend_(backend),
      step_(build_step(config, options, selection, ops::table(), backend)),
      store_(backend),
      program_(backend, store_),
      data_(config.vocabulary, options.sequence, kWorkshopSeed) {
  for (StepGraph& each : step_.graphs)
    program_.add(each.name, each.graph, static_cast<int>(each.repeat));
  std::map<std::string, std::vector<float>> weights;
  draw_weights(config, kWorkshopSeed, [&](const std::string& name, std::vector<float> data) {
    weights[name] = std::move(data);
  });
  runtime::load_parameters(
      step_.load,
      [&](const std::string& name, const Type&) {
        auto found = weights.find(name);
        RIDGE_CHECK(found != weights.end(), "no weight '{}' was drawn", name);
        return found->second;
      },
      store_);
  program_.bind();
}

void Trainer::write_batch() {
  if (!next_batch_) next_batch_ = data_.next(options_.batch_size);
  WorkshopData::Batch batch = *std::exchange(next_batch_, std::nullopt);
  auto write = [&](const char* name, const std::vector<int32_t>& values) {
    store_.write(name, values.data(), static_cast<int64_t>(values.size() * sizeof(int32_t)));
  };
  write("ids", batch.ids);
  write("positions", batch.positions);
  write("labels", batch.labels);
}

StepResult Trainer::step(bool profiled) {
  auto begin = std::chrono::steady_clock::now();
  StepResult result;
  ++taken_;
  store_.write_scalar("learning_rate",
                      static_cast<float>(learning_rate(options_.optimizer, taken_)));
  store_.write_scalar("step", static_cast<float>(taken_));
  for (int i = 0; i < program_.stages(); ++i) {
    const runtime::Stage& stage = program_.stage(i);
    for (int k = 0; k < stage.repeat; ++k) {
      bool has_loss = !stage.graph.outputs.empty();
      if (has_loss) write_batch();
      if (profiled)
        result.profiles.push_back(program_.run_profiled(i));
      else
        program_.run(i);
      // While the device computes.
      if (has_loss) next_batch_ = data_.next(options_.batch_size);
      if (has_loss)
        result.loss +=
            static_cast<double>(program_.read(i, stage.graph.outputs[0])[0]) / stage.repeat;
    }
  }
  program_.wait();
  result.elapsed_ns =
      std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
  for (const perf::ProfiledRun& run : result.profiles) result.elapsed_ns -= run.instrument_ns;
  return result;
}

}  // namespace ridge::train
