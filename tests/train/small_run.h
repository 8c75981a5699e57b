// SPDX-License-Identifier: Apache-2.0
// A model small enough to train many times in a test, yet with all parts: two layers, grouped KV heads, a tied head.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "backends/cpu/cpu_backend.h"
#include "train/trainer.h"

namespace ridge::train {

inline models::ModelConfig small_config() {
  models::ModelConfig config;
  config.name = "test";
  config.vocabulary = 64;
  config.hidden = 32;
  config.layers = 2;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_size = 8;
  config.feed_forward = 48;
  config.context = 16;
  config.rope_interleaved = true;
  return config;
}

// A rate at which the loss moves by tenths within 20 steps, so that a wrong gradient shows.
inline StepOptions small_step() {
  StepOptions options;
  options.batch_size = 2;
  options.sequence = 16;
  options.optimizer.learning_rate = 3e-3;
  return options;
}

inline std::vector<double> losses(Trainer& trainer, int steps) {
  std::vector<double> losses;
  for (int i = 0; i < steps; ++i) losses.push_back(trainer.step().loss);
  return losses;
}

inline std::vector<double> train(const models::ModelConfig& config, const StepOptions& options, std::string_view level,
                                 std::string_view switches, int steps, int threads = 1) {
  auto backend = backends::cpu::make_cpu_backend({.threads = threads});
  Trainer trainer(config, options, passes::Selection(level, switches), *backend);
  return losses(trainer, steps);
}

inline double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double top = a.size() == b.size() ? 0 : 1e30;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) top = std::max(top, std::abs(a[i] - b[i]));
  return top;
}

}  // namespace ridge::train
