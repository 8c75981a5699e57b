// SPDX-License-Identifier: Apache-2.0
// Checkpoints: all that training needs to go on bit by bit. A checkpoint is a folder
// "step-00000120" with the files of a model (config.json, model.safetensors, the tokenizer's), or
// of adapters in the place of its weights, the optimizer's moments, state.json, and manifest.json
// with the hashes of the others, which is written last. The folder is filled under another name and
// renamed when all is on disk. Several ranks share the tensors out and write a shard of them each.
#pragma once

#include <cstdint>
#include <filesystem>
#include <future>
#include <nlohmann/json.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "models/tokenizer_file.h"
#include "train/trained_model.h"

namespace ridge::train {

// The numbers and settings that a checkpoint keeps next to the tensors.
struct TrainingState {
  int64_t step = 0;     // steps done
  int64_t windows = 0;  // taken from the data
  int64_t tokens = 0;
  std::optional<double> validation_loss;  // at this step
  nlohmann::ordered_json guard;           // the guard against spikes has it
  std::optional<LossScaleState> loss_scale;
  nlohmann::ordered_json settings;  // the run was made with them; to compare
};

struct CheckpointPolicy {
  int64_t keep = 3;        // the newest ones that stay
  bool keep_best = false;  // the one with the least validation loss stays too
};

struct RefusedCheckpoint {
  std::filesystem::path path;
  std::string reason;
};

// A checkpoint whose files agree with its manifest.
struct FoundCheckpoint {
  std::filesystem::path path;
  TrainingState state;
};

// The newest valid checkpoint of a folder, which need not exist. `refused` gets newer ones that are
// damaged.
std::optional<FoundCheckpoint> newest_checkpoint(const std::filesystem::path& folder,
                                                 std::vector<RefusedCheckpoint>& refused);

// Whether all files of the folder `model` stand in one of the checkpoints too, byte by byte: then
// nothing is lost if a training that goes on replaces the model that it saved.
bool is_in_a_checkpoint(const std::filesystem::path& model,
                        const std::filesystem::path& checkpoints);

// Throws a bad-file Error if the model of the checkpoint differs, and names what differs.
void expect_same_model(const FoundCheckpoint& checkpoint, const models::ModelConfig& config);
// Fills the trainer. Throws bad-file Errors.
void restore(const FoundCheckpoint& checkpoint, Trainer& trainer);

// Writes checkpoints into a folder, one at a time, while training goes on.
class CheckpointWriter {
 public:
  // Makes the folder if it is missing. `tokenizer` may be null; it must outlive the writer, as must
  // `ranks`, the communicator of all ranks; null: there is one. Every rank has a writer, and calls
  // save and wait together with the others.
  CheckpointWriter(std::filesystem::path folder,
                   const CheckpointPolicy& policy,
                   const models::TokenizerFile* tokenizer,
                   backends::Communicator* ranks = nullptr);
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Copies the state and begins to write it, after the checkpoint before is done. If `free_bytes`
  // (0: unknown) have no room for a copy while training goes on, returns when it is written. Throws
  // run-time Errors, also those of the checkpoint before.
  void save(const Trainer& trainer, const TrainingState& state, int64_t free_bytes);
  // Throws the Error of the last checkpoint if writing it has failed by now; waits for nothing.
  void expect_no_failure();
  // Waits for the last checkpoint of all ranks. Throws its Error.
  void wait();
  double blocked_ns() const { return blocked_ns_; }  // the time that training waited in save()

 private:
  struct Tensors;
  bool is_first() const { return ranks_ == nullptr || ranks_->rank() == 0; }
  Tensors own_tensors(const Trainer& trainer) const;
  void write_shard(const Tensors& tensors, const std::filesystem::path& folder) const;
  void write_rest(const Tensors& tensors,
                  const SavedForm& form,
                  const TrainingState& state,
                  const std::filesystem::path& folder) const;
  void remove(int64_t step) const;
  void remove_superseded(int64_t newest) const;

  std::filesystem::path folder_;
  CheckpointPolicy policy_;
  const models::TokenizerFile* tokenizer_;
  backends::Communicator* ranks_;
  std::stop_source stops_;
  std::future<void> writing_;
  double blocked_ns_ = 0;
};

// The steps of checkpoints that a policy lets go, of all that are there with their validation loss.
std::vector<int64_t> superseded(
    const std::vector<std::pair<int64_t, std::optional<double>>>& checkpoints,
    const CheckpointPolicy& policy);

}  // namespace ridge::train
