// SPDX-License-Identifier: Apache-2.0
// Computes the ids that the slot lacks, chunk by chunk.
#include "serve/kept_sequence.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace ridge::serve {

std::vector<float> KeptSequence::feed(std::span<const int32_t> ids, const Progress& progress) {
  const int64_t before = std::ssize(ids_), capacity = session_.options().capacity;
  if (ids.empty()) throw usage_error("[feed] expected at least one token, got none");
  if (std::ssize(ids) > capacity - before)
    throw usage_error("[feed] expected at most {} tokens, the rest of the context, got {}",
                      capacity - before, ids.size());
  check_ids(ids, session_.config().vocabulary);
  ids_.insert(ids_.end(), ids.begin(), ids.end());
  try {
    if (!is_begun_) session_.begin({slot_, ids_, {}});
    is_begun_ = true;
    for (int64_t done; (done = session_.length(slot_)) < std::ssize(ids_);) {
      progress();
      const int64_t count = std::min(std::ssize(ids_) - done, session_.options().chunk);
      const auto part = std::span<const int32_t>(ids_).subspan(static_cast<size_t>(done),
                                                               static_cast<size_t>(count));
      const SequencePart parts[] = {{slot_, part, done + count == std::ssize(ids_)}};
      session_.compute(parts);
    }
    return session_.logits(slot_);
  } catch (...) {
    shorten(before);
    throw;
  }
}

void KeptSequence::shorten(int64_t length) {
  ids_.resize(static_cast<size_t>(length));
  const int64_t computed = session_.length(slot_);
  if (is_begun_ && length > 0 && computed > length && session_.reusable(slot_, length) == length)
    return session_.rewind(slot_, length);
  if (computed > length || length == 0) is_begun_ = false;
}

void KeptSequence::truncate(int64_t length) {
  if (length < 0 || length > std::ssize(ids_))
    throw usage_error("[truncate] expected 0 to {} tokens, got {}", ids_.size(), length);
  shorten(length);
}

std::unique_ptr<KeptSequence> KeptSequence::fork() const {
  auto made = std::make_unique<KeptSequence>(session_);
  if (is_begun_) {
    const std::vector<BlockCopy> copies = session_.blocks().copy(slot_, made->slot_);
    session_.runner().copy_blocks(copies, session_.length(slot_));
    session_.sampling().begin(made->slot_, {}, {}, 0);
  }
  made->ids_ = ids_;
  made->is_begun_ = is_begun_;
  return made;
}

int64_t KeptSequences::add(Session& session, std::unique_ptr<KeptSequence> sequence) {
  sequences_[last_ + 1] = std::move(sequence);
  session.free_slots().count_kept(1);
  return ++last_;
}

KeptSequence& KeptSequences::at(int64_t number) {
  const auto found = sequences_.find(number);
  if (found == sequences_.end())
    throw usage_error("[session] expected an open session, this one was closed");
  return *found->second;
}

void KeptSequences::close(Session& session, int64_t number) {
  if (sequences_.erase(number) > 0) session.free_slots().count_kept(-1);
}

void KeptSequences::close_all(Session& session) {
  while (!sequences_.empty()) close(session, sequences_.begin()->first);
}

}  // namespace ridge::serve
