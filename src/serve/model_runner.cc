// SPDX-License-Identifier: Apache-2.0
// Chooses buckets and writes their inputs.
#include "serve/model_runner.h"

#include <algorithm>

#include "base/touch_pages.h"
#include "models/inference_names.h"

namespace ridge::serve {

ModelRunner::ModelRunner(const models::ModelFile& file,
                         const SessionOptions& options,
                         backends::Backend& backend)
    : file_(file),
      backend_(backend),
      cache_(cache_of(options, file.config())),
      store_(backend),
      buckets_(file, cache_, options, backend, store_) {
  const auto require = [&](const char* name, const models::CacheBlocks& blocks) {
    store_.require(name, {DType::kI32, {cache_.slots, blocks.blocks_per_slot}});
  };
  if (file.config().has_full_layers()) require(models::kBlockTable, cache_.full);
  if (file.config().has_window_layers()) require(models::kWindowBlockTable, cache_.window);
}

void ModelRunner::run(const RunInputs& inputs) {
  run({inputs.task, std::ssize(inputs.positions), inputs.reach, std::ssize(inputs.rows)},
      [&] { write(inputs); });
}

void ModelRunner::run(const BucketChoice& choice, const std::function<void()>& write) {
  last_ = &buckets_.at(choice.task, choice.tokens, choice.context, choice.rows);
  write();
  if (announcer_) announcer_(choice);
  if (observed_ == nullptr) return last_->run();
  record::ProfiledRun profile = last_->run_profiled();
  observed_->push_back({last_, std::move(profile)});
}

// Writes the inputs of the bucket that runs next.
void ModelRunner::write(const RunInputs& inputs) {
  using enum models::InferenceTask;
  if (inputs.ids_on_device)
    copy_ids(inputs.slots);
  else if (inputs.task != kDecode)
    last_->write(models::kIds, inputs.ids);
  last_->write(models::kPositions, inputs.positions);
  last_->write(models::kSlots, inputs.slots);
  if (inputs.task == kScore) last_->write(models::kLabels, inputs.labels);
  if (inputs.task == kPrefill) {
    last_->write(models::kRows, inputs.rows);
    last_->write(models::kRowSlots, inputs.row_slots);
  }
}

// Copies the sampled tokens of slots, which ascend, to the bucket's ids. Tokens of neighbouring
// slots are copied together.
void ModelRunner::copy_ids(const std::vector<int32_t>& slots) {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(int32_t));
  for (int64_t begin = 0, end = 0; begin < std::ssize(slots); begin = end) {
    const int64_t slot = slots[static_cast<size_t>(begin)];
    while (end < std::ssize(slots) && slots[static_cast<size_t>(end)] == slot + end - begin) ++end;
    store_.copy({models::kTokens, slot * kBytes}, {last_->input(models::kIds), begin * kBytes},
                (end - begin) * kBytes);
  }
}

void ModelRunner::write_tables(SequenceBlocks& blocks) {
  if (!blocks.take_changes()) return;
  const auto write = [&](const char* name, std::span<const int32_t> table) {
    store_.write_input(name, table.data(), static_cast<int64_t>(table.size_bytes()));
  };
  if (file_.config().has_full_layers()) write(models::kBlockTable, blocks.full_table());
  if (file_.config().has_window_layers()) write(models::kWindowBlockTable, blocks.window_table());
}

// Keys and values of a block are rows of positions; its scales are rows of heads.
void ModelRunner::copy_blocks(std::span<const BlockCopy> copies, int64_t positions) {
  const models::ModelConfig& config = file_.config();
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const LayerType type = config.is_window(layer) ? kWindow : kFull;
    for (const char* part : {"keys", "values", "key_scales", "value_scales"}) {
      const std::string name = models::cache_state(layer, part);
      if (!store_.has(name)) continue;
      const auto& [dtype, shape] = store_.type(name);
      const bool is_of_rows = shape.rank() == 4;
      const int64_t block = storage_bytes(dtype, shape.elements()) / shape[0];
      const int64_t bytes = is_of_rows ? block / shape[1] * std::min(positions, shape[1]) : block;
      for (const BlockCopy& each : copies)
        if (each.type == type)
          store_.copy({name, each.from * block}, {name, each.to * block}, bytes);
    }
  }
}

void ModelRunner::prepare(int64_t most_tokens, const Prepared& done) {
  const std::vector<models::InferenceShape> shapes = prepared_shapes(cache_, most_tokens);
  int64_t built = 0;
  for (const models::InferenceShape& shape : shapes) {
    last_ = &buckets_.prepare(shape);
    for (const std::string_view name :
         {models::kIds, models::kPositions, models::kSlots, models::kRows, models::kRowSlots})
      last_->write(name, {});
    // The first run loads kernels, and the second is recorded.
    for (int run = 0; run < 2; ++run) last_->run();
    backend_.synchronize();
    done(*last_, ++built, std::ssize(shapes));
  }
}

// Only host memory needs this: device memory has its pages as soon as it is allocated.
void ModelRunner::touch_cache() {
  if (is_on_device() || models::cache_bytes(file_.config(), cache_) > backend_.available_bytes())
    return;
  for (const std::string& name : store_.names()) {
    if (!name.starts_with(models::kCacheStates)) continue;
    const Type& type = store_.type(name);
    const int64_t bytes = storage_bytes(type.dtype, type.shape.elements());
    touch_pages({store_.require(name, type), static_cast<size_t>(bytes)});
  }
}

}  // namespace ridge::serve
