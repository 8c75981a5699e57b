// SPDX-License-Identifier: Apache-2.0
// A model that is small enough to train many times in a test, but has all parts: two layers,
// grouped KV heads, a tied head.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cpu/cpu_backend.h"
#include "base/error.h"
#include "models/llama_shape.h"
#include "models/parameter_list.h"
#include "runtime/load.h"
#include "train/synthetic_data.h"
#include "train/trainer.h"
#include "train/training_loop.h"

namespace ridge::train {

// For INSTANTIATE_TEST_SUITE_P over the optimization levels.
inline auto every_level() { return testing::Values("baseline", "fused", "kernels", "compiled"); }
template <typename Level>
std::string level_name(const testing::TestParamInfo<Level>& level) {
  return level.param;
}

inline models::ModelConfig small_config() {
  models::ModelConfig config = models::llama_shape("test", {64, 32, 2, 4, 2, 8, 48, 16});
  config.rope_interleaved = true;
  return config;
}

// All parts of Gemma 3: windows shorter than the sequence, two rotations, norms with 1 + w before
// and after each half and on heads, a gated GELU, a scale of the embedding.
inline models::ModelConfig small_gemma() {
  models::ModelConfig config = models::llama_shape("gemma", {64, 32, 3, 4, 2, 8, 48, 16});
  config.family = models::Family::kGemma3;
  config.norm_offset = 1;
  config.is_window_layer = {true, true, false};
  config.window = 6;
  config.rope_theta = 1e6;
  config.attention_scale = 0.3;
  return config;
}

inline StepOptions small_step(double learning_rate = 3e-4) {
  StepOptions options;
  options.batch_size = 2;
  options.sequence = 16;
  options.optimizer.learning_rate = learning_rate;
  return options;
}
// At this rate FixedRun's loss falls from 5 to 0.06 within 20 steps.
inline constexpr double kLearningByHeart = 1e-2;

inline SyntheticData synthetic_data(const Trainer& trainer) {
  return {trainer.config().vocabulary, trainer.options().sequence, kSyntheticSeed};
}

// Runs the steps from `first` up to `end` without measuring. Each begins before the previous one is
// finished, as in a training.
inline void run_loop(Trainer& trainer,
                     BatchSource& data,
                     int64_t first,
                     int64_t end,
                     const std::function<void(int64_t step, const StepResult&)>& report) {
  for (int64_t step = first; step < end; ++step) {
    trainer.begin_step(read_step(data, trainer.options()));
    if (step > first) report(step - 1, trainer.finish_step());
  }
  if (first < end) report(end - 1, trainer.finish_step());
}

inline std::vector<double> losses(Trainer& trainer, SyntheticData& data, int64_t steps) {
  std::vector<double> losses;
  run_loop(trainer, data, 0, steps,
           [&](int64_t, const StepResult& result) { losses.push_back(result.loss); });
  return losses;
}
inline std::vector<double> losses(Trainer& trainer, int64_t steps) {
  SyntheticData data = synthetic_data(trainer);
  return losses(trainer, data, steps);
}

inline std::unique_ptr<backends::Backend> cpu_backend(int threads) {
  backends::cpu::CpuOptions options;
  options.threads = threads;
  return backends::cpu::make_cpu_backend(options);
}

inline std::vector<double> train(const models::ModelConfig& config,
                                 const StepOptions& options,
                                 std::string_view level,
                                 std::string_view switches,
                                 int steps,
                                 int threads = 1) {
  auto backend = cpu_backend(threads);
  Trainer trainer({config, options, passes::Selection(level, switches)}, *backend);
  return losses(trainer, steps);
}

inline double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double top = a.size() == b.size() ? 0 : 1e30;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    top = std::max(top, std::abs(a[i] - b[i]));
  return top;
}

using Weights = std::map<std::string, std::vector<float>>;

// Weights by their names in a file, large enough that attention is far from uniform and every
// gradient matters. Each is moved by up to `noise` of its value.
inline Weights lively_weights(const models::ModelConfig& config, double noise = 0) {
  Weights weights;
  Random random(6), noise_random(7);
  const auto one = static_cast<float>(1 - config.norm_offset);
  for (const InitialWeight& initial : initial_weights(config, 1)) {
    const std::string& name = initial.name;
    std::vector<float> data = initial.draw();
    const bool is_norm = models::is_norm(name);
    random.fill_normal(data, is_norm ? 0.1f : 0.25f);
    for (float& x : data) {
      x += is_norm ? one : 0;
      if (noise > 0)
        x *= static_cast<float>(1 + noise * (2 * static_cast<double>(noise_random.uniform()) - 1));
    }
    weights[name] = std::move(data);
  }
  return weights;
}

