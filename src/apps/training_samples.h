// SPDX-License-Identifier: Apache-2.0
// Texts that ridge train generates on the way, from the weights as they are. Training goes on as if
// there were none. Not a subcommand.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "apps/model_options.h"
#include "models/tokenizer_file.h"
#include "serve/sampling.h"
#include "text/tokenizer.h"
#include "train/trainer.h"

namespace ridge::apps {

struct SampleOptions {
  int64_t every = 0;   // steps; 0: no samples
  std::string prompt;  // empty: the tokenizer's first token, or the end of a line
  int64_t tokens = 64;
  serve::SamplingOptions sampling{.temperature = 0.8};
  bool are_on() const { return every > 0; }
};
void add_sample_options(Command app, SampleOptions& options);
void check(const SampleOptions& options);
// Options without effect: those of samples that are off.
Mode without_samples(const SampleOptions& options);

class TrainingSamples {
 public:
  struct Sample {
    int64_t step = 0;  // steps done
    std::string text;  // after the prompt
    std::vector<int32_t> ids;
    std::string finish_reason;  // as of serve::Generation
    std::string fault;          // why there is no sample; empty if there is one
  };

  // Throws usage Errors: there is no tokenizer (null), or the prompt does not fit the context.
  TrainingSamples(const SampleOptions& options,
                  const MachineOptions& machine,
                  const models::TokenizerFile* tokenizer,
                  const models::ModelConfig& config);
  ~TrainingSamples();

  bool is_due(int64_t step) const { return step % o_.every == 0; }
  const std::string& prompt() const { return o_.prompt; }
  // No step may be running. The same weights give the same text.
  Sample sample(const train::Trainer& trainer, int64_t step);

 private:
  const SampleOptions& o_;
  text::Tokenizer tokenizer_;
  std::vector<int32_t> prompt_;
  passes::Selection selection_;
  std::unique_ptr<backends::Backend> backend_;
};

}  // namespace ridge::apps
