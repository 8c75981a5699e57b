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

}  // namespace
}  // namespace ridge::serve
