// SPDX-License-Identifier: Apache-2.0
// A checkpoint that is being written or removed has a temporary name, so what has a step's name is
// whole, or was damaged later.
#include "train/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <system_error>
#include <utility>

#include "base/block_formats.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/printable.h"
#include "files/atomic_file.h"
#include "files/atomic_folder.h"
#include "files/json.h"
#include "files/json_field.h"
#include "files/manifest.h"
#include "files/mapped_file.h"
#include "files/safetensors.h"
#include "files/unfinished.h"
#include "models/adapter.h"
#include "models/config_json.h"
#include "train/checkpoint_shards.h"
#include "train/optimizer.h"
#include "train/spike_guard.h"

namespace ridge::train {
namespace fs = std::filesystem;
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kFormat = "ridge checkpoint";
constexpr const char* kPrefix = "step-";
constexpr const char* kState = "state.json";
constexpr const char* kWeights = "model";
constexpr const char* kMoments = "moments";
// Bounds of a state: a training that goes on adds to its counts, and the product of the last two
// counts tokens.
constexpr int64_t kMostCount = int64_t{1} << 62;
constexpr int64_t kMostWindows = int64_t{1} << 40, kMostSequence = int64_t{1} << 22;
// PyTorch's names of the moments.
constexpr const char* kFirstName = ".exp_avg";
constexpr const char* kSecondName = ".exp_avg_sq";

std::string folder_name(int64_t step) { return fmt::format("{}{:08}", kPrefix, step); }

// The steps of a folder's checkpoints by their names, the newest first.
std::vector<int64_t> steps_in(const fs::path& folder) {
  std::vector<int64_t> steps;
  std::error_code error;
  for (fs::directory_iterator each(folder, error), end; !error && each != end;
       each.increment(error)) {
    const std::string name = each->path().filename().string();
    if (!name.starts_with(kPrefix)) continue;
    int64_t step = -1;
    const char* begin = name.data() + std::string_view(kPrefix).size();
    const auto result = std::from_chars(begin, name.data() + name.size(), step);
    if (result.ec == std::errc() && name == folder_name(step)) steps.push_back(step);
  }
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

ordered_json scale_json(const std::optional<LossScaleState>& state) {
  if (!state) return nullptr;
  return {{"scale", state->scale},
          {"good_steps", state->good_steps},
          {"skipped_steps", state->skipped_steps}};
}

ordered_json to_json(const TrainingState& state) {
  return {{"step", state.step},
          {"windows", state.windows},
          {"tokens", state.tokens},
          {"validation_loss",
           state.validation_loss ? ordered_json(*state.validation_loss) : ordered_json(nullptr)},
          {"guard", state.guard},
          {"loss_scale", scale_json(state.loss_scale)},
          {"settings", state.settings}};
}

TrainingState read_state(const fs::path& folder) {
  const fs::path path = folder / kState;
  const json document = files::read_json(path);
  const files::JsonField root(document, path.string());
  TrainingState state;
  state.step = root.at("step").integer(0, kMostCount);
  state.windows = root.at("windows").integer(0, kMostWindows);
  state.tokens = root.at("tokens").integer(0, kMostCount);
  if (root.has("validation_loss")) state.validation_loss = root.at("validation_loss").real();
  if (root.has("guard")) {
    const files::JsonField guard = root.at("guard");
    if (guard.list().size() > SpikeGuard::kMost)
      throw guard.fault(fmt::format("at most {} losses", SpikeGuard::kMost),
                        std::to_string(guard.size()));
    std::vector<double> losses;
    for (const files::JsonField& each : guard.items()) losses.push_back(each.real());
    state.guard = losses;
  }
  if (root.has("loss_scale")) {
    const files::JsonField scale = root.at("loss_scale");
    state.loss_scale = {scale.at("scale").real(), scale.at("good_steps").integer(0),
                        scale.at("skipped_steps").integer(0)};
    if (!is_loss_scale(state.loss_scale->scale))
      throw file_error("[{}] expected a loss scale, found {}", path.string(),
                       state.loss_scale->scale);
  }
  const files::JsonField settings = root.at("settings");
  state.settings = settings.object();
  if (settings.has("seq_len")) settings.at("seq_len").integer(1, kMostSequence);
  return state;
}

SavedLookup lookup_in(const files::SafetensorsFile& file,
                      const char* suffix,
                      const char* prefix = "") {
  return [&file, suffix, prefix](const std::string& name, const Shape& shape) {
    const files::FileTensor& tensor = file.tensors().at(prefix + name + suffix, shape);
    std::vector<float> values(static_cast<size_t>(shape.elements()));
    dequantize(tensor.dtype, tensor.bytes, values);
    return values;
  };
}

}  // namespace

std::optional<FoundCheckpoint> newest_checkpoint(const fs::path& folder,
                                                 std::vector<RefusedCheckpoint>& refused) {
  for (const int64_t step : steps_in(folder)) {
    const fs::path path = folder / folder_name(step);
    try {
      files::check_manifest(path, kFormat);
      FoundCheckpoint found{path, read_state(path)};
      if (found.state.step != step)
        throw file_error("[{}] expected step {}, found {}", (path / kState).string(), step,
                         found.state.step);
      return found;
    } catch (const Error& error) {
      if (error.code() != ExitCode::kBadFile) throw;
      refused.push_back({path, error.what()});
    }
  }
  return {};
}

namespace {

// Whether the checkpoint has the tensors of the file, in shards.
bool has_tensors(const fs::path& checkpoint, const fs::path& file) try {
  const auto wanted = files::SafetensorsFile::open(file),
             found = open_tensors(checkpoint, kWeights);
  return std::ranges::all_of(wanted.tensors().all(), [&](const files::FileTensor& each) {
    const files::FileTensor* other = found.tensors().find(each.name);
    return other != nullptr && other->dtype == each.dtype && other->shape == each.shape &&
           std::ranges::equal(other->bytes, each.bytes);
  });
} catch (const Error&) {
  return false;
}

}  // namespace

bool is_in_a_checkpoint(const fs::path& model, const fs::path& checkpoints) {
  std::error_code error;
  if (!fs::is_directory(model, error) || fs::is_empty(model, error)) return false;
  const auto has = [&](const fs::path& checkpoint, const fs::path& file) {
    const fs::path other = checkpoint / file.filename();
    if (file.filename() == "model.safetensors" && !fs::exists(other, error))
      return has_tensors(checkpoint, file);
    if (!fs::is_regular_file(fs::symlink_status(file, error)) || !fs::is_regular_file(other, error))
      return false;
    const auto size = fs::file_size(file, error);
    if (error || size != fs::file_size(other, error)) return false;
    return size == 0 ||
           files::MappedFile(file).text() == files::MappedFile(other).text();  // none is empty
  };
  const std::vector<int64_t> steps = steps_in(checkpoints);
  return std::any_of(steps.begin(), steps.end(), [&](int64_t step) {
    return std::all_of(
        fs::directory_iterator(model), fs::directory_iterator(),
        [&](const auto& each) { return has(checkpoints / folder_name(step), each.path()); });
  });
}

void expect_same_model(const FoundCheckpoint& checkpoint, const models::ModelConfig& config) {
  models::ModelConfig form = config;
  form.rope_interleaved = false;
  const fs::path path = checkpoint.path / "config.json";
  const json stored = files::read_json(path);
  const json expected = json::parse(models::config_json(form, DType::kF32, nullptr));
  for (const auto& [key, value] : expected.items()) {
    const json found = stored.contains(key) ? stored[key] : json();
    // The tokenizer's ids and the length for which the model is meant do not change it.
    const bool matters = !key.ends_with("_token_id") && key != "max_position_embeddings";
    if (matters && found != value)
      throw file_error("[{}] expected {} {}, as in this model, found {}", path.string(), key,
                       value.dump(), printable(found.dump()));
  }
}

void restore(const FoundCheckpoint& checkpoint, Trainer& trainer) {
  const bool has_adapters = trainer.graphs().has_adapters;
  const auto weights = has_adapters
                           ? files::SafetensorsFile::open(checkpoint.path / models::kAdapterWeights)
                           : open_tensors(checkpoint.path, kWeights);
  const auto moments = open_tensors(checkpoint.path, kMoments);
  restore_tensors(trainer, lookup_in(weights, "", has_adapters ? models::kAdapterPrefix : ""));
  restore_tensors(trainer, lookup_in(moments, kFirstName), kFirstMoment);
  restore_tensors(trainer, lookup_in(moments, kSecondName), kSecondMoment);
  if (checkpoint.state.loss_scale && has_loss_scale(trainer.store()))
    trainer.set_loss_scale(*checkpoint.state.loss_scale);
  trainer.resume_after(checkpoint.state.step);
}

std::vector<int64_t> superseded(
    const std::vector<std::pair<int64_t, std::optional<double>>>& checkpoints,
    const CheckpointPolicy& policy) {
  std::vector<std::pair<int64_t, std::optional<double>>> newest = checkpoints;
  std::sort(newest.rbegin(), newest.rend(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  const auto best =
      std::min_element(newest.begin(), newest.end(), [](const auto& a, const auto& b) {
        return a.second && (!b.second || *a.second < *b.second);
      });
  std::vector<int64_t> steps;
  for (auto each = newest.begin(); each != newest.end(); ++each) {
    const bool is_best = policy.keep_best && each == best && each->second;
    if (each - newest.begin() >= policy.keep && !is_best) steps.push_back(each->first);
  }
  return steps;
}

struct CheckpointWriter::Tensors {
  TensorOwners weight_owners, moment_owners;
  std::vector<SavedTensor> weights, first, second;  // this rank's own
};

CheckpointWriter::CheckpointWriter(fs::path folder,
                                   const CheckpointPolicy& policy,
                                   const models::TokenizerFile* tokenizer,
                                   backends::Communicator* ranks)
    : folder_(std::move(folder)), policy_(policy), tokenizer_(tokenizer), ranks_(ranks) {
  if (!is_first()) return;
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error)
    throw runtime_error("[{}] cannot make the folder: {}", folder_.string(), error.message());
  // Fails before hours of training if the folder cannot be written.
  files::AtomicFile probe(folder_ / kState);
}

CheckpointWriter::~CheckpointWriter() {
  stops_.request_stop();
  if (writing_.valid()) writing_.wait();
}

// Adapters are small, so the first rank writes them.
CheckpointWriter::Tensors CheckpointWriter::own_tensors(const Trainer& trainer) const {
  const bool is_shared = ranks_ != nullptr && !trainer.graphs().has_adapters;
  const TensorOwners none(is_shared ? ranks_->size() : 1);
  Tensors made{none, none, {}, {}, {}};
  const int64_t own = ranks_ == nullptr ? 0 : ranks_->rank();
  const auto tensors_of = [&](std::string_view suffix, TensorOwners& owners) {
    return saved_tensors(trainer, suffix, [&](const std::string& name, const Shape& shape) {
      return owners.of(name, shape.elements()) == own;
    });
  };
  made.weights = tensors_of("", made.weight_owners);
  made.first = tensors_of(kFirstMoment, made.moment_owners);
  made.second = tensors_of(kSecondMoment, made.moment_owners);
  return made;
}

void CheckpointWriter::save(const Trainer& trainer,
                            const TrainingState& state,
                            int64_t free_bytes) {
  const double begin = now_ns();
  wait();
  int64_t needed_bytes = 0;
  for (const auto& [name, value] : trainer.graphs().load.stored) {
    const Type& type = trainer.graphs().load.graph.type(value);
    const bool is_trained = trainer.store().has(name + kFirstMoment);
    if (!is_trained && trainer.graphs().has_adapters) continue;
    const int tensors = is_trained ? 3 : 1;
    needed_bytes += tensors * storage_bytes(type.dtype, type.shape.elements());
  }
  const SavedForm form(trainer);
  const auto tensors = std::make_shared<Tensors>(own_tensors(trainer));
  expect_finite(tensors->weights, folder_);
  const fs::path path = folder_ / folder_name(state.step);
  std::error_code error;
  // A damaged one of this step is replaced.
  if (is_first() && fs::exists(path, error)) remove(state.step);
  const auto made = is_first() ? std::make_shared<files::AtomicFolder>(path) : nullptr;
  fs::path inside = made == nullptr ? "" : made->inside();
  if (ranks_ != nullptr) inside = ranks_->gather(inside.string())[0];
  auto work = [this, tensors, form, state, made, inside] {
    write_shard(*tensors, inside);
    if (made == nullptr) return;
    write_rest(*tensors, form, state, inside);
    made->commit();
    remove_superseded(state.step);
  };
  if (free_bytes > 0 && free_bytes < needed_bytes)
    work();
  else
    writing_ = std::async(std::launch::async, work);
  blocked_ns_ += now_ns() - begin;
}

void CheckpointWriter::expect_no_failure() {
  if (writing_.valid() && writing_.wait_for(std::chrono::seconds(0)) == std::future_status::ready)
    writing_.get();
}

// The first rank waits for the files of the others, so it must hear of those that failed before.
void CheckpointWriter::wait() {
  if (!is_first() && writing_.valid()) writing_.get();
  if (ranks_ != nullptr) ranks_->any(false);
  if (writing_.valid()) writing_.get();
}

void CheckpointWriter::write_shard(const Tensors& tensors, const fs::path& folder) const {
  const int64_t own = ranks_ == nullptr ? 0 : ranks_->rank();
  if (tensors.weight_owners.ranks() > 1 && !tensors.weights.empty())
    files::write_safetensors(folder / tensors.weight_owners.file(kWeights, own),
                             sources_of(tensors.weights));
  if (tensors.first.empty()) return;
  std::vector<files::TensorSource> moments = sources_of(tensors.first, kFirstName);
  for (files::TensorSource& each : sources_of(tensors.second, kSecondName))
    moments.push_back(std::move(each));
  files::write_safetensors(folder / tensors.moment_owners.file(kMoments, own), moments);
}

// All but the first rank's own shard; the manifest when those of the others are there.
void CheckpointWriter::write_rest(const Tensors& tensors,
                                  const SavedForm& form,
                                  const TrainingState& state,
                                  const fs::path& folder) const {
  write_config(form, tokenizer_, folder);
  if (tensors.weight_owners.ranks() == 1) {
    write_weights(form, tensors.weights, tokenizer_, folder);
  } else {
    const std::vector<std::string_view> weights{""}, moments{kFirstName, kSecondName};
    write_tokenizer(tokenizer_, folder);
    wait_for_files(folder, tensors.weight_owners.files(kWeights), stops_.get_token());
    wait_for_files(folder, tensors.moment_owners.files(kMoments), stops_.get_token());
    files::write_file(folder / index_name(kWeights),
                      tensors.weight_owners.index(kWeights, weights));
    files::write_file(folder / index_name(kMoments),
                      tensors.moment_owners.index(kMoments, moments));
  }
  files::write_file(folder / kState, files::written_json(to_json(state)));
  files::write_manifest(folder, kFormat);
}

// Under another name first, so that nobody finds half a checkpoint.
void CheckpointWriter::remove(int64_t step) const {
  const files::Unfinished other = files::Unfinished::folder(folder_);
  std::error_code ignored;
  if (other.path().empty()) return;
  fs::rename(folder_ / folder_name(step), other.path(), ignored);
  fs::remove_all(other.path(), ignored);
}

// Later ones were damaged, and training went on from one before them: they stay until it gets there
// again.
void CheckpointWriter::remove_superseded(int64_t newest) const {
  std::vector<std::pair<int64_t, std::optional<double>>> found;
  for (const int64_t step : steps_in(folder_)) {
    if (step > newest) continue;
    try {
      found.emplace_back(step, read_state(folder_ / folder_name(step)).validation_loss);
    } catch (const Error&) {
      found.emplace_back(step, std::nullopt);  // it is damaged, but it may hold something
    }
  }
  for (const int64_t step : superseded(found, policy_)) remove(step);
}

}  // namespace ridge::train
