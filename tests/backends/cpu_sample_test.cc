// SPDX-License-Identifier: Apache-2.0
// Sampling against an independent reference over random settings, the probabilities of the
// candidates, and logits that are not finite.
#include "backends/cpu/kernels/sample.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "base/random.h"

namespace ridge::backends::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Request {
  std::vector<float> logits;
  std::vector<int32_t> recent;
  SampleSettings settings{};
};

int32_t sampled(const Request& request, int32_t seed, int32_t position) {
  std::vector<std::byte> workspace(
      static_cast<size_t>(sample_workspace_bytes(static_cast<int64_t>(request.logits.size()))));
  std::vector<int32_t> recent = request.recent;
  int32_t token = -7;
  Sample call;
  call.slots = 1;
  call.vocabulary = static_cast<int64_t>(request.logits.size());
  call.recent_tokens = static_cast<int64_t>(recent.size());
  call.logits = {request.logits.data(), call.vocabulary};
  call.tokens = &token;
  call.recent = recent.data();
  call.next_positions = &position;
  call.settings = &request.settings;
  call.seeds = &seed;
  call.workspace = workspace.data();
  sample(call);
  EXPECT_EQ(recent[static_cast<size_t>(position) % recent.size()], token);
  return token;
}

// The candidate tokens with their probabilities. It follows the rules in the order that users know,
// not the kernel: penalty, top-k, top-p, min-p, temperature.
std::map<int32_t, double> distribution(const Request& request) {
  const SampleSettings& s = request.settings;
  std::vector<std::pair<double, int32_t>> tokens;
  for (size_t i = 0; i < request.logits.size(); ++i)
    tokens.emplace_back(request.logits[i], static_cast<int32_t>(i));
  if (s.repeat_penalty > 0)
    for (int32_t id : std::set<int32_t>(request.recent.begin(), request.recent.end())) {
      if (id < 0 || id >= static_cast<int32_t>(tokens.size())) continue;
      double& logit = tokens[static_cast<size_t>(id)].first;
      // In fp32 like the kernel, because a threshold must not depend on the last bit.
      const float penalized = logit < 0 ? static_cast<float>(logit) * s.repeat_penalty
                                        : static_cast<float>(logit) / s.repeat_penalty;
      logit = penalized;
    }
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
  double walked = 0;
  for (auto& [id, p] : distribution) {
    walked += p;
    if (std::abs(walked - draw) < 1e-9 && distribution.size() > 1) return -1;
    if (walked > draw) return id;
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
    // From -1, none, up to an id that is too large.
    id = static_cast<int32_t>(random() % (vocabulary + 2)) - 1;
  if (random() % 8 != 0) request.settings.temperature = 0.2f + 2 * uniform();
  if (random() % 2 == 0) request.settings.top_k = static_cast<float>(random() % 50);
  if (random() % 2 == 0) request.settings.top_p = 0.05f + 0.94f * uniform();
  if (random() % 2 == 0) request.settings.min_p = 0.3f * uniform();
  if (random() % 2 == 0) request.settings.repeat_penalty = 0.8f + uniform();
  return request;
}

TEST(CpuSample, DrawsWhatTheReferenceDraws) {
  std::mt19937 random(3);
  int64_t compared = 0;
  for (int round = 0; round < 4000; ++round) {
    const Request request = random_request(random);
    const std::map<int32_t, double> expected = distribution(request);
    for (int each = 0; each < 8; ++each) {
      const auto seed = static_cast<int32_t>(random()),
                 position = static_cast<int32_t>(random() >> 1);
      const int32_t token =
          drawn(expected, uniform_at(static_cast<uint32_t>(seed), static_cast<uint32_t>(position)));
      if (token < 0) continue;
      ++compared;
      ASSERT_EQ(sampled(request, seed, position), token) << "round " << round;
    }
  }
  EXPECT_GT(compared, 31'000);
}

// 20,000 draws of one request: the frequency of each token matches its probability within 5
// standard deviations.
TEST(CpuSample, DrawsWithTheProbabilitiesOfTheReference) {
  std::mt19937 random(4);
  for (int round = 0; round < 6; ++round) {
    Request request = random_request(random);
    request.logits.resize(std::min<size_t>(request.logits.size(), 40));
    request.settings.temperature = 0.7f + 0.2f * static_cast<float>(round);
    const std::map<int32_t, double> expected = distribution(request);
    constexpr int kDraws = 20'000;
    std::map<int32_t, int> counts;
    for (int position = 0; position < kDraws; ++position) ++counts[sampled(request, 11, position)];
    for (auto& [id, count] : counts) EXPECT_TRUE(expected.count(id) == 1) << id;
    for (auto& [id, p] : expected)
      EXPECT_NEAR(counts[id], kDraws * p, 5 * std::sqrt(kDraws * p * (1 - p)) + 1) << id;
  }
}

// NaN counts as -infinity; the largest logit has weight 1 even if it is infinite.
TEST(CpuSample, TakesLogitsThatAreNoNumbers) {
  std::vector<SampleSettings> all;
  for (float temperature : {0.0f, 0.8f})
    for (float top_k : {0.0f, 3.0f})
      for (float top_p : {0.0f, 0.5f})
        for (float min_p : {0.0f, 0.2f, 2.0f})
          for (float penalty : {0.0f, 1.3f})
            all.push_back({temperature, top_k, top_p, min_p, penalty});
  const std::vector<std::vector<float>> logits = {
      {NAN, NAN, NAN, NAN},
      {-kInfinity, -kInfinity, -kInfinity, -kInfinity},
      {NAN, 1, NAN, -kInfinity},
      {kInfinity, 1, kInfinity, NAN},
      {kInfinity},
      {3e38f, -3e38f, NAN, 3e38f},
  };
  for (const SampleSettings& settings : all)
    for (const std::vector<float>& each : logits)
      for (int32_t position = 0; position < 20; ++position) {
        const int32_t token = sampled({each, {0, -1}, settings}, 5, position);
        ASSERT_TRUE(token >= 0 && token < static_cast<int32_t>(each.size()));
        const bool has_number =
            std::any_of(each.begin(), each.end(), [](float x) { return x > -kInfinity; });
        if (!has_number) continue;
        ASSERT_GT(each[static_cast<size_t>(token)], -kInfinity) << position;
      }
}

}  // namespace
}  // namespace ridge::backends::cpu
