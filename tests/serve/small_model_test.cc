// SPDX-License-Identifier: Apache-2.0
// Small models saved by Hugging Face transformers, run through sessions: they have the same logits
// and continuations, independent of the cache, the chunk size, other sequences in the batch, and
// the level.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "serve/real_model.h"
#include "serve/text_score.h"
#include "small_models.h"

namespace ridge::serve {
namespace {

// Five decimals of fp32 sums in another order, through a few layers.
constexpr double kLogits = 1e-4;
constexpr double kSame = 1e-4;  // the same sums in another order

class SmallModel : public testing::TestWithParam<const char*> {
 protected:
  SmallModel()
      : file_(models::ModelFile::open(data_folder() + GetParam())),
        expected_(files::read_json(data_folder() + GetParam() + "/expected.json")),
        ids_(ids_of(expected_["ids"][0])),
        other_(ids_of(expected_["ids"][1])) {}

  Session session(SessionOptions options) { return Session(file_, options, cpu_backend()); }
  SessionOptions options(const std::string& level = "compiled") { return at_level(level, 192); }

  models::ModelFile file_;
  nlohmann::json expected_;
  std::vector<int32_t> ids_, other_;
};

TEST_P(SmallModel, GivesTheSameLogits) {
  Session made = session(options());
  for (size_t row : {size_t{0}, size_t{1}}) {
    std::vector<float> logits = last_logits(made, row == 0 ? ids_ : other_);
    EXPECT_NEAR(log_sum_exp(logits), expected_["logsumexp_last"][row].get<double>(), kLogits);
    for (size_t v = 0; v < 8; ++v)
      EXPECT_NEAR(logits[v], expected_["logits_last8"][row][v].get<double>(), kLogits);
  }
  std::vector<int32_t> want = ids_of(expected_["greedy_from_first_row"]);
  EXPECT_EQ(greedy(made, ids_, want.size()), want);
}

// Each piece begins with a token that nothing precedes.
TEST_P(SmallModel, ScoresATextInPieces) {
  constexpr int64_t kPiece = 6;
  SessionOptions small = options();
  small.capacity = kPiece;
  Session pieces = session(small), whole = session(options());
  std::vector<int32_t> ids = ids_;
  while (std::ssize(ids) < 2 * kPiece + 3) ids.insert(ids.end(), other_.begin(), other_.end());
  ids.resize(2 * kPiece + 3);
  const record::TextScore made = score_text(pieces, {}, ids, [](int64_t) {});
  EXPECT_EQ(made.tokens, 2 * kPiece + 3);
  EXPECT_EQ(made.pieces, 3);
  EXPECT_EQ(made.counted, 2 * (kPiece - 1) + 2);
  double nll = 0;
  for (size_t at = 0; at < ids.size(); at += kPiece)
    nll += score(whole, std::span(ids).subspan(at, std::min<size_t>(kPiece, ids.size() - at))).nll;
  EXPECT_NEAR(made.nll, nll, kSame * static_cast<double>(ids.size()));
}

// Far longer than the window, so that rings wrap around.
constexpr size_t kTokens = 80;

TEST_P(SmallModel, IsTheSameWithoutACache) {
  Session with = session(options());
  SessionOptions whole = options();
  whole.cached = false;
  Session without = session(whole);
  EXPECT_EQ(greedy(with, ids_, kTokens), greedy(without, ids_, kTokens));
  EXPECT_LE(largest_difference(with.logits(0), without.logits(0)), kSame);
}

TEST_P(SmallModel, IsTheSameInChunks) {
  std::vector<int32_t> text = ids_;
  text.insert(text.end(), other_.begin(), other_.end());
  text.resize(std::min<size_t>(text.size(), 192));
  Session whole = session(options());
  std::vector<float> want = last_logits(whole, text);
  double nll = score(whole, text).nll;
  for (int64_t chunk : {1, 7, 16, 33}) {
    SessionOptions cut = options();
    cut.chunk = chunk;
    Session made = session(cut);
    EXPECT_LE(largest_difference(last_logits(made, text), want), kSame) << "chunks of " << chunk;
    EXPECT_NEAR(score(made, text).nll, nll, 1e-3) << "chunks of " << chunk;
  }
}

TEST_P(SmallModel, IsTheSameInABatch) {
  SessionOptions three = options();
  three.slots = 3;
  three.chunk = 16;  // prompts share chunks
  Session batch = session(three);
  std::vector<int32_t> shorter(ids_.begin(), ids_.begin() + 5);
  std::vector<Prompt> prompts{{2, ids_, {}}, {0, other_, {}}, {1, shorter, {}}};
  std::vector<int32_t> tokens = batch.start(prompts);
  std::vector<int64_t> slots{2, 0, 1};
  std::vector<std::vector<int32_t>> made(3);
  for (int i = 0; i < 12; ++i) {
    for (size_t s = 0; s < 3; ++s) made[s].push_back(tokens[s]);
    batch.step(slots, tokens);
  }
  for (size_t s = 0; s < 3; ++s) {
    Session alone = session(options());
    made[s].push_back(tokens[s]);
    EXPECT_EQ(greedy(alone, prompts[s].ids, 13), made[s]);
    EXPECT_LE(largest_difference(alone.logits(0), batch.logits(slots[s])), kSame);
  }
}

// Runs follow each other: a decode's temporaries lie where those of the prompt lay.
TEST_P(SmallModel, ADecodeTakesTheArenaOfItsPrompt) {
  Session made = session(options());
  const auto arenas = [&] { return made.runner().owned_bytes() - made.runner().store_bytes(); };
  std::vector<int32_t> tokens = made.start(std::vector<Prompt>{{0, ids_, {}}});
  const int64_t of_prompt = arenas();
  EXPECT_GT(of_prompt, 0);
  made.step(std::vector<int64_t>{0}, tokens);
  EXPECT_EQ(made.runner().buckets().count(), 2);
  EXPECT_EQ(arenas(), of_prompt);
}

// Steps run in buckets that were built ahead of them and are larger, and none is built for them.
TEST_P(SmallModel, IsTheSameInPreparedBuckets) {
  SessionOptions two = options();
  two.slots = 2;
  two.chunk = 12;
  Session own = session(two), prepared = session(two);
  int64_t built = 0, all = 0;
  prepared.prepare([&](const Bucket&, int64_t done, int64_t count) {
    EXPECT_EQ(done, ++built);
    all = count;
  });
  EXPECT_EQ(built, all);
  EXPECT_EQ(prepared.runner().buckets().count(), all);
  const std::vector<int32_t> shorter(ids_.begin(), ids_.begin() + 5);
  for (Session* each : {&own, &prepared}) {
    const std::vector<Prompt> prompts{{1, ids_, {}}, {0, shorter, {}}};
    std::vector<int32_t> tokens = each->start(prompts);
    for (int i = 0; i < 5; ++i) {
      const int32_t last[] = {tokens[0], tokens[1]};
      const SequencePart parts[] = {{1, {&last[0], 1}}, {0, {&last[1], 1}}};
      each->compute({parts, i % 2 == 0 ? size_t{2} : size_t{1}});
      each->sampling().read();
      for (size_t part = 0; part < (i % 2 == 0 ? 2 : 1); ++part)
        tokens[part] = each->sampling().take(parts[part].slot);
    }
  }
  EXPECT_EQ(prepared.runner().buckets().count(), all);
  for (int64_t slot : {0, 1})
    EXPECT_LE(largest_difference(own.logits(slot), prepared.logits(slot)), kSame);
}

// Prompts advance in uneven parts beside sequences that decode.
TEST_P(SmallModel, IsTheSameInPartsBesideOthers) {
  constexpr size_t kMade = 13;
  SessionOptions two = options();
  two.slots = 2;
  two.chunk = 16;
  Session made = session(two);
  std::vector<std::vector<int32_t>> known{ids_, other_};  // the prompt, then what was sampled
  made.begin({0, known[0], {}});
  bool is_admitted = false;
  for (int step = 0; std::ranges::any_of(known,
                                         [&](auto& ids) {
                                           const auto& prompt =
                                               &ids == known.data() ? ids_ : other_;
                                           return ids.size() < prompt.size() + kMade;
                                         });
       ++step) {
    ASSERT_LT(step, 200);
    if (step == 5) {
      made.begin({1, known[1], {}});
      is_admitted = true;
    }
    std::vector<SequencePart> parts;
    for (int64_t slot : {0, 1}) {
      const std::vector<int32_t>& ids = known[static_cast<size_t>(slot)];
      if (slot == 1 && !is_admitted) continue;
      const size_t done = static_cast<size_t>(made.length(slot)), left = ids.size() - done,
                   taken = std::min(left, static_cast<size_t>(slot == 0 ? 2 : 3));
      parts.push_back({slot, std::span(ids).subspan(done, taken), taken == left});
    }
    made.compute(parts);
    made.sampling().read();
    for (const SequencePart& part : parts)
      if (part.samples)
        known[static_cast<size_t>(part.slot)].push_back(made.sampling().take(part.slot));
  }
  for (size_t i : {size_t{0}, size_t{1}}) {
    const std::vector<int32_t>& prompt = i == 0 ? ids_ : other_;
    Session alone = session(options());
    const auto begin = known[i].begin() + std::ssize(prompt);
    EXPECT_EQ(std::vector<int32_t>(begin, begin + kMade), greedy(alone, prompt, kMade));
  }
}

TEST_P(SmallModel, PromptsAsLongAsTheCapacityShareAChunk) {
  SessionOptions three = options();
  three.slots = 3;
  three.capacity = static_cast<int64_t>(ids_.size());
  three.chunk = 3 * three.capacity;
  Session batch = session(three);
  std::vector<SessionRun> runs;
  batch.runner().observe(&runs);
  std::vector<Prompt> prompts{{0, ids_, {}}, {1, ids_, {}}, {2, ids_, {}}};
  std::vector<int32_t> tokens = batch.start(prompts);
  EXPECT_EQ(runs.size(), 1u);
  Session alone = session(options());
  EXPECT_EQ(tokens, std::vector<int32_t>(3, alone.start({prompts.data(), 1})[0]));
}

TEST_P(SmallModel, IsTheSameAtEachLevel) {
  Session compiled = session(options());
  std::vector<int32_t> want = greedy(compiled, ids_, kTokens);
  std::vector<float> logits = compiled.logits(0);
  for (const char* level : {"baseline", "fused", "kernels"}) {
    Session made = session(options(level));
    EXPECT_EQ(greedy(made, ids_, kTokens), want) << level;
    EXPECT_LE(largest_difference(made.logits(0), logits), kSame) << level;
  }
}

TEST_P(SmallModel, DrawsByTheSeed) {
  auto drawn = [&](int64_t seed) {
    Session made = session(options());
    Prompt prompt{0, ids_, {1.0, 0, 0.95, 0, 1.1, seed}};
    std::vector<int32_t> tokens = made.start({&prompt, 1});
    int64_t slot = 0;
    for (int i = 0; i < 20; ++i) {
      tokens.push_back(0);
      made.step({&slot, 1}, {&tokens.back(), 1});
    }
    return tokens;
  };
  EXPECT_EQ(drawn(1), drawn(1));
  EXPECT_NE(drawn(1), drawn(2));
}

// A penalty below 1 makes a model repeat: the next token is the largest of the penalized logits, of
// which those of the prompt's last 64 tokens are.
TEST_P(SmallModel, PenalizesTheLastTokensOfThePrompt) {
  constexpr float kPenalty = 0.25f;
  std::vector<int32_t> text;
  while (text.size() < 90) {
    text.insert(text.end(), ids_.begin(), ids_.end());
    text.insert(text.end(), other_.begin(), other_.end());
  }
  text.resize(90);
  const std::set<int32_t> recent(text.end() - 64, text.end());
  SessionOptions two = options();
  two.slots = 2;
  for (int64_t slot : {0, 1}) {
    Session plain = session(two), penalized = session(two);
    Prompt prompt{slot, text, {}};
    const int32_t token = plain.start({&prompt, 1})[0];
    std::vector<float> logits = plain.logits(slot);
    for (int32_t id : recent) {
      float& logit = logits[static_cast<size_t>(id)];
      logit = logit > 0 ? logit / kPenalty : logit * kPenalty;
    }
    const auto want = std::max_element(logits.begin(), logits.end()) - logits.begin();
    prompt.sampling.repeat_penalty = kPenalty;
    EXPECT_EQ(penalized.start({&prompt, 1})[0], want) << "slot " << slot;
    EXPECT_NE(token, want) << "choose another text";
  }
}

TEST_P(SmallModel, RefusesWhatItCannotRun) {
  auto code = [&](std::vector<int32_t> ids, SamplingOptions sampling = {}) {
    Session made = session(options());
    Prompt prompt{0, ids, sampling};
    try {
      made.start({&prompt, 1});
    } catch (const Error& error) {
      return error.code();
    }
    return ExitCode::kFine;
  };
  EXPECT_EQ(code({}), ExitCode::kUsage);
  EXPECT_EQ(code({-1}), ExitCode::kUsage);
  EXPECT_EQ(code({static_cast<int32_t>(file_.config().vocabulary)}), ExitCode::kUsage);
  EXPECT_EQ(code(std::vector<int32_t>(193, 1)), ExitCode::kUsage);
  EXPECT_EQ(code(std::vector<int32_t>(192, 1)), ExitCode::kFine);
  EXPECT_EQ(code({1}, {.temperature = -1}), ExitCode::kUsage);
  EXPECT_EQ(code({1}, {.top_p = 2}), ExitCode::kUsage);
  EXPECT_THROW(session(at_level("compiled", file_.config().context + 1)), Error);
}

INSTANTIATE_TEST_SUITE_P(All, SmallModel, testing::ValuesIn(kSmallModels));

}  // namespace
}  // namespace ridge::serve
