// SPDX-License-Identifier: Apache-2.0
// Texts that a model in training generates on the way, from the weights as they are. Training goes
// on as if there were none.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "models/tokenizer_file.h"
#include "passes/pipeline.h"
#include "record/training_record.h"
#include "serve/sampling.h"
#include "text/tokenizer.h"
#include "train/observer.h"

namespace ridge::measure {

struct SampleOptions {
  int64_t every = 0;   // steps; 0: no samples
  std::string prompt;  // empty: the tokenizer's first token, or the end of a line
  int64_t tokens = 64;
  serve::SamplingOptions sampling{.temperature = 0.8};
  bool are_on() const { return every > 0; }
};
void validate(const SampleOptions& options);  // throws usage Errors

// How the texts are generated: on a backend of their own.
struct SampleMachine {
  passes::Selection selection;
  std::unique_ptr<backends::Backend> backend;
};

// Generates a text each `every` steps and after the last one.
class TrainingSamples final : public train::Observer {
 public:
  using Listener = std::function<void(const record::TrainingSample&)>;
  // Throws usage Errors: there is no tokenizer (null), or the prompt does not fit the context.
  TrainingSamples(const SampleOptions& options,
                  SampleMachine machine,
                  const models::TokenizerFile* tokenizer,
                  int64_t context);
  ~TrainingSamples() override;

  // From now on, after `first` steps, of which there is no text. The listener is called with each
  // text. The trainer must outlive this object.
  void begin(const train::Trainer& trainer, int64_t first, Listener listener);

  bool is_due(int64_t next) override;
  void work(int64_t steps) override;
  void end(int64_t steps) override { work(steps); }

 private:
  // The same weights give the same text.
  record::TrainingSample generate(int64_t steps);

  const SampleOptions& o_;
  text::Tokenizer tokenizer_;
  std::vector<int32_t> prompt_;
  SampleMachine machine_;
  const train::Trainer* trainer_ = nullptr;
  int64_t first_ = 0, sampled_ = -1;
  Listener listener_;
};

}  // namespace ridge::measure
