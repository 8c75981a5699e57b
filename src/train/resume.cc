// SPDX-License-Identifier: Apache-2.0
// Compares settings as JSON, in which checkpoints keep them.
#include "train/resume.h"

#include "base/error.h"
#include "base/printable.h"
#include "files/hash.h"
#include "files/json.h"
#include "files/manifest.h"
#include "files/mapped_file.h"

namespace ridge::train {

using nlohmann::json;
using nlohmann::ordered_json;

namespace {

ordered_json lora_settings(const TrainingSetup& setup) {
  if (!setup.selection.has("lora")) return nullptr;
  const passes::LoraOptions& lora = setup.step.lora;
  return {{"rank", lora.rank}, {"alpha", lora.alpha}, {"targets", lora.targets}};
}

ordered_json scale_interval(const TrainingSetup& setup) {
  if (!setup.selection.has("autocast_f16")) return nullptr;
  return setup.step.loss_scaling.growth_interval;
}

// Null if an older checkpoint lacks it.
json setting(const json& settings, const std::string& key) {
  return settings.contains(key) ? settings[key] : json();
}

// Adapters are a difference from the weights with which they were trained.
void expect_same_base(const FoundCheckpoint& found, const json& now) {
  const auto weights_of = [](const json& settings) {
    const json model = settings.value("model", json());
    return model.is_object() ? model.value("weights", json()) : json();
  };
  const json before = found.state.settings;
  const json expected = weights_of(now), actual = weights_of(before);
  if (expected != actual)
    throw file_error(
        "[{}] expected adapters of a model whose weights have the hash {}, as those of --model, found {}",
        found.path.string(), expected.dump(), printable(actual.dump()));
}

}  // namespace

ordered_json checkpoint_settings(const TrainingSetup& setup,
                                 const TypedSettings& typed,
                                 const ordered_json& data) {
  const record::Setting& s = setup.setting;
  const StepOptions& step = setup.step;
  const OptimizerOptions& a = step.optimizer;
  const ordered_json settings{
      {"batch_size", step.batch_size},
      {"seq_len", step.sequence},
      {"micro_batches", step.micro_batches},
      {"level", s.level},
      {"switches", s.switches},
      {"dtype", s.dtype},
      {"device", s.device},
      {"isa", s.isa},
      {"threads", s.threads},
      {"lr", a.learning_rate},
      {"weight_decay", a.weight_decay},
      {"clip", a.clip_norm},
      {"lr_warmup", a.warmup_steps},
      {"lr_decay", a.decay_steps},
      {"lr_decay_begin", a.decay_begin},
      {"lr_decay_shape", a.decay_shape == DecayShape::kCosine ? "cosine" : "linear"},
      {"min_lr", a.minimum_rate},
      {"decay", a.decays_all ? "all" : "matrices"},
      {"spike_guard", typed.spike_guard},
      {"pack", typed.pack},
      {"freeze", typed.freeze},
      {"lora", lora_settings(setup)},
      {"loss_scale_interval", scale_interval(setup)},
      {"data", data}};
  return files::as_written(settings);
}

void add_model(const StartingModel* model, Resumption& resumption) {
  resumption.settings["model"] =
      model == nullptr ? ordered_json() : files::as_written(model->identity());
}

void expect_same_training(const Resumption& r, backends::Communicator& ranks) {
  ordered_json own = r.settings;
  for (const char* key : {"device", "isa", "threads"}) own.erase(key);
  // Hosts may keep the same files in different places.
  if (own["model"].is_object()) own["model"].erase("path");
  if (own["data"].is_object())
    for (ordered_json& set : own["data"]["sets"]) set.erase("path");
  own["checkpoint"] =
      r.found
          ? fmt::format("step {} ({})", r.first_step(),
                        files::hash128(files::MappedFile(r.found->path / files::kManifest).bytes()))
          : "none";
  const std::vector<std::string> all = ranks.gather(own.dump());
  const ordered_json first = ordered_json::parse(all[0]);
  for (size_t rank = 1; rank < all.size(); ++rank) {
    const ordered_json other = ordered_json::parse(all[rank]);
    for (const auto& [key, value] : first.items())
      if (const ordered_json found = other.value(key, ordered_json()); found != value)
        throw usage_error(
            "[ranks] expected the same {} on every rank; rank 0 has {}, rank {} has {}", key,
            value.dump(), rank, found.dump());
  }
}

void expect_same_tuning(const Resumption& r) {
  if (!r.found) return;
  const json now = r.settings, before = r.found->state.settings;
  for (const char* key : {"freeze", "lora"}) {
    const json old = setting(before, key);
    const bool is_none = old.is_null() && (now[key].is_null() || now[key] == "");
    if (!is_none && old != now[key])
      throw file_error("[{}] expected {} {}, as in this training, found {}", r.found->path.string(),
                       key, now[key].dump(), printable(old.dump()));
  }
}

std::vector<SettingChange> changed_settings(const Resumption& r) {
  std::vector<SettingChange> changes;
  if (!r.found) return changes;
  const json now = r.settings, before = r.found->state.settings;
  for (const auto& [key, value] : now.items())
    if (const json old = setting(before, key); old != value)
      changes.push_back({key, old.dump(), value.dump()});
  return changes;
}

DataPlace resume(const Resumption& r, Trainer& trainer, TokenBatches& data, SpikeGuard* guard) {
  if (!r.found) return {};
  if (trainer.graphs().has_adapters) expect_same_base(*r.found, r.settings);
  restore(*r.found, trainer);
  const TrainingState& state = r.found->state;
  // Windows of another length begin elsewhere: the place is that of the same number of tokens.
  const int64_t sequence = trainer.options().sequence;
  const json length_before = setting(state.settings, "seq_len");
  const int64_t length =
      length_before.is_number_integer() ? length_before.get<int64_t>() : sequence;
  const DataPlace place{length == sequence ? state.windows : state.windows * length / sequence,
                        state.tokens};
  if (guard != nullptr && !state.guard.is_null())
    guard->restore(state.guard.get<std::vector<double>>());
  data.seek(place.windows);
  return place;
}

}  // namespace ridge::train
