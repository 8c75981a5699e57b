// SPDX-License-Identifier: Apache-2.0
// Sessions on weights that are not finite: no token is sampled from what is no distribution, and
// the error names the tensor.
#include <gtest/gtest.h>

#include <fstream>
#include <limits>

#include "serve/answer_reader.h"
#include "serve/bytes_tokenizer.h"
#include "serve/real_model.h"
#include "serve/text_score.h"

namespace ridge::serve {
namespace {

// A copy of a small model whose embedding is not its head, so that a row that is not finite affects
// only sequences that contain its token.
class NotFinite : public testing::Test {
 protected:
  NotFinite() : path_(folder_ / "model") {
    std::filesystem::copy(data_folder() + "llama_fp32", path_);
    const nlohmann::json expected = files::read_json(path_ + "/expected.json");
    ids_ = ids_of(expected["ids"][0]);
    next_ = ids_of(expected["greedy_from_first_row"])[0];
  }

  void plant(const std::string& tensor, int64_t element, float value) const {
    std::streamoff at = 0;
    {
      const models::ModelFile file = models::ModelFile::open(path_);
      at = file.bytes(tensor).data() - file.file_parts()[0].data() + 4 * element;
    }
    std::fstream stream(path_ + "/model.safetensors",
                        std::ios::binary | std::ios::in | std::ios::out);
    stream.seekp(at);
    stream.write(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void plant_in_row(int32_t token, float value) const {
    plant("model.embed_tokens.weight", int64_t{64} * token, value);
  }

  void expect_named(const std::function<void()>& run, const std::string& tensor) const {
    files::expect_error(
        run, ExitCode::kBadFile,
        "[model] expected finite logits, got nan or infinity; the first tensor that "
        "is not finite is " +
            tensor);
  }

  files::ScratchFolder folder_;
  std::string path_;
  std::vector<int32_t> ids_;
  int32_t next_ = 0;  // the token that follows the ids
};

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST_F(NotFinite, EndsAStartWithTheTensorsName) {
  for (float value : {kNan, std::numeric_limits<float>::infinity()}) {
    plant("model.norm.weight", 3, value);
    const models::ModelFile file = models::ModelFile::open(path_);
    for (const char* level : {"baseline", "compiled"})
      for (double temperature : {0.0, 0.8}) {
        Session session(file, at_level(level, 64), cpu_backend());
        const Prompt prompt{0, ids_, {.temperature = temperature}};
        expect_named([&] { session.start({&prompt, 1}); }, "model.norm.weight");
      }
  }
}

TEST_F(NotFinite, EndsAScoreWithWhatItFound) {
  plant("model.norm.weight", 3, kNan);
  const models::ModelFile file = models::ModelFile::open(path_);
  Session session(file, at_level("compiled", 64), cpu_backend());
  files::expect_error([&] { score(session, ids_); }, ExitCode::kBadFile,
                      "[model] expected finite log-likelihoods, got nan; the first tensor that is "
                      "not finite is model.norm.weight");
}

// One logit of all is NaN: the other tokens' probabilities are not known either.
TEST_F(NotFinite, EndsAStartWithOneBadLogit) {
  plant("lm_head.weight", int64_t{64} * 17, kNan);
  const models::ModelFile file = models::ModelFile::open(path_);
  Session session(file, at_level("compiled", 64), cpu_backend());
  const Prompt prompt{0, ids_, {}};
  expect_named([&] { session.start({&prompt, 1}); }, "lm_head.weight");
}

TEST_F(NotFinite, EndsAStepWithTheTensorsName) {
  ASSERT_EQ(std::count(ids_.begin(), ids_.end(), next_), 0) << "choose another model";
  plant_in_row(next_, kNan);
  const models::ModelFile file = models::ModelFile::open(path_);
  for (bool cached : {true, false}) {
    SessionOptions options = at_level("compiled", 64);
    options.cached = cached;
    Session session(file, options, cpu_backend());
    const Prompt prompt{0, ids_, {}};
    const int64_t slot = 0;
    int32_t token = session.start({&prompt, 1})[0];
    EXPECT_EQ(token, next_);
    expect_named([&] { session.step({&slot, 1}, {&token, 1}); }, "model.embed_tokens.weight");
  }
}

// Sequences of a batch do not see each other's numbers.
TEST_F(NotFinite, LeavesOtherSequencesAlone) {
  const int32_t bad = next_ == 7 ? 8 : 7;
  ASSERT_EQ(std::count(ids_.begin(), ids_.end(), bad), 0) << "choose another token";
  plant_in_row(bad, kNan);
  const models::ModelFile file = models::ModelFile::open(path_);
  SessionOptions options = at_level("compiled", 64);
  options.slots = 2;
  Session session(file, options, cpu_backend());
  const std::vector<int32_t> spoiled{1, bad, 3};
  const std::vector<Prompt> prompts{{0, ids_, {}}, {1, spoiled, {}}};
  expect_named([&] { session.start(prompts); }, "model.embed_tokens.weight");
  const int64_t slot = 0;
  int32_t token = -1;
  session.step({&slot, 1}, {&token, 1});
  EXPECT_EQ(token, ids_of(files::read_json(path_ + "/expected.json")["greedy_from_first_row"])[1]);
}

TEST_F(NotFinite, AnEngineFailsOnlyThatRequest) {
  const int32_t bad = next_ == 7 ? 8 : 7;
  plant_in_row(bad, kNan);
  const models::ModelFile file = models::ModelFile::open(path_);
  const text::Tokenizer tokenizer = bytes_tokenizer(file.config().vocabulary);
  SessionOptions options = at_level("compiled", 64);
  options.slots = 2;
  Session session(file, options, cpu_backend());
  Engine engine(session, tokenizer, {});
  AnswerReader spoiled(engine, {.prompt = {1, bad, 3}, .max_tokens = 4, .top_logprobs = 1});
  AnswerReader fine(engine, {.prompt = ids_, .max_tokens = 2});
  EXPECT_EQ(spoiled.finished().finish, Finish::kFailed);
  EXPECT_NE(spoiled.finished().error.find("finite logits"), std::string::npos);
  EXPECT_EQ(fine.finished().tokens, 2);
  AnswerReader after(engine, {.prompt = ids_, .max_tokens = 2});
  EXPECT_EQ(after.finished().text, fine.finished().text);
}

// All weights are finite, and products of them are not.
TEST_F(NotFinite, SaysThatTheWeightsAreFinite) {
  for (int64_t i = 0; i < 64; ++i) plant("model.norm.weight", i, 3e38f);
  const models::ModelFile file = models::ModelFile::open(path_);
  Session session(file, at_level("compiled", 64), cpu_backend());
  const Prompt prompt{0, ids_, {}};
  files::expect_error(
      [&] {
        session.start({&prompt, 1});
      },
      ExitCode::kRuntime,
      "[model] expected finite logits, got nan or infinity; all weights are "
      "finite");
}

TEST_F(NotFinite, EndsValuesWithTheirNames) {
  plant("model.norm.weight", 3, kNan);
  const models::ModelFile file = models::ModelFile::open(path_);
  Session session(file, at_level("compiled", 64), cpu_backend());
  const auto refused = [&](models::InferenceTask task, const std::string& name) {
    files::expect_error([&] { session.values(0, ids_, task); }, ExitCode::kBadFile,
                        "[model] expected finite " + name +
                            ", got nan; the first tensor that is not finite is model.norm.weight");
  };
  refused(models::InferenceTask::kHidden, "hidden states");
  refused(models::InferenceTask::kLogits, "logits");
  plant("model.norm.weight", 3, std::numeric_limits<float>::infinity());
  const models::ModelFile infinite = models::ModelFile::open(path_);
  Session other(infinite, at_level("compiled", 64), cpu_backend());
  files::expect_error([&] { other.values(0, ids_, models::InferenceTask::kHidden); },
                      ExitCode::kBadFile, "[model] expected finite hidden states, got infinity; ");
}

TEST_F(NotFinite, KeepsAnEngineFromItsStart) {
  plant("model.norm.weight", 3, kNan);
  const models::ModelFile file = models::ModelFile::open(path_);
  const text::Tokenizer tokenizer = bytes_tokenizer(file.config().vocabulary);
  Session session(file, at_level("compiled", 64), cpu_backend());
  expect_named([&] { const Engine engine(session, tokenizer, {}); }, "model.norm.weight");
  EXPECT_FALSE(session.free_slots().is_empty());
}

// Nothing samples the rows of ids that no token has; whoever asks for probabilities hears of them.
TEST_F(NotFinite, ARowWithoutATokenEndsOnlyAnswersWithProbabilities) {
  plant("lm_head.weight", int64_t{64} * 159, kNan);
  models::ModelFile file = models::ModelFile::open(path_);
  file.limit_tokens(150);
  const text::Tokenizer tokenizer = bytes_tokenizer(150, false);
  Session session(file, at_level("compiled", 64), cpu_backend());
  Engine engine(session, tokenizer, {});
  AnswerReader plain(engine, {.prompt = {1, 2, 3}, .max_tokens = 2});
  EXPECT_EQ(plain.finished().finish, Finish::kLength);
  AnswerReader scored(engine, {.prompt = {1, 2, 3}, .max_tokens = 2, .top_logprobs = 0});
  EXPECT_EQ(scored.finished().finish, Finish::kFailed);
  EXPECT_EQ(scored.finished().error,
            "[model] expected finite logits, got nan; the first tensor that is not finite is "
            "lm_head.weight");
  EXPECT_EQ(scored.finished().tokens, 0);
  EXPECT_EQ(engine.counts().internal_errors, 0);
}

}  // namespace
}  // namespace ridge::serve
