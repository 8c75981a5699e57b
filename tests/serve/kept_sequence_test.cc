// SPDX-License-Identifier: Apache-2.0
// Sequences that their owner feeds, forks and shortens: they have the logits of the same ids in one
// piece, and a feed that is refused or stopped changes nothing. Also options that no session has.
#include "serve/kept_sequence.h"

#include <gtest/gtest.h>

#include "serve/real_model.h"

namespace ridge::serve {
namespace {

class KeptSequenceTest : public testing::Test {
 protected:
  static SessionOptions options() {
    SessionOptions made = at_level("compiled", 16);
    made.slots = 2;
    made.chunk = 4;
    return made;
  }
  void expect_logits_of(const std::vector<int32_t>& ids, const std::vector<float>& made) {
    Session whole(file_, at_level("compiled", 16), cpu_backend());
    const std::vector<float> wanted = last_logits(whole, ids);
    ASSERT_EQ(made.size(), wanted.size());
    for (size_t i = 0; i < made.size(); ++i) EXPECT_NEAR(made[i], wanted[i], 1e-4) << i;
  }

  models::ModelFile file_ = models::ModelFile::open(data_folder() + "llama_fp32");
  Session session_{file_, options(), cpu_backend()};
  const KeptSequence::Progress on_ = [] {};
};

TEST_F(KeptSequenceTest, IsFedInPiecesForkedAndShortened) {
  KeptSequence sequence(session_);
  const std::vector<int32_t> begin{1, 2, 3, 4, 5, 6, 7}, more{8, 9};
  expect_logits_of(begin, sequence.feed(begin, on_));
  const auto other = sequence.fork();
  int chunks = 0;  // only new tokens are computed: both sequences have the others
  const auto count = [&] { ++chunks; };
  expect_logits_of({1, 2, 3, 4, 5, 6, 7, 8, 9}, sequence.feed(more, count));
  other->truncate(5);
  expect_logits_of({1, 2, 3, 4, 5, 8, 9}, other->feed(more, count));
  EXPECT_EQ(chunks, 2);
  EXPECT_EQ(sequence.ids(), (std::vector<int32_t>{1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST_F(KeptSequenceTest, ARefusedOrStoppedFeedChangesNothing) {
  KeptSequence sequence(session_);
  const std::vector<int32_t> begin{1, 2, 3};
  sequence.feed(begin, on_);
  const auto fed = [&](const std::vector<int32_t>& ids) { sequence.feed(ids, on_); };
  files::expect_error([&] { fed({}); }, ExitCode::kUsage,
                      "[feed] expected at least one token, got none");
  files::expect_error([&] { fed(std::vector<int32_t>(14, 1)); }, ExitCode::kUsage,
                      "[feed] expected at most 13 tokens, the rest of the context, got 14");
  files::expect_error([&] { fed({5, -1}); }, ExitCode::kUsage, "");
  int chunks = 0;
  EXPECT_THROW(sequence.feed(std::vector<int32_t>(9, 7),
                             [&] {
                               if (++chunks == 2) throw std::runtime_error("stopped");
                             }),
               std::runtime_error);
  EXPECT_EQ(sequence.ids(), begin);
  expect_logits_of({1, 2, 3, 4}, sequence.feed(std::vector<int32_t>{4}, on_));
}

TEST_F(KeptSequenceTest, ClosedOnesGiveBackTheirSlots) {
  KeptSequences kept;
  const int64_t first = kept.open(session_), second = kept.fork(session_, first);
  EXPECT_EQ(session_.free_slots().kept(), 2);
  EXPECT_TRUE(session_.free_slots().is_empty());
  const auto expect_closed = [&](int64_t number) {
    files::expect_error([&] { kept.at(number); }, ExitCode::kUsage,
                        "[session] expected an open session, this one was closed");
  };
  kept.close(session_, first);
  kept.close(session_, first);  // does nothing
  EXPECT_EQ(session_.free_slots().kept(), 1);
  expect_closed(first);
  EXPECT_NE(kept.open(session_), first);
  kept.close_all(session_);
  EXPECT_EQ(session_.free_slots().kept(), 0);
  expect_closed(second);
  session_.free_slots().take();
  session_.free_slots().take();
  EXPECT_TRUE(session_.free_slots().is_empty());
}

TEST_F(KeptSequenceTest, OptionsThatNoSessionHas) {
  struct Case {
    void (*change)(SessionOptions& o);
    const char* message;
  };
  for (const Case& each : std::initializer_list<Case>{
           {[](SessionOptions& o) { o.slots = 0; }, "[batch] expected 1 to 4096 sequences, got 0"},
           {[](SessionOptions& o) { o.slots = kMostSlots + 1; },
            "[batch] expected 1 to 4096 sequences, got 4097"},
           {[](SessionOptions& o) { o.capacity = -1; }, "[context] expected 1 to"},
           {[](SessionOptions& o) { o.capacity = int64_t{1} << 40; }, "[context] expected 1 to"},
           {[](SessionOptions& o) { o.chunk = 0; }, "[chunk] expected at least 1 token, got 0"},
           {[](SessionOptions& o) { o.cached = false; },
            "[no-kv-cache] expected one sequence, got 2"},
           {[](SessionOptions& o) { o.kv_capacity_tokens = 64; }, "[cache] expected room for"}}) {
    SessionOptions made = options();
    each.change(made);
    files::expect_error([&] { checked(made, file_.config()); }, ExitCode::kUsage, each.message);
  }
}

}  // namespace
}  // namespace ridge::serve
