// SPDX-License-Identifier: Apache-2.0
// Sessions beside their tokens: slots that a step leaves alone, and the memory of a score.
#include "serve/session.h"

#include "base/error.h"
#include "models/llama_shape.h"
#include "serve/real_model.h"
#include "serve/text_score.h"

namespace ridge::serve {
namespace {

TEST(Session, AStepLeavesTheOtherSlotsAlone) {
  const models::ModelFile file = models::ModelFile::open(data_folder() + "llama_fp32");
  SessionOptions options = at_level("compiled", 16);
  options.slots = 2;
  Session session(file, options, cpu_backend());
  const std::vector<int32_t> ids{1, 2, 3}, others{9, 8, 7, 6};
  const Prompt prompts[] = {{0, ids, {}}, {1, others, {}}};
  std::vector<int32_t> tokens = session.start(prompts);
  const int32_t kept = session.sampling().token(1);
  EXPECT_EQ(kept, tokens[1]);
  const int64_t slot = 0;
  for (int i = 0; i < 4; ++i) {
    session.step({&slot, 1}, {tokens.data(), 1});
    EXPECT_EQ(session.sampling().token(1), kept);
    EXPECT_EQ(session.length(1), std::ssize(others));
  }
  EXPECT_NO_THROW(session.logits(0));
  EXPECT_THROW(session.logits(1), InternalError);
}

TEST(Session, AScoredTextFillsTheContextAtMost) {
  constexpr size_t kContext = 16;
  const models::ModelFile file = models::ModelFile::open(data_folder() + "llama_fp32");
  Session session(file, at_level("compiled", kContext), cpu_backend());
  const auto refused = [&](size_t tokens, const char* message) {
    files::expect_error([&] { score(session, std::vector<int32_t>(tokens, 3)); }, ExitCode::kUsage,
                        message);
  };
  for (const size_t tokens : {size_t{2}, kContext})
    EXPECT_EQ(score(session, std::vector<int32_t>(tokens, 3)).tokens,
              static_cast<int64_t>(tokens) - 1);
  refused(1, "[text] expected at least 2 tokens, got 1");
  refused(kContext + 1, "[text] expected at most 16 tokens, the context, got 17");
  files::expect_error(
      [&] {
        score(session, std::vector<int32_t>{3, -1});
      },
      ExitCode::kUsage, "[ids] expected ids from 0 to");
}

// A text in one chunk would take the logits of all its tokens at once.
TEST(Session, AScoreTakes128MiBOfLogitsAtMost) {
  constexpr int64_t kVocabulary = 1 << 19, kBytes = 128 << 20, kTokens = 130;
  const models::ModelFile file = models::ModelFile::of_shape(
      models::llama_shape("", {kVocabulary, 8, 1, 1, 1, 8, 8, kTokens}));
  SessionOptions options = at_level("compiled", kTokens);
  options.chunk = kTokens;
  Session session(file, options, cpu_backend());
  std::vector<SessionRun> runs;
  session.runner().observe(&runs);
  EXPECT_EQ(score(session, std::vector<int32_t>(kTokens, 3)).tokens, kTokens - 1);
  ASSERT_EQ(runs.size(), 3u);
  for (const SessionRun& each : runs)
    EXPECT_LE(each.bucket->shape().tokens * kVocabulary * int64_t{sizeof(float)}, kBytes);
}

TEST(Session, RefusesPromptsInItsWords) {
  const models::ModelFile file = models::ModelFile::open(data_folder() + "llama_fp32");
  SessionOptions options = at_level("compiled", 4);
  options.slots = 2;
  Session session(file, options, cpu_backend());
  const std::vector<int32_t> ids{1, 2, 3, 4}, longer{1, 2, 3, 4, 5}, none, foreign{1, 160};
  const auto refused = [&](const std::vector<Prompt>& prompts, const char* message) {
    files::expect_error([&] { session.start(prompts); }, ExitCode::kUsage, message);
  };
  refused({{-1, ids, {}}}, "[slot] expected 0 to 1, got -1");
  refused({{2, ids, {}}}, "[slot] expected 0 to 1, got 2");
  refused({{0, ids, {}}, {1, ids, {}}, {1, ids, {}}}, "[slot] 1 has two prompts");
  refused({{0, none, {}}}, "[prompt] expected at least one token, got none");
  refused({{0, longer, {}}}, "[prompt] expected at most 4 tokens, the context, got 5");
  refused({{0, foreign, {}}}, "[ids] expected ids from 0 to 159, got 160 at position 1");
  EXPECT_EQ(session.start(std::vector<Prompt>{{0, ids, {}}, {1, ids, {}}}).size(), 2u);
}

TEST(Session, AStepNeedsRoom) {
  const models::ModelFile file = models::ModelFile::open(data_folder() + "llama_fp32");
  SessionOptions options = at_level("compiled", 4);
  options.slots = 2;
  Session session(file, options, cpu_backend());
  const std::vector<int32_t> ids{1, 2, 3}, whole{1, 2, 3, 4};
  session.start(std::vector<Prompt>{{0, ids, {}}, {1, whole, {}}});
  const std::vector<int64_t> slots{0, 1};
  std::vector<int32_t> tokens(2);
  EXPECT_EQ(session.room(0), 1);
  files::expect_error([&] { session.step(slots, tokens); }, ExitCode::kRuntime,
                      "[context] slot 1 has used all of its 4 positions");
  EXPECT_NO_THROW(session.step({slots.data(), 1}, {tokens.data(), 1}));
  files::expect_error(
      [&] {
        session.step({slots.data(), 1}, {tokens.data(), 1});
      },
      ExitCode::kRuntime, "[context] slot 0 has used all of its 4 positions");
  EXPECT_THROW(session.step({slots.data(), 1}, tokens), InternalError);
}

// The logits and hidden states of all ids, without the rows that pad the run.
TEST(Session, HasTheValuesOfEachId) {
  const models::ModelFile file = models::ModelFile::open(data_folder() + "llama_fp32");
  SessionOptions options = at_level("compiled", 64);
  Session session(file, options, cpu_backend()), plain(file, options, cpu_backend());
  std::vector<int32_t> ids(37);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(1 + i * 7 % 150);
  const std::vector<float> logits = session.values(0, ids, models::InferenceTask::kLogits);
  ASSERT_EQ(logits.size(), 37u * 160);
  for (const size_t count : {size_t{1}, size_t{20}, ids.size()}) {
    const std::vector<float> want = last_logits(plain, std::span(ids).first(count));
    const auto row = logits.begin() + static_cast<std::ptrdiff_t>((count - 1) * 160);
    EXPECT_LE(largest_difference(std::vector<float>(row, row + 160), want), 1e-4) << count;
  }
  EXPECT_EQ(session.length(0), 37);
  session.release(0);
  EXPECT_EQ(session.values(0, ids, models::InferenceTask::kHidden).size(), 37u * 64);
}

TEST(Session, GoesBackOnlyWhereItCan) {
  const models::ModelFile file = models::ModelFile::open(data_folder() + "llama_fp32");
  SessionOptions options = at_level("compiled", 16);
  const std::vector<int32_t> ids{1, 2, 3, 4, 5};
  const auto reusable = [&](int64_t to) {
    Session session(file, options, cpu_backend());
    last_logits(session, ids);
    return session.reusable(0, to);
  };
  EXPECT_EQ(reusable(5), 5);
  EXPECT_EQ(reusable(1), 1);
  EXPECT_EQ(reusable(6), 0);
  EXPECT_EQ(reusable(-1), 0);
  options.prefix_caching = true;
  EXPECT_EQ(reusable(3), 0);
  options.prefix_caching = false, options.cached = false;
  EXPECT_EQ(reusable(3), 0);
}

}  // namespace
}  // namespace ridge::serve