// Runs the graphs of a step on batches that the test chooses. The model learns a few repeated rows
// by heart within tens of steps, so that a wrong gradient shows in the loss.
class FixedRun {
 public:
  FixedRun(const models::ModelConfig& config,
           const StepOptions& options,
           std::string_view level,
           std::string_view switches,
           int threads = 1,
           double noise = 0)
      : options_(options),
        backend_(cpu_backend(threads)),
        step_(build_step({config, options, passes::Selection(level, switches)}, *backend_)),
        store_(*backend_),
        program_(*backend_, store_),
        weights_(lively_weights(config, noise)) {
    for (StepGraph& each : step_.graphs)
      program_.add(each.name, each.graph, static_cast<int>(each.repeat));
    runtime::load_parameters(
        step_.load,
        [&](const std::string& name, const Type& type) {
          return passes::is_lora(name) ? initial_adapter(name, type.shape, 1) : weights_.at(name);
        },
        store_);
    program_.bind();
    if (has_loss_scale(store_)) write_loss_scale(store_, {options.loss_scaling.initial});
    SyntheticData data(config.vocabulary, options.sequence, 3);
    for (int i = 0; i < 8; ++i) rows_.push_back(data.next(1));
  }

  // Runs a step on the rows first, first + 1, ...; micro-batches take consecutive rows.
  double step(size_t first = 0) {
    ++taken_;
    store_.write_scalar("learning_rate",
                        static_cast<float>(learning_rate(options_.optimizer, taken_)));
    store_.write_scalar("step", static_cast<float>(taken_));
    double loss = 0;
    size_t row = first;
    for (int i = 0; i < static_cast<int>(program_.graphs().size()); ++i) {
      const cost::ProgramGraph& each = program_.graph(i);
      for (int k = 0; k < each.repeat; ++k) {
        bool has_loss = step_.graphs[static_cast<size_t>(i)].has_loss;
        if (has_loss) write_rows(row);
        row += static_cast<size_t>(options_.batch_size);
        program_.run(i);
        if (has_loss)
          loss += static_cast<double>(program_.read(i, each.graph().outputs[0])[0]) /
                  static_cast<double>(each.repeat);
      }
    }
    return loss;
  }

  std::vector<double> steps(int count) {
    std::vector<double> losses;
    for (int i = 0; i < count; ++i) losses.push_back(step());
    return losses;
  }

  // Parameters as in a checkpoint.
  Weights weights() const {
    Weights saved;
    runtime::save_parameters(step_.load, store_,
                             [&](const std::string& name, const Type&, std::vector<float> data) {
                               saved[name] = std::move(data);
                             });
    return saved;
  }

  const TrainingStep& graphs() const { return step_; }
  const runtime::Program& program() const { return program_; }
  runtime::Store& store() { return store_; }

 private:
  void write_rows(size_t first) {
    std::vector<int32_t> ids, positions, labels;
    for (int64_t i = 0; i < options_.batch_size; ++i) {
      const Batch& row = rows_[(first + static_cast<size_t>(i)) % rows_.size()];
      ids.insert(ids.end(), row.ids.begin(), row.ids.end());
      positions.insert(positions.end(), row.positions.begin(), row.positions.end());
      labels.insert(labels.end(), row.labels.begin(), row.labels.end());
    }
    auto write = [&](const char* name, const std::vector<int32_t>& values) {
      store_.write(name, values.data(), static_cast<int64_t>(values.size() * sizeof(int32_t)));
    };
    write("ids", ids);
    write("positions", positions);
    write("labels", labels);
  }

  StepOptions options_;
  std::unique_ptr<backends::Backend> backend_;
  TrainingStep step_;
  runtime::Store store_;
  runtime::Program program_;
  Weights weights_;
  std::vector<Batch> rows_;
  int64_t taken_ = 0;
};

}  // namespace ridge::train
