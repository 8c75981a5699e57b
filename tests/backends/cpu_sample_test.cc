// SPDX-License-Identifier: Apache-2.0
// Sampling, by the kernel and by the op's own reference, against an independent reference over
// random settings, and the probabilities of the candidates. op_no_token_test.cc has logits that are
// not finite.
#include "backends/cpu/kernels/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "base/random.h"
#include "ops/registry.h"

namespace ridge::backends::cpu {
namespace {

struct Request {
  std::vector<float> logits;
  std::vector<int32_t> recent;
  SampleSettings settings{};
  std::map<int32_t, float> biases;
};

// The biases of a request as the op reads them, with room for one that is not used.
struct BiasLists {
  explicit BiasLists(const Request& request) {
    for (const auto& [id, bias] : request.biases) ids.push_back(id), amounts.push_back(bias);
    ids.push_back(0), amounts.push_back(1000);
  }
  std::vector<int32_t> ids;
  std::vector<float> amounts;
};

int32_t sampled(const Request& request, int32_t seed, int32_t position) {
  std::vector<std::byte> workspace(
      static_cast<size_t>(sample_workspace_bytes(static_cast<int64_t>(request.logits.size()))));
  std::vector<int32_t> recent = request.recent;
  const BiasLists biases(request);
  int32_t token = -7;
  Sample call;
  call.rows = 1;
  call.vocabulary = static_cast<int64_t>(request.logits.size());
  call.recent_tokens = static_cast<int64_t>(recent.size());
  call.logits = {request.logits.data(), call.vocabulary};
  call.tokens = &token;
  call.recent = recent.data();
  call.next_positions = &position;
  call.settings = &request.settings;
  call.seeds = &seed;
  call.most_biases = std::ssize(biases.ids);
  call.biased = biases.ids.data();
  call.biases = biases.amounts.data();
  call.workspace = workspace.data();
  sample(call);
  EXPECT_EQ(recent[static_cast<size_t>(position) % recent.size()], token);
  return token;
}

// The same by the op's reference.
int32_t referenced(const Request& request, int32_t seed, int32_t position) {
  const auto vocabulary = static_cast<int64_t>(request.logits.size()),
             recent = static_cast<int64_t>(request.recent.size());
  const SampleSettings& s = request.settings;
  const BiasLists biases(request);
  const int64_t most = std::ssize(biases.ids);
  const Tensor64 inputs[] = {
      {{DType::kF32, {1, vocabulary}}, {request.logits.begin(), request.logits.end()}},
      {{DType::kI32, {1}}, {-7}},
      {{DType::kI32, {1, recent}}, {request.recent.begin(), request.recent.end()}},
      {{DType::kI32, {1}}, {static_cast<double>(position)}},
      {{DType::kF32, {1, 6}},
       {s.temperature, s.top_k, s.top_p, s.min_p, s.repeat_penalty, s.biases}},
      {{DType::kI32, {1}}, {static_cast<double>(seed)}},
      {{DType::kI32, {1, most}}, {biases.ids.begin(), biases.ids.end()}},
      {{DType::kF32, {1, most}}, {biases.amounts.begin(), biases.amounts.end()}}};
  std::vector<Type> types;
  std::vector<const Tensor64*> pointers;
  for (const Tensor64& input : inputs) {
    types.push_back(input.type);
    pointers.push_back(&input);
  }
  std::vector<Tensor64> outputs = {inputs[1], inputs[2]};
  const std::vector<Type> made = {types[1], types[2]};
  const Attrs none;
  ops::sample_op().reference({types, made, none}, pointers, outputs);
  EXPECT_EQ(outputs[1].data[static_cast<size_t>(position) % request.recent.size()],
            outputs[0].data[0]);
  return static_cast<int32_t>(outputs[0].data[0]);
}

// The candidate tokens with their probabilities. It follows the rules in the order that users know,
// not the kernel: penalty, biases, top-k, top-p, min-p, temperature. `Real` is the type in which
// the other side penalizes, because a threshold must not depend on the last bit.
template <typename Real>
std::map<int32_t, double> distribution(const Request& request) {
  const SampleSettings& s = request.settings;
  std::vector<std::pair<double, int32_t>> tokens;
  for (size_t i = 0; i < request.logits.size(); ++i)
    tokens.emplace_back(request.logits[i], static_cast<int32_t>(i));
  if (s.repeat_penalty > 0)
    for (int32_t id : std::set<int32_t>(request.recent.begin(), request.recent.end())) {
      if (id < 0 || id >= static_cast<int32_t>(tokens.size())) continue;
      double& logit = tokens[static_cast<size_t>(id)].first;
      const Real plain = static_cast<Real>(logit), penalty = s.repeat_penalty;
      logit = logit < 0 ? plain * penalty : plain / penalty;
    }
  for (const auto& [id, bias] : request.biases)
    if (id >= 0 && id < static_cast<int32_t>(tokens.size()))
      tokens[static_cast<size_t>(id)].first = static_cast<Real>(
          static_cast<Real>(tokens[static_cast<size_t>(id)].first) + static_cast<Real>(bias));
  std::sort(tokens.begin(), tokens.end(), [](auto& a, auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  if (!(s.temperature > 0)) return {{tokens[0].second, 1.0}};
  if (s.top_k >= 1) tokens.resize(std::min(tokens.size(), static_cast<size_t>(s.top_k)));
  auto probabilities = [&](double temperature) {
    std::vector<double> all;
    double sum = 0;
    for (auto& [logit, id] : tokens) {
      all.push_back(std::exp((logit - tokens[0].first) / temperature));
      sum += all.back();
    }
    for (double& each : all) each /= sum;
    return all;
  };
  std::vector<double> p = probabilities(1);
  if (s.top_p > 0 && s.top_p < 1) {
    size_t kept = 0;
    for (double covered = 0; kept < p.size() && covered < static_cast<double>(s.top_p); ++kept)
      covered += p[kept];
    tokens.resize(kept);
  }
  const double largest = p[0];
  for (size_t i = tokens.size(); i-- > 1;)
    if (p[i] < static_cast<double>(s.min_p) * largest) tokens.pop_back();
  p = probabilities(static_cast<double>(s.temperature));
  std::map<int32_t, double> result;
  for (size_t i = 0; i < tokens.size(); ++i) result[tokens[i].second] = p[i];
  return result;
}

// The token that a number in [0, 1) selects in order of ids; none within rounding of a boundary.
int32_t drawn(const std::map<int32_t, double>& distribution, double draw) {
  double cumulative = 0;
  for (auto& [id, p] : distribution) {
    cumulative += p;
    if (std::abs(cumulative - draw) < 1e-9 && distribution.size() > 1) return -1;
    if (cumulative > draw) return id;
  }
  return distribution.rbegin()->first;
}

Request random_request(std::mt19937& random) {
  Request request;
  auto uniform = [&] { return static_cast<float>(random() % 100'000) / 100'000; };
  const size_t vocabulary = 1 + random() % (random() % 4 == 0 ? 3000 : 60);
  const float spread = 1 + 4 * uniform();
  for (size_t i = 0; i < vocabulary; ++i) {
    float logit = spread * (2 * uniform() - 1.2f);
    if (random() % 5 == 0) logit = std::round(logit);  // equal logits
    request.logits.push_back(logit);
  }
  request.recent.resize(1 + random() % 12);
  for (int32_t& id : request.recent)
    // It is from -1, none, up to an id that is too large.
    id = static_cast<int32_t>(random() % (vocabulary + 2)) - 1;
  if (random() % 8 != 0) request.settings.temperature = 0.2f + 2 * uniform();
  if (random() % 2 == 0) request.settings.top_k = static_cast<float>(random() % 50);
  if (random() % 2 == 0) request.settings.top_p = 0.05f + 0.94f * uniform();
  if (random() % 2 == 0) request.settings.min_p = 0.3f * uniform();
  if (random() % 2 == 0) request.settings.repeat_penalty = 0.8f + uniform();
  if (random() % 2 == 0)
    for (size_t i = random() % 20; i > 0; --i)
      request.biases[static_cast<int32_t>(random() % (vocabulary + 1))] = 6 * uniform() - 3;
  request.settings.biases = static_cast<float>(request.biases.size());
  return request;
}

TEST(CpuSample, DrawsWhatTheReferenceDraws) {
  std::mt19937 random(3);
  int64_t compared = 0;
  for (int round = 0; round < 4000; ++round) {
    const Request request = random_request(random);
    const std::map<int32_t, double> expected = distribution<float>(request),
                                    in_double = distribution<double>(request);
    for (int each = 0; each < 8; ++each) {
      const auto seed = static_cast<int32_t>(random()),
                 position = static_cast<int32_t>(random() >> 1);
      const double draw = uniform_at(static_cast<uint32_t>(seed), static_cast<uint32_t>(position));
      const int32_t token = drawn(expected, draw), again = drawn(in_double, draw);
      if (token < 0 || again < 0) continue;
      ++compared;
      ASSERT_EQ(sampled(request, seed, position), token) << "round " << round;
      ASSERT_EQ(referenced(request, seed, position), again) << "round " << round;
    }
  }
  EXPECT_GT(compared, 31'000);
}

// Rows of logits belong to the slots that they name; what no row names stays.
TEST(CpuSample, TakesRowsInAnyOrder) {
  constexpr int64_t kSlots = 4, kVocabulary = 5, kRecent = 2;
  const std::vector<float> logits = {0, 1, 9, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 9};
  const std::vector<int32_t> row_slots = {2, -1, 0}, positions = {3, 3, 2, -1}, seeds(kSlots, 1);
  std::vector<int32_t> tokens(kSlots, 7), recent(kSlots * kRecent, 8);
  const std::vector<SampleSettings> settings(kSlots, SampleSettings{});
  std::vector<std::byte> workspace(static_cast<size_t>(sample_workspace_bytes(kVocabulary)));
  Sample call;
  call.rows = std::ssize(row_slots);
  call.vocabulary = kVocabulary;
  call.recent_tokens = kRecent;
  call.logits = {logits.data(), kVocabulary};
  call.row_slots = row_slots.data();
  call.tokens = tokens.data();
  call.recent = recent.data();
  call.next_positions = positions.data();
  call.settings = settings.data();
  call.seeds = seeds.data();
  call.workspace = workspace.data();
  sample(call);
  EXPECT_EQ(tokens, (std::vector<int32_t>{4, 7, 2, 7}));
  EXPECT_EQ(recent, (std::vector<int32_t>{8, 4, 8, 8, 2, 8, 8, 8}));
}

// 20,000 draws of one request: the frequency of each token matches its probability within 5
// standard deviations.
TEST(CpuSample, DrawsWithTheProbabilitiesOfTheReference) {
  std::mt19937 random(4);
  for (int round = 0; round < 6; ++round) {
    Request request = random_request(random);
    request.logits.resize(std::min<size_t>(request.logits.size(), 40));
    request.settings.temperature = 0.7f + 0.2f * static_cast<float>(round);
    const std::map<int32_t, double> expected = distribution<float>(request);
    constexpr int kDraws = 20'000;
    std::map<int32_t, int> counts;
    for (int position = 0; position < kDraws; ++position) ++counts[sampled(request, 11, position)];
    for (auto& [id, count] : counts) EXPECT_TRUE(expected.count(id) == 1) << id;
    for (auto& [id, p] : expected)
      EXPECT_NEAR(counts[id], kDraws * p, 5 * std::sqrt(kDraws * p * (1 - p)) + 1) << id;
  }
}

}  // namespace
}  // namespace ridge::backends::cpu
