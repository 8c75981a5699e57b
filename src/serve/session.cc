// SPDX-License-Identifier: Apache-2.0
// Writes the inputs of buckets and keeps track of positions.
#include "serve/session.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "base/error.h"
#include "base/finite.h"
#include "base/touch_pages.h"
#include "models/inference_names.h"
#include "ops/kv_cache.h"

namespace ridge::serve {
namespace {

constexpr size_t kSettings = models::kSamplingSettings;

template <typename T>
int64_t bytes_of(const std::vector<T>& values) {
  return static_cast<int64_t>(values.size() * sizeof(T));
}

}  // namespace

models::CacheShape cache_of(const SessionOptions& o, const models::ModelConfig& config) {
  return models::cache_shape({.slots = o.slots,
                              .capacity = o.capacity,
                              .window = config.window,
                              .chunk = std::clamp<int64_t>(o.chunk, 1, o.slots * o.capacity),
                              .dtype = o.cache_dtype.value_or(o.selection.activations()),
                              .shares = o.prefix_caching,
                              .pages = o.pages,
                              .kv_capacity_tokens = o.kv_capacity_tokens});
}

SessionOptions checked(SessionOptions o, const models::ModelConfig& config) {
  if (o.slots < 1 || o.slots > kMostSlots)
    throw usage_error("[batch] expected 1 to {} sequences, got {}", kMostSlots, o.slots);
  if (o.capacity == 0) o.capacity = config.context;
  if (o.capacity < 1 || o.capacity > config.context)
    throw usage_error("[context] expected 1 to {} positions, the model's context, got {}",
                      config.context, o.capacity);
  if (o.chunk < 1) throw usage_error("[chunk] expected at least 1 token, got {}", o.chunk);
  const DType activations = o.selection.activations();
  if (!o.cache_dtype) o.cache_dtype = activations;
  if (!ops::can_hold(*o.cache_dtype, activations))
    throw usage_error("[cache-dtype] expected {}, got {}",
                      activations == DType::kF32
                          ? "f32, bf16 or i8"
                          : fmt::format("{}, the type of activations", name(activations)),
                      name(*o.cache_dtype));
  if (!o.cached && o.slots != 1)
    throw usage_error("[no-kv-cache] expected one sequence, got {}", o.slots);
  o.chunk = o.cached ? std::min(o.chunk, o.slots * o.capacity) : o.capacity;
  if (o.kv_capacity_tokens != 0 && (!o.prefix_caching || o.kv_capacity_tokens < o.capacity))
    throw usage_error("[cache] expected room for at least {} positions, one context, got {}",
                      o.capacity, o.kv_capacity_tokens);
  return o;
}

Session::Session(const models::ModelFile& file,
                 const SessionOptions& options,
                 backends::Backend& backend)
    : file_(file),
      backend_(backend),
      options_(checked(options, file.config())),
      cache_(cache_of(options_, file.config())),
      blocks_(cache_, file.config(), options_.prefix_caching),
      store_(backend),
      biases_(options_.slots, file.config().sampled_vocabulary(), store_),
      buckets_(file, cache_, options_.cached, options_.selection, backend, store_) {
  size_t slots = static_cast<size_t>(options_.slots), chunk = static_cast<size_t>(options_.chunk);
  for (auto* values : {&lengths_, &cached_tokens_}) values->assign(slots, 0);
  for (auto* values : {&tokens_, &seeds_}) values->assign(slots, 0);
  logit_rows_.assign(slots, -1);
  next_positions_.assign(slots, -1);
  settings_.assign(slots * kSettings, 0);
  for (auto* values : {&ids_, &positions_, &token_slots_}) values->reserve(std::max(chunk, slots));
  for (auto* values : {&rows_, &row_slots_}) values->reserve(slots);
  if (!options_.cached) history_.reserve(static_cast<size_t>(options_.capacity));
  Type per_slot{DType::kI32, {options_.slots}};
  store_.require(models::kTokens, per_slot);
  Type recent{DType::kI32, {options_.slots, models::kRecentTokens}};
  store_.require(models::kRecent, recent);
  store_.require(models::kNextPositions, per_slot);
  store_.require(models::kSeeds, per_slot);
  store_.require(models::kSampling,
                 {DType::kF32, {options_.slots, static_cast<int64_t>(kSettings)}});
  const auto require = [&](const char* name, const models::CacheBlocks& blocks) {
    store_.require(name, {DType::kI32, {options_.slots, blocks.blocks_per_slot}});
  };
  if (config().has_full_layers()) require(models::kBlockTable, cache_.full);
  if (config().has_window_layers()) require(models::kWindowBlockTable, cache_.window);
}

// Gives the slot blocks up to its new length, before the run that fills them.
void Session::extend(int64_t slot, int64_t length) {
  if (options_.cached) blocks_.extend(slot, length);
  lengths_[static_cast<size_t>(slot)] = length;
}

void Session::write_tables() {
  if (!options_.cached || !blocks_.take_changes()) return;
  const auto write = [&](const char* name, std::span<const int32_t> table) {
    store_.write_input(name, table.data(), static_cast<int64_t>(table.size_bytes()));
  };
  if (config().has_full_layers()) write(models::kBlockTable, blocks_.full_table());
  if (config().has_window_layers()) write(models::kWindowBlockTable, blocks_.window_table());
}

void Session::check_ids(std::span<const int32_t> ids) const {
  for (size_t i = 0; i < ids.size(); ++i)
    if (ids[i] < 0 || ids[i] >= config().vocabulary)
      throw usage_error("[ids] expected ids from 0 to {}, got {} at position {}",
                        config().vocabulary - 1, ids[i], i);
}

void Session::begin(const Prompt& prompt) {
  if (prompt.slot < 0 || prompt.slot >= options_.slots)
    throw usage_error("[slot] expected 0 to {}, got {}", options_.slots - 1, prompt.slot);
  if (prompt.ids.empty()) throw usage_error("[prompt] expected at least one token, got none");
  if (static_cast<int64_t>(prompt.ids.size()) > options_.capacity)
    throw usage_error("[prompt] expected at most {} tokens, the context, got {}", options_.capacity,
                      prompt.ids.size());
  check_ids(prompt.ids);
  validate(prompt.sampling);
  const SamplingOptions& o = prompt.sampling;
  size_t slot = static_cast<size_t>(prompt.slot);
  lengths_[slot] = cached_tokens_[slot] = blocks_.begin(prompt.slot, prompt.ids, prompt.tenant);
  biases_.begin(prompt.slot, o);
  for (int32_t id : prompt.ids.last(static_cast<size_t>(prompt.generated)))
    biases_.count(prompt.slot, id);
  seeds_[slot] = static_cast<int32_t>(static_cast<uint32_t>(o.seed));
  float values[kSettings] = {static_cast<float>(o.temperature),
                             static_cast<float>(o.top_k),
                             static_cast<float>(o.top_p),
                             static_cast<float>(o.min_p),
                             o.repeat_penalty == 1 ? 0.0f : static_cast<float>(o.repeat_penalty),
                             0};
  std::copy_n(values, kSettings, settings_.begin() + static_cast<std::ptrdiff_t>(slot * kSettings));
  int32_t recent[models::kRecentTokens];
  std::fill_n(recent, models::kRecentTokens, -1);
  for (size_t p = 0; p < prompt.ids.size(); ++p) recent[p % models::kRecentTokens] = prompt.ids[p];
  store_.write_part(models::kRecent, prompt.slot * static_cast<int64_t>(sizeof recent), recent,
                    sizeof recent);
}

void Session::release(int64_t slot) {
  blocks_.release(slot);
  lengths_[static_cast<size_t>(slot)] = 0;
}

void Session::prepare(const Prepared& done) {
  const std::vector<models::InferenceShape> shapes = prepared_shapes(cache_, most_ids());
  int64_t built = 0;
  for (const models::InferenceShape& shape : shapes) {
    last_ = &buckets_.prepare(shape);
    for (const std::string_view name :
         {models::kIds, models::kPositions, models::kSlots, models::kRows, models::kRowSlots})
      last_->write(name, {});
    write_slots();
    // All is padding. The first run loads kernels, and the second is recorded.
    for (int run = 0; run < 2; ++run) last_->run();
    backend_.synchronize();
    done(*last_, ++built, std::ssize(shapes));
  }
}

// Only host memory needs this: device memory has its pages as soon as it is allocated.
void Session::touch_cache() {
  if (is_on_device() || models::cache_bytes(config(), cache_) > backend_.available_bytes()) return;
  for (const std::string& name : store_.names()) {
    if (!name.starts_with(models::kCacheStates)) continue;
    const Type& type = store_.type(name);
    const int64_t bytes = storage_bytes(type.dtype, type.shape.elements());
    touch_pages({store_.require(name, type), static_cast<size_t>(bytes)});
  }
}

// Writes the per-slot inputs of the next run.
void Session::write_slots() {
  write_tables();
  store_.write_input(models::kNextPositions, next_positions_.data(), bytes_of(next_positions_));
  store_.write_input(models::kSeeds, seeds_.data(), bytes_of(seeds_));
  biases_.write();
  for (size_t s = 0; s < lengths_.size(); ++s)
    settings_[s * kSettings + kSettings - 1] =
        static_cast<float>(biases_.size(static_cast<int64_t>(s)));
  store_.write_input(models::kSampling, settings_.data(), bytes_of(settings_));
}

void Session::read_tokens() { store_.read(models::kTokens, tokens_.data(), bytes_of(tokens_)); }

// Returns the slot's new token, or -1, which the op `sample` writes if logits are NaN or infinite.
int32_t Session::take_token(int64_t slot) {
  const int32_t token = tokens_[static_cast<size_t>(slot)];
  biases_.count(slot, token);
  return token;
}

std::vector<int32_t> Session::start(std::span<const Prompt> prompts) {
  for (size_t i = 0; i < prompts.size(); ++i) {
    for (size_t j = 0; j < i; ++j)
      if (prompts[j].slot == prompts[i].slot)
        throw usage_error("[slot] {} has two prompts", prompts[i].slot);
    begin(prompts[i]);
  }
  std::vector<int32_t> chosen;
  if (!options_.cached) {
    for (const Prompt& prompt : prompts) {
      history_.assign(prompt.ids.begin(), prompt.ids.end());
      run_whole(prompt.slot);
    }
  } else {
    std::vector<SequencePart> parts;
    for (size_t prompt = 0; prompt < prompts.size();) {
      parts.clear();
      for (int64_t left = options_.chunk; prompt < prompts.size() && left > 0;) {
        const auto& [slot, ids, sampling, tenant, generated] = prompts[prompt];
        const size_t done = static_cast<size_t>(length(slot)),
                     taken = std::min(ids.size() - done, static_cast<size_t>(left));
        const bool is_last = done + taken == ids.size();
        parts.push_back({slot, ids.subspan(done, taken), is_last});
        left -= static_cast<int64_t>(taken);
        if (!is_last) break;
        ++prompt;
      }
      run_parts(parts);
    }
  }
  read_tokens();
  for (const Prompt& prompt : prompts) chosen.push_back(take_token(prompt.slot));
  expect_tokens(chosen);
  return chosen;
}

// Runs the bucket for `tokens` tokens and `rows` rows. The slots must have blocks for the run.
void Session::run_bucket(models::InferenceTask task,
                         int64_t tokens,
                         int64_t reach,
                         int64_t rows,
                         std::initializer_list<RunInput> inputs) {
  select_bucket(task, tokens, reach, rows, inputs);
  run_last();
}

// Selects the bucket of the next run and writes its inputs.
void Session::select_bucket(models::InferenceTask task,
                            int64_t tokens,
                            int64_t reach,
                            int64_t rows,
                            std::initializer_list<RunInput> inputs) {
  last_ = &buckets_.at(task, tokens, reach, rows);
  for (const auto& [name, values] : inputs) last_->write(name, values);
  if (task == models::InferenceTask::kScore)
    write_tables();
  else
    write_slots();
}

void Session::run_last() {
  if (observed_ == nullptr) return last_->run();
  record::ProfiledRun profile = last_->run_profiled();
  observed_->push_back({last_, std::move(profile)});
}

void Session::launch(std::span<const SequencePart> parts) {
  RIDGE_CHECK(options_.cached, "a run of parts needs a cache");
  run_parts(parts);
  Launched& run = add_launched();
  for (const SequencePart& part : parts) run.slots.push_back(part.samples ? part.slot : -1);
}

void Session::launch_next(std::span<const int64_t> slots) {
  RIDGE_CHECK(options_.cached, "a run of parts needs a cache");
  RIDGE_CHECK(std::ranges::adjacent_find(slots, std::ranges::greater_equal()) == slots.end(),
              "slots ascend");
  constexpr int32_t kUnknown = -1;
  begin_parts();
  int64_t reach = 0;
  for (const int64_t slot : slots) reach = std::max(reach, add_part({slot, {&kUnknown, 1}}));
  select_bucket(models::InferenceTask::kPrefill, std::ssize(slots), reach, std::ssize(slots),
                {{models::kPositions, positions_},
                 {models::kSlots, token_slots_},
                 {models::kRows, rows_},
                 {models::kRowSlots, row_slots_}});
  // Tokens of neighbouring slots are copied together.
  constexpr auto kBytes = static_cast<int64_t>(sizeof(int32_t));
  for (int64_t begin = 0, end = 0; begin < std::ssize(slots); begin = end) {
    const int64_t slot = slots[static_cast<size_t>(begin)];
    while (end < std::ssize(slots) && slots[static_cast<size_t>(end)] == slot + end - begin) ++end;
    store_.copy({models::kTokens, slot * kBytes}, {last_->input(models::kIds), begin * kBytes},
                (end - begin) * kBytes);
  }
  run_last();
  add_launched().slots.assign(slots.begin(), slots.end());
}

// Starts to read the tokens of the last run. The caller adds its slots.
Session::Launched& Session::add_launched() {
  RIDGE_CHECK(launched_count_ < launched_.size(), "{} runs are not collected", launched_count_);
  Launched& run = launched_[(first_launched_ + launched_count_) % launched_.size()];
  run.slots.clear();
  run.copy = store_.start_read(models::kTokens);
  if (run.copy == nullptr) {
    run.tokens.resize(tokens_.size());
    store_.read(models::kTokens, run.tokens.data(), bytes_of(run.tokens));
  }
  ++launched_count_;
  return run;
}

void Session::collect(std::span<int32_t> tokens) {
  RIDGE_CHECK(launched_count_ > 0, "no run is launched");
  Launched& run = launched_[first_launched_];
  RIDGE_CHECK(run.slots.size() == tokens.size(), "{} parts and room for {} tokens",
              run.slots.size(), tokens.size());
  try {
    if (run.copy != nullptr) {
      const std::span<const std::byte> bytes = run.copy->wait();
      std::memcpy(tokens_.data(), bytes.data(), bytes.size());
    } else {
      tokens_ = run.tokens;
    }
  } catch (...) {
    drop_launched();
    throw;
  }
  run.copy.reset();
  first_launched_ = (first_launched_ + 1) % launched_.size();
  --launched_count_;
  for (size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = run.slots[i] < 0 ? -1 : take_token(run.slots[i]);
}

void Session::drop_launched() {
  for (Launched& run : launched_) run.copy.reset();
  launched_count_ = 0;
}

// Clears the inputs of a run of parts.
void Session::begin_parts() {
  ids_.clear(), positions_.clear(), token_slots_.clear(), rows_.clear(), row_slots_.clear();
  std::fill(next_positions_.begin(), next_positions_.end(), -1);
}

// Adds a part to the inputs and its positions to the slot. Returns the slot's new length.
int64_t Session::add_part(const SequencePart& part) {
  const auto& [at, ids, samples] = part;
  const size_t slot = static_cast<size_t>(at);
  const int64_t begin = lengths_[slot], count = std::ssize(ids);
  RIDGE_CHECK(count > 0 && count <= options_.chunk && count <= room(at),
              "{} ids for slot {}, which has room for {}", count, at, room(at));
  for (int64_t i = 0; i < count; ++i) {
    ids_.push_back(ids[static_cast<size_t>(i)]);
    positions_.push_back(static_cast<int32_t>(begin + i));
    token_slots_.push_back(static_cast<int32_t>(at));
  }
  extend(at, begin + count);
  if (samples) {
    logit_rows_[slot] = std::ssize(rows_);
    rows_.push_back(static_cast<int32_t>(ids_.size()) - 1);
    row_slots_.push_back(static_cast<int32_t>(at));
    next_positions_[slot] = static_cast<int32_t>(lengths_[slot]);
  }
  return lengths_[slot];
}

void Session::run_parts(std::span<const SequencePart> parts) {
  begin_parts();
  int64_t reach = 0;
  for (const SequencePart& part : parts) reach = std::max(reach, add_part(part));
  RIDGE_CHECK(std::ssize(ids_) <= most_ids(), "{} ids in a run of {}", ids_.size(), most_ids());
  run_bucket(models::InferenceTask::kPrefill, std::ssize(ids_), reach, std::ssize(rows_),
             {{models::kIds, ids_},
              {models::kPositions, positions_},
              {models::kSlots, token_slots_},
              {models::kRows, rows_},
              {models::kRowSlots, row_slots_}});
  for (const SequencePart& part : parts) blocks_.append(part.slot, part.ids);
}

// Recomputes the whole sequence, without a cache.
void Session::run_whole(int64_t slot) {
  int64_t length = static_cast<int64_t>(history_.size());
  positions_.resize(history_.size());
  for (size_t p = 0; p < history_.size(); ++p) positions_[p] = static_cast<int32_t>(p);
  lengths_[static_cast<size_t>(slot)] = length;
  next_positions_[0] = static_cast<int32_t>(length);
  logit_rows_[0] = 0;
  const int32_t row = static_cast<int32_t>(length) - 1, slot_of_row = 0;
  run_bucket(models::InferenceTask::kPrefill, length, length, 1,
             {{models::kIds, history_},
              {models::kPositions, positions_},
              {models::kRows, {&row, 1}},
              {models::kRowSlots, {&slot_of_row, 1}}});
}

void Session::step(std::span<const int64_t> slots, std::span<int32_t> tokens) {
  RIDGE_CHECK(slots.size() == tokens.size(), "{} slots and room for {} tokens", slots.size(),
              tokens.size());
  for (int64_t slot : slots)
    if (room(slot) < 1)
      throw runtime_error("[context] slot {} has used all of its {} positions", slot,
                          options_.capacity);
  if (!options_.cached) {
    history_.push_back(tokens_[0]);
    run_whole(0);
  } else {
    positions_.assign(lengths_.size(), -1);
    token_slots_.resize(lengths_.size());
    std::fill(next_positions_.begin(), next_positions_.end(), -1);
    int64_t reach = 0;
    for (size_t s = 0; s < token_slots_.size(); ++s) token_slots_[s] = static_cast<int32_t>(s);
    for (int64_t slot : slots) {
      size_t s = static_cast<size_t>(slot);
      positions_[s] = static_cast<int32_t>(lengths_[s]);
      extend(slot, lengths_[s] + 1);
      next_positions_[s] = static_cast<int32_t>(lengths_[s]);
      logit_rows_[s] = slot;
      reach = std::max(reach, lengths_[s]);
    }
    run_bucket(models::InferenceTask::kDecode, options_.slots, reach, options_.slots,
               {{models::kPositions, positions_}, {models::kSlots, token_slots_}});
    for (int64_t slot : slots) blocks_.append(slot, {&tokens_[static_cast<size_t>(slot)], 1});
  }
  read_tokens();
  for (size_t i = 0; i < slots.size(); ++i) tokens[i] = take_token(slots[i]);
  expect_tokens(tokens);
}

int64_t Session::reusable(int64_t slot, int64_t length) const {
  const int64_t held = lengths_[static_cast<size_t>(slot)];
  const bool keeps_all = cache_.window.ring() >= options_.capacity;
  const bool is_kept = options_.cached && !options_.prefix_caching && length >= 0 &&
                       length <= held && (keeps_all || held - length <= options_.chunk);
  return is_kept ? length : 0;
}

void Session::rewind(int64_t slot, int64_t length) {
  int64_t& held = lengths_[static_cast<size_t>(slot)];
  RIDGE_CHECK(reusable(slot, length) == length, "slot {} of {} positions goes back to {}", slot,
              held, length);
  held = length;
}

void Session::expect_tokens(std::span<const int32_t> tokens) const {
  if (std::ranges::any_of(tokens, [](int32_t token) { return token < 0; }))
    refuse_not_finite("logits", "nan or infinity");
}

void Session::expect_finite(std::string_view what, std::span<const float> values) const {
  if (all_finite(values)) return;
  const bool has_nan = std::ranges::any_of(values, [](float x) { return std::isnan(x); });
  refuse_not_finite(what, has_nan ? "nan" : "infinity");
}

void Session::refuse_not_finite(std::string_view what, std::string_view found) const {
  const std::string tensor = file_.first_not_finite();
  if (!tensor.empty())
    throw file_error(
        "[model] expected finite {}, got {}; the first tensor that is not finite is {}", what,
        found, tensor);
  throw runtime_error("[model] expected finite {}, got {}; all weights are finite", what, found);
}

std::vector<float> Session::logits(int64_t slot) const {
  RIDGE_CHECK(last_ != nullptr && next_positions_[static_cast<size_t>(slot)] >= 0,
              "slot {} was not in the last run", slot);
  std::vector<float> all = last_->output();
  std::ptrdiff_t vocabulary = config().vocabulary;
  auto begin = all.begin() + logit_rows_[static_cast<size_t>(slot)] * vocabulary;
  expect_finite("logits", {begin, begin + vocabulary});
  return {begin, begin + vocabulary};
}

Likelihood Session::score(std::span<const int32_t> ids) {
  if (ids.size() < 2) throw usage_error("[text] expected at least 2 tokens, got {}", ids.size());
  if (static_cast<int64_t>(ids.size()) > options_.capacity)
    throw usage_error("[text] expected at most {} tokens, the context, got {}", options_.capacity,
                      ids.size());
  RIDGE_CHECK(options_.cached, "scoring reads the cache");
  check_ids(ids);
  // The logits of a chunk are temporary; this limits them to 128 MiB.
  constexpr int64_t kLogits = int64_t{1} << 25;
  size_t chunk =
      static_cast<size_t>(std::clamp<int64_t>(kLogits / config().vocabulary, 1, options_.chunk));
  Likelihood sum;
  std::vector<int32_t> labels;
  release(0);
  for (size_t begin = 0; begin + 1 < ids.size(); begin += chunk) {
    size_t end = std::min(begin + chunk, ids.size() - 1);
    ids_.assign(ids.begin() + static_cast<std::ptrdiff_t>(begin),
                ids.begin() + static_cast<std::ptrdiff_t>(end));
    labels.assign(ids.begin() + static_cast<std::ptrdiff_t>(begin) + 1,
                  ids.begin() + static_cast<std::ptrdiff_t>(end) + 1);
    positions_.clear();
    for (size_t p = begin; p < end; ++p) positions_.push_back(static_cast<int32_t>(p));
    token_slots_.assign(ids_.size(), 0);
    extend(0, static_cast<int64_t>(end));
    run_bucket(models::InferenceTask::kScore, std::ssize(ids_), static_cast<int64_t>(end), 0,
               {{models::kIds, ids_},
                {models::kPositions, positions_},
                {models::kSlots, token_slots_},
                {models::kLabels, labels}});
    const std::vector<float> mean = last_->output();
    expect_finite("log-likelihoods", mean);
    sum.nll += static_cast<double>(mean[0]) * static_cast<double>(ids_.size());
    sum.tokens += static_cast<int64_t>(ids_.size());
  }
  std::fill(next_positions_.begin(), next_positions_.end(), -1);
  release(0);
  return sum;
}

}  // namespace ridge::serve
