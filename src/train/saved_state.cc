// SPDX-License-Identifier: Apache-2.0
// Goes through the load graph in both directions, and moves the rows of q and k.
#include "train/saved_state.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/split.h"
#include "models/adapter.h"
#include "models/parameter_list.h"
#include "models/row_order.h"
#include "passes/exchanged_gradients.h"
#include "passes/tensor_shards.h"
#include "plan/rank_layout.h"
#include "runtime/load.h"

namespace ridge::train {
namespace {

// Copies row by row; `to_file` is the direction.
std::vector<float> reordered(const std::vector<float>& values,
                             const Shape& shape,
                             const models::RowOrder& order,
                             bool to_file) {
  std::vector<float> out(values.size());
  const int64_t rows = shape[0], width = shape.elements() / rows;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t from = to_file ? row : order.at(row), to = to_file ? order.at(row) : row;
    std::copy_n(values.begin() + from * width, width, out.begin() + to * width);
  }
  return out;
}

// An adapter's A makes no rows of q or k.
bool moves_rows(std::string_view name) {
  return models::is_rotated(name) && !name.ends_with(passes::kLoraA);
}

models::RowOrder row_order(const models::ModelConfig& config) {
  return {config.head_size, config.rope_interleaved, false};
}

}  // namespace

models::ModelConfig saved_config(const Trainer& trainer) {
  models::ModelConfig form = trainer.config();
  form.rope_interleaved = false;
  return form;
}

namespace {

runtime::JoinParts joining(const backends::Groups& groups, const char* group) {
  const auto found = groups.find(group);
  if (found == groups.end()) return {};
  return [&all = *found->second](const std::vector<float>& part) {
    std::vector<float> own = part, whole(part.size() * static_cast<size_t>(all.size()));
    const auto bytes = [](std::vector<float>& values) {
      return reinterpret_cast<std::byte*>(values.data());
    };
    all.gather(backends::Divided{bytes(own), bytes(whole), std::ssize(part), DType::kF32});
    return whole;
  };
}

runtime::RankParts joining(const RankShare& share) {
  if (share.groups == nullptr) return {};
  return {joining(*share.groups, passes::kTensorGroup), joining(*share.groups, passes::kDataGroup)};
}

// The tensors of all stages, each of which has those of its layers; the first and the last one may
// have a table both. Every stage asks `keeps` for all of them, in the order of their names.
std::vector<SavedTensor> of_all_stages(std::vector<SavedTensor> own,
                                       backends::Communicator& stages,
                                       const KeepsTensor& keeps) {
  std::string text;
  for (const SavedTensor& each : own)
    text += fmt::format("{} {}\n", each.name, fmt::join(each.shape.to_vector(), " "));
  struct StageTensor {
    size_t stage = 0;
    Shape shape = {};
  };
  std::map<std::string, StageTensor> places;
  const std::vector<std::string> texts = stages.gather(text);
  for (size_t stage = 0; stage < texts.size(); ++stage)
    for (const std::string& line : split(texts[stage], '\n')) {
      if (line.empty()) continue;
      std::vector<int64_t> extents;
      const std::vector<std::string> words = split(line, ' ');
      for (size_t i = 1; i < words.size(); ++i) extents.push_back(std::stoll(words[i]));
      places.try_emplace(words[0], StageTensor{stage, Shape(extents)});
    }
  std::map<std::string, std::vector<float>> by_name;
  for (SavedTensor& each : own) by_name[each.name] = std::move(each.values);
  std::vector<SavedTensor> kept;
  for (const auto& [name, place] : places) {
    const auto count = static_cast<size_t>(place.shape.elements());
    std::vector<float> part = std::move(by_name[name]),
                       all(count * static_cast<size_t>(stages.size()));
    part.resize(count);
    stages.gather(backends::Divided{reinterpret_cast<std::byte*>(part.data()),
                                    reinterpret_cast<std::byte*>(all.data()),
                                    place.shape.elements(), DType::kF32});
    if (keeps && !keeps(name, place.shape)) continue;
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(place.stage * count);
    kept.push_back({name, place.shape, {begin, begin + static_cast<std::ptrdiff_t>(count)}});
  }
  return kept;
}

// The stages of this rank's copy of the model; null if it has one.
backends::Communicator* stages_of(const RankShare& share) {
  if (share.groups == nullptr) return nullptr;
  const auto found = share.groups->find(plan::kPipelineGroup);
  return found == share.groups->end() ? nullptr : found->second.get();
}

std::vector<SavedTensor> tensors_of(const Trainer& trainer,
                                    std::string_view suffix,
                                    const KeepsTensor& keeps) {
  backends::Communicator* const stages = stages_of(trainer.options().shard);
  const models::RowOrder order = row_order(trainer.config());
  std::vector<SavedTensor> tensors;
  runtime::save_states(
      trainer.graphs().load, trainer.store(), suffix,
      [&](const std::string& name, const Type& type, std::vector<float> values) {
        if (stages == nullptr && keeps && !keeps(name, type.shape)) return;
        if (moves_rows(name)) values = reordered(values, type.shape, order, true);
        tensors.push_back({name, type.shape, std::move(values)});
      },
      joining(trainer.options().shard));
  if (stages != nullptr) return of_all_stages(std::move(tensors), *stages, keeps);
  std::sort(tensors.begin(), tensors.end(),
            [](const SavedTensor& a, const SavedTensor& b) { return a.name < b.name; });
  return tensors;
}

}  // namespace

