// SPDX-License-Identifier: Apache-2.0
// Penalties and biases of single tokens on a small model: each token is the one that follows from
// the plain logits and from what was generated before, counted here by hand.
#include "serve/token_biases.h"

#include <algorithm>
#include <map>

#include "serve/real_model.h"

namespace ridge::serve {
namespace {

class TokenBiasesTest : public testing::Test {
 protected:
  TokenBiasesTest() : file_(models::ModelFile::open(data_folder() + "llama_fp32")) {
    ids_ = ids_of(files::read_json(data_folder() + "llama_fp32/expected.json")["ids"][0]);
  }
  Session session(int64_t slots = 1) {
    SessionOptions of = at_level("compiled", 192);
    of.slots = slots;
    return Session(file_, of, cpu_backend());
  }
  // The largest of the plain logits, changed by the options and what was generated.
  static int32_t expected(std::vector<float> logits,
                          const SamplingOptions& options,
                          const std::map<int32_t, int>& generated) {
    std::map<int32_t, double> biases;
    for (const LogitBias& each : options.logit_bias) biases[each.id] = each.bias;
    for (const auto& [id, bias] : biases)
      logits[static_cast<size_t>(id)] += static_cast<float>(bias);
    for (const auto& [id, count] : generated)
      logits[static_cast<size_t>(id)] -=
          static_cast<float>(options.presence_penalty + options.frequency_penalty * count);
    return static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
  }
  // Generates greedily and returns the tokens, each of which is checked.
  std::vector<int32_t> generate(Session& session, int64_t slot, const SamplingOptions& options) {
    const Prompt prompt{slot, ids_, options};
    int32_t token = session.start({&prompt, 1})[0];
    std::map<int32_t, int> generated;
    std::vector<int32_t> tokens;
    for (int i = 0; i < 40; ++i) {
      EXPECT_EQ(token, expected(session.logits(slot), options, generated)) << i;
      tokens.push_back(token);
      ++generated[token];
      session.step({&slot, 1}, {&token, 1});
    }
    return tokens;
  }

  models::ModelFile file_;
  std::vector<int32_t> ids_;
};

TEST_F(TokenBiasesTest, PenaltiesCountWhatWasGenerated) {
  Session one = session();
  const std::vector<int32_t> plain = generate(one, 0, {});
  for (const SamplingOptions& options :
       {SamplingOptions{.presence_penalty = 2}, SamplingOptions{.frequency_penalty = 2},
        SamplingOptions{.frequency_penalty = -2},
        SamplingOptions{.presence_penalty = -1, .frequency_penalty = 0.7}}) {
    EXPECT_NE(generate(one, 0, options), plain);
    // Nothing is left of the sequence before.
    EXPECT_EQ(generate(one, 0, {}), plain);
  }
}

TEST_F(TokenBiasesTest, BiasesForceAndForbid) {
  Session two = session(2);
  const std::vector<int32_t> plain = generate(two, 1, {});
  const std::vector<int32_t> forced = generate(two, 1, {.logit_bias = {{7, 100}}});
  EXPECT_EQ(forced, std::vector<int32_t>(forced.size(), 7));
  const std::vector<int32_t> others =
      generate(two, 1, {.frequency_penalty = 0.5, .logit_bias = {{plain[0], -100}, {9, 1}}});
  EXPECT_EQ(std::ranges::count(others, plain[0]), 0);
  // The last bias of an id counts.
  EXPECT_EQ(generate(two, 1, {.logit_bias = {{7, 100}, {7, 0}}}), plain);
}

TEST_F(TokenBiasesTest, RefusesWhatIsOutOfRange) {
  Session one = session();
  const auto refused = [&](const SamplingOptions& options) {
    EXPECT_THROW(one.begin({0, ids_, options}), Error);
  };
  refused({.presence_penalty = 2.1});
  refused({.frequency_penalty = -3});
  refused({.logit_bias = {{-1, 1}}});
  refused({.logit_bias = {{static_cast<int32_t>(file_.config().vocabulary), 1}}});
  refused({.logit_bias = {{1, 101}}});
  refused({.logit_bias = std::vector<LogitBias>(kMostLogitBiases + 1)});
}

// A list that is full counts no more tokens, and allocates nothing.
TEST(TokenBiases, HaveABound) {
  runtime::Store store(cpu_backend());
  TokenBiases biases(1, 10'000, store);
  biases.begin(0, {.presence_penalty = 1});
  for (int32_t id = 0; id < 5000; ++id) biases.count(0, 9999 - id);
  EXPECT_EQ(biases.size(0), 4096);
  biases.count(0, -1);
  biases.write();
  const std::vector<float> sent = store.read_floats("biases");
  EXPECT_EQ(std::ranges::count(sent, -1.0f), 4096);
}

}  // namespace
}  // namespace ridge::serve
