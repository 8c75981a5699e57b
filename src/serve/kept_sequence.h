// SPDX-License-Identifier: Apache-2.0
// A sequence whose owner feeds, forks and shortens it. It keeps a slot of a session until it ends.
// Samples nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "serve/session.h"

namespace ridge::serve {

// A slot of its own, until it ends. Throws a usage Error if none is free.
class OwnSlot {
 public:
  // A sequence that Session::start left in the slot ends.
  explicit OwnSlot(Session& session) : session_(session), slot_(session.free_slots().take()) {
    session_.release(slot_);
  }
  OwnSlot(const OwnSlot&) = delete;
  OwnSlot& operator=(const OwnSlot&) = delete;
  ~OwnSlot() {
    session_.release(slot_);
    session_.free_slots().give(slot_);
  }
  operator int64_t() const { return slot_; }

 private:
  Session& session_;
  const int64_t slot_;
};

class KeptSequence {
 public:
  // Asked between chunks; throws to end a feed.
  using Progress = std::function<void()>;

  // The session must outlive the sequence and have a cache. Throws a usage Error if no slot is
  // free.
  explicit KeptSequence(Session& session) : session_(session), slot_(session) {}

  // Adds ids to the sequence and returns the logits [V] after the last one. Throws usage Errors for
  // no ids, ids out of range and more than there is room for. If it throws, the sequence is as it
  // was.
  std::vector<float> feed(std::span<const int32_t> ids, const Progress& progress);
  // A sequence with the same ids and a copy of its keys and values: nothing is computed again.
  // Blocks that both may share are not copied. Throws a usage Error if no slot is free.
  std::unique_ptr<KeptSequence> fork() const;
  // Forgets the ids from `length` on. Throws a usage Error if there are fewer. If the cache cannot
  // go back, the next feed computes the rest again.
  void truncate(int64_t length);

  const std::vector<int32_t>& ids() const { return ids_; }

 private:
  void shorten(int64_t length);

  Session& session_;
  OwnSlot slot_;
  std::vector<int32_t> ids_;
  bool is_begun_ = false;  // The slot's positions are those of the first ids.
};

// Sequences of one session that stay until they are closed, by number. Only whoever has the session
// may call these.
class KeptSequences {
 public:
  KeptSequences() = default;
  KeptSequences(const KeptSequences&) = delete;
  KeptSequences& operator=(const KeptSequences&) = delete;

  // Both return the number of a new sequence, and throw as the constructor and fork() do.
  int64_t open(Session& session) { return add(session, std::make_unique<KeptSequence>(session)); }
  int64_t fork(Session& session, int64_t number) { return add(session, at(number).fork()); }
  // Does nothing for one that was closed.
  void close(Session& session, int64_t number);
  void close_all(Session& session);
  // Throws a usage Error for one that was closed.
  KeptSequence& at(int64_t number);

 private:
  int64_t add(Session& session, std::unique_ptr<KeptSequence> sequence);

  std::map<int64_t, std::unique_ptr<KeptSequence>> sequences_;
  int64_t last_ = 0;
};

}  // namespace ridge::serve
