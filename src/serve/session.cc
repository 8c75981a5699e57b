// SPDX-License-Identifier: Apache-2.0
// Turns prompts and steps into the inputs of runs.
#include "serve/session.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/error.h"
#include "base/finite.h"

namespace ridge::serve {

using models::InferenceTask;

namespace {

void validate(const Prompt& prompt, const SessionOptions& options, int64_t vocabulary) {
  if (prompt.slot < 0 || prompt.slot >= options.slots)
    throw usage_error("[slot] expected 0 to {}, got {}", options.slots - 1, prompt.slot);
  if (prompt.ids.empty()) throw usage_error("[prompt] expected at least one token, got none");
  if (std::ssize(prompt.ids) > options.capacity)
    throw usage_error("[prompt] expected at most {} tokens, the context, got {}", options.capacity,
                      prompt.ids.size());
  check_ids(prompt.ids, vocabulary);
  validate(prompt.sampling);
}

void expect_slots_differ(std::span<const Prompt> prompts) {
  for (size_t i = 0; i < prompts.size(); ++i)
    if (std::ranges::count(prompts.first(i), prompts[i].slot, &Prompt::slot) > 0)
      throw usage_error("[slot] {} has two prompts", prompts[i].slot);
}

void expect_room(const Session& session, std::span<const int64_t> slots) {
  for (int64_t slot : slots)
    if (session.room(slot) < 1)
      throw runtime_error("[context] slot {} has used all of its {} positions", slot,
                          session.options().capacity);
}

// Returns the parts of a run of at most `chunk` ids, the first that are left of the prompts, and
// takes away the prompts that they end.
std::vector<SequencePart> take_parts(std::span<const Prompt>& prompts,
                                     const SequenceBlocks& blocks,
                                     int64_t chunk) {
  std::vector<SequencePart> parts;
  for (int64_t left = chunk; !prompts.empty() && left > 0;) {
    const auto& [slot, ids, sampling, tenant, generated] = prompts.front();
    const size_t done = static_cast<size_t>(blocks.length(slot)),
                 taken = std::min(ids.size() - done, static_cast<size_t>(left));
    const bool is_last = done + taken == ids.size();
    parts.push_back({slot, ids.subspan(done, taken), is_last});
    left -= static_cast<int64_t>(taken);
    if (!is_last) break;
    prompts = prompts.subspan(1);
  }
  return parts;
}

// Names the first tensor of the file that is not finite; if all are, the fault is that of the run.
[[noreturn]] void refuse_not_finite(const models::ModelFile& file,
                                    std::string_view what,
                                    std::string_view found) {
  const std::string tensor = file.first_not_finite();
  if (!tensor.empty())
    throw file_error(
        "[model] expected finite {}, got {}; the first tensor that is not finite is {}", what,
        found, tensor);
  throw runtime_error("[model] expected finite {}, got {}; all weights are finite", what, found);
}

void expect_finite(const models::ModelFile& file,
                   std::string_view what,
                   std::span<const float> values) {
  if (all_finite(values)) return;
  const bool has_nan = std::ranges::any_of(values, [](float x) { return std::isnan(x); });
  refuse_not_finite(file, what, has_nan ? "nan" : "infinity");
}

const char* output_name(InferenceTask task) {
  return task == InferenceTask::kScore    ? "log-likelihoods"
         : task == InferenceTask::kHidden ? "hidden states"
                                          : "logits";
}

void expect_tokens(const models::ModelFile& file, std::span<const int32_t> tokens) {
  if (std::ranges::any_of(tokens, [](int32_t token) { return token < 0; }))
    refuse_not_finite(file, "logits", "nan or infinity");
}

}  // namespace

void check_ids(std::span<const int32_t> ids, int64_t vocabulary) {
  for (size_t i = 0; i < ids.size(); ++i)
    if (ids[i] < 0 || ids[i] >= vocabulary)
      throw usage_error("[ids] expected ids from 0 to {}, got {} at position {}", vocabulary - 1,
                        ids[i], i);
}

Session::Session(const models::ModelFile& file,
                 const SessionOptions& options,
                 backends::Backend& backend)
    : options_(checked(options, file.config())),
      runner_(file, options_, backend),
      blocks_(runner_.cache(), file.config(), options_.prefix_caching),
      sampling_(options_.slots, file.config().sampled_vocabulary(), runner_.store()),
      inputs_(options_.slots),
      free_slots_(options_.slots) {}

void Session::begin(const Prompt& prompt) {
  validate(prompt, options_, config().vocabulary);
  blocks_.begin(prompt.slot, prompt.ids, prompt.tenant);
  history_.clear();
  sampling_.begin(prompt.slot, prompt.sampling, prompt.ids, prompt.generated);
}

std::vector<int32_t> Session::start(std::span<const Prompt> prompts) {
  expect_slots_differ(prompts);
  for (const Prompt& prompt : prompts) begin(prompt);
  for (std::span<const Prompt> left = prompts; !left.empty();)
    compute(take_parts(left, blocks_, options_.chunk));
  sampling_.read();
  std::vector<int32_t> chosen;
  for (const Prompt& prompt : prompts) chosen.push_back(sampling_.take(prompt.slot));
  expect_tokens(runner_.file(), chosen);
  return chosen;
}

void Session::step(std::span<const int64_t> slots, std::span<int32_t> tokens) {
  RIDGE_CHECK(slots.size() == tokens.size(), "{} slots and room for {} tokens", slots.size(),
              tokens.size());
  expect_room(*this, slots);
  if (!options_.cached) {
    const SequencePart part{0, {&sampling_.token(0), 1}};
    compute({&part, 1});
  } else {
    inputs_.clear(InferenceTask::kDecode);
    for (int64_t slot : slots) {
      inputs_.add_decode(slot, length(slot));
      blocks_.extend(slot, length(slot) + 1);
    }
    run();
    for (int64_t slot : slots) blocks_.append(slot, {&sampling_.token(slot), 1});
  }
  sampling_.read();
  for (size_t i = 0; i < slots.size(); ++i) tokens[i] = sampling_.take(slots[i]);
  expect_tokens(runner_.file(), tokens);
}

void Session::compute(std::span<const SequencePart> parts) {
  inputs_.clear(InferenceTask::kPrefill);
  for (const SequencePart& part : parts) add(part);
  RIDGE_CHECK(std::ssize(inputs_.ids) <= most_ids(), "{} ids in a run of {}", inputs_.ids.size(),
              most_ids());
  run();
  for (const SequencePart& part : parts) blocks_.append(part.slot, part.ids);
}

void Session::compute_next(std::span<const int64_t> slots) {
  RIDGE_CHECK(options_.cached, "a run of unknown ids needs a cache");
  RIDGE_CHECK(std::ranges::adjacent_find(slots, std::ranges::greater_equal()) == slots.end(),
              "slots ascend");
  constexpr int32_t kUnknown = -1;
  inputs_.clear(InferenceTask::kPrefill);
  inputs_.ids_on_device = true;
  for (const int64_t slot : slots) add({slot, {&kUnknown, 1}});
  run();
}

void Session::prepare(const ModelRunner::Prepared& done) {
  inputs_.clear(InferenceTask::kPrefill);
  runner_.write_tables(blocks_);
  sampling_.write(inputs_.next_positions);
  runner_.prepare(most_ids(), done);
}

// Adds a part to the inputs and its positions to the slot.
void Session::add(const SequencePart& part) {
  const auto& [slot, ids, samples] = part;
  const int64_t begin = length(slot), count = std::ssize(ids);
  RIDGE_CHECK(count > 0 && count <= options_.chunk && count <= room(slot),
              "{} ids for slot {}, which has room for {}", count, slot, room(slot));
  blocks_.extend(slot, begin + count);
  if (options_.cached) return inputs_.add(slot, begin, ids, samples);
  history_.insert(history_.end(), ids.begin(), ids.end());
  inputs_.add(slot, 0, history_, samples);
}

// Runs a bucket on the inputs that are collected.
void Session::run() {
  runner_.write_tables(blocks_);
  if (samples(inputs_.task)) sampling_.write(inputs_.next_positions);
  runner_.run(inputs_);
}

std::vector<float> Session::logits(int64_t slot) const {
  const auto at = static_cast<size_t>(slot);
  RIDGE_CHECK(runner_.last_bucket() != nullptr && inputs_.next_positions[at] >= 0,
              "slot {} was not in the last run", slot);
  const std::vector<float> all = runner_.last_bucket()->output();
  const auto begin = all.begin() + inputs_.logit_rows[at] * config().vocabulary;
  std::vector<float> logits(begin, begin + config().vocabulary);
  expect_finite(runner_.file(), "logits", logits);
  return logits;
}

std::vector<float> Session::values(int64_t slot,
                                   std::span<const int32_t> ids,
                                   InferenceTask task,
                                   std::span<const int32_t> labels) {
  inputs_.clear(task);
  add({slot, ids, false});
  inputs_.labels.assign(labels.begin(), labels.end());
  run();
  std::vector<float> values = runner_.last_bucket()->output();
  if (task != InferenceTask::kScore)  // without padding
    values.resize(values.size() / static_cast<size_t>(runner_.last_bucket()->shape().tokens) *
                  ids.size());
  expect_finite(runner_.file(), output_name(task), values);
  return values;
}

int64_t Session::reusable(int64_t slot, int64_t to) const {
  const bool keeps_all = runner_.cache().window.ring() >= options_.capacity;
  const bool is_kept = options_.cached && !options_.prefix_caching && to >= 0 &&
                       to <= length(slot) && (keeps_all || length(slot) - to <= options_.chunk);
  return is_kept ? to : 0;
}

void Session::rewind(int64_t slot, int64_t to) {
  RIDGE_CHECK(reusable(slot, to) == to, "slot {} of {} positions goes back to {}", slot,
              length(slot), to);
  blocks_.shorten(slot, to);
}

}  // namespace ridge::serve
