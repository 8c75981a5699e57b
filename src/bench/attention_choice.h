// SPDX-License-Identifier: Apache-2.0
// Chooses between standard and flash attention by measuring, and keeps the choices next to those of
// GEMMs, in a file with the machine's identity.
#pragma once

#include <cstdint>
#include <string>

#include "backends/backend.h"
#include "backends/tuning_file.h"
#include "bench/graph_trial.h"
#include "bench/op_shapes.h"
#include "serve/session_choice.h"
#include "train/training_choice.h"

namespace ridge::bench {

// A call of attention, causal unless it says otherwise. In decode, a token of each sequence attends
// to `length` keys.
struct AttentionCall {
  bool decodes = false;
  bool is_backward = false;  // the gradients too; not in decode
  int64_t batch = 1, heads = 1, kv_heads = 1, head_size = 64;
  int64_t length = 1;
  TrialType type = {};
  bool is_causal = true;  // false: all tokens attend to all others; not in decode

  // "decode b1 h16 k4 e64 c1024 fp32". Lengths up to the next power of two share a choice.
  std::string key() const;
};

// The call's graph and passes, in a form of the op attention or cached_attention ("flash",
// "standard", "memory-efficient"; "paged" with blocks of `page_tokens`).
struct AttentionTrialGraph {
  TrialGraph trial;
  TrialSetting setting;
  OpRequest request;
};
AttentionTrialGraph attention_graph(const AttentionCall& call,
                                    std::string_view implementation,
                                    int64_t page_tokens);

class AttentionChoices {
 public:
  // Keeps choices in the file at `path` (empty: nowhere).
  AttentionChoices(std::string path, std::string identity)
      : kept_(std::move(path), std::move(identity)) {}

  // Keeps the winner of two times. Ties within the noise go to flash, which needs less memory.
  void keep(const AttentionCall& call, double flash_ns, double standard_ns);
  // Whether flash attention is the faster one; measured once per call and machine. The standard
  // form loses where its scores do not fit into half of the free memory.
  bool prefers_flash(const AttentionCall& call, backends::Backend& backend);

 private:
  backends::KeptChoices kept_;  // by key
};
// Those on this machine, in the user's cache folder. Call after make_backend, which sets threads
// and ISA.
AttentionChoices attention_choices(const backends::MachineOptions& machine);

// Makes the options' attention ("level", "flash", "standard" or "auto") one more switch of passes.
// "auto" measures the attention of a step, or of a decode step at the end of the positions that the
// session holds, unless that is known. Throws a usage Error for another word.
void choose_attention(const train::TrainingOptions& options, train::TrainingChoice& choice);
serve::InferenceOptions with_attention(serve::InferenceOptions options,
                                       const models::ModelConfig& config,
                                       const serve::SessionNeeds& needs);

}  // namespace ridge::bench