std::vector<SavedTensor> saved_tensors(const Trainer& trainer,
                                       std::string_view suffix,
                                       const KeepsTensor& keeps) {
  const bool only_adapters = trainer.graphs().has_adapters;
  return tensors_of(trainer, suffix, [&](const std::string& name, const Shape& shape) {
    return (!only_adapters || passes::is_lora(name)) && (!keeps || keeps(name, shape));
  });
}

std::vector<SavedTensor> whole_model(const Trainer& trainer) {
  std::vector<SavedTensor> all = tensors_of(trainer, "", {});
  if (!trainer.graphs().has_adapters) return all;
  const passes::LoraOptions& lora = trainer.options().lora;
  std::map<std::string, models::WeightChange> changes;  // by the weight
  std::erase_if(all, [&](SavedTensor& each) {
    if (!passes::is_lora(each.name)) return false;
    const bool is_a = each.name.ends_with(passes::kLoraA);
    const size_t end = each.name.size() - (is_a ? passes::kLoraA : passes::kLoraB).size();
    models::WeightChange& change = changes[each.name.substr(0, end) + ".weight"];
    change.rank = lora.rank;
    change.scale = lora.scale();
    (is_a ? change.a : change.b) = std::move(each.values);
    return true;
  });
  for (SavedTensor& each : all) {
    const auto found = changes.find(each.name);
    if (found == changes.end()) continue;
    const auto width = static_cast<size_t>(each.shape[1]);
    for (int64_t row = 0; row < each.shape[0]; ++row)
      found->second.add_to(row,
                           std::span(each.values).subspan(static_cast<size_t>(row) * width, width));
  }
  return all;
}

void restore_tensors(Trainer& trainer, const SavedLookup& find, std::string_view suffix) {
  const models::RowOrder order = row_order(trainer.config());
  const runtime::TensorSource source = [&](const std::string& name, const Type& type) {
    std::vector<float> values = find(name, type.shape);
    return moves_rows(name) ? reordered(values, type.shape, order, false) : values;
  };
  LoadGraph load = trainer.graphs().load;
  if (trainer.graphs().has_adapters)
    std::erase_if(load.stored, [](const auto& each) { return !passes::is_lora(each.first); });
  if (suffix.empty())
    runtime::load_parameters(load, source, trainer.store());
  else
    runtime::load_states(load, source, suffix, trainer.store());
}

std::vector<files::TensorSource> sources_of(std::span<const SavedTensor> tensors,
                                            std::string_view suffix) {
  std::vector<files::TensorSource> sources;
  for (const SavedTensor& each : tensors)
    sources.push_back({each.name + std::string(suffix), DType::kF32, each.shape,
                       [&each] { return std::as_bytes(std::span<const float>(each.values)); }});
  return sources;
}

}  // namespace ridge::train
