// SPDX-License-Identifier: Apache-2.0
// sample: chooses slots' next tokens from logits [N,V] and overwrites their last ones. Inputs:
// logits; states tokens i32[S] and recent i32[S,R] (cell p mod R holds the token at position p,
// -1 = none); next_positions i32[S] (-1: the slot is skipped); settings f32[S,6]: temperature (0:
// the largest logit), top-k, top-p, min-p, repeat penalty, number of biases, each off at 0; seeds
// i32[S]; biased i32[S,A], per slot so many ids in ascending order, each once; biases f32[S,A], one
// for each; and, if not every slot has a row of logits in the order of slots, row_slots i32[N], the
// slot of each row, each slot at most once (-1: the row is skipped). Outputs: tokens and recent
// with the tokens written.
//
// The steps are, in this order: the logits of recent tokens are divided by the penalty (multiplied
// if negative); each bias is added to its token's logit; the k largest are kept; of them the fewest
// whose probabilities sum to top-p; of them those with at least min-p times the largest
// probability. One of these is drawn with weights exp(logit / temperature), in the order of ids, by
// a number in [0, 1) that depends on seed and position alone. Of equal logits, the one with the
// lower id counts as larger.
//
// Logits of which one is NaN or +infinity, or all are -infinity, are no distribution: the token is
// then -1, whatever the settings. A logit of -infinity among finite ones has weight 0.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <vector>

#include "base/random.h"
#include "ops/op_from.h"

namespace ridge::ops {
namespace {

constexpr int64_t kSettings = 6;

void penalize(std::vector<double>& logits, const double* recent, int64_t count, double penalty) {
  std::set<double> seen(recent, recent + count);
  for (double token : seen)
    if (token >= 0 && token < static_cast<double>(logits.size())) {
      double& logit = logits[static_cast<size_t>(token)];
      logit = logit > 0 ? logit / penalty : logit * penalty;
    }
}

void add_biases(std::vector<double>& logits, const double* ids, const double* biases, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    if (ids[i] >= 0 && ids[i] < static_cast<double>(logits.size()))
      logits[static_cast<size_t>(ids[i])] += biases[i];
}

// Whether the logits are the logarithms of a distribution's weights.
bool is_distribution(const std::vector<double>& logits) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return std::all_of(logits.begin(), logits.end(), [](double x) { return x < kInfinity; }) &&
         std::any_of(logits.begin(), logits.end(), [](double x) { return x > -kInfinity; });
}

// Relative to the largest logit.
double weight(double logit, double top, double temperature) {
  return std::exp((logit - top) / temperature);
}

// Ids that are kept, largest logit first.
std::vector<size_t> kept(const std::vector<double>& logits, const double* settings) {
  std::vector<size_t> order(logits.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  if (settings[0] <= 0) return {order[0]};
  double top_k = std::floor(settings[1]);
  if (top_k >= 1) order.resize(std::min(order.size(), static_cast<size_t>(top_k)));
  double top = logits[order[0]], sum = 0;
  for (size_t id : order) sum += weight(logits[id], top, 1);
  if (settings[2] > 0 && settings[2] < 1) {
    double covered = 0;
    size_t count = 0;
    while (count < order.size() && covered < settings[2] * sum)
      covered += weight(logits[order[count++]], top, 1);
    order.resize(count);
  }
  while (settings[3] > 0 && order.size() > 1 && weight(logits[order.back()], top, 1) < settings[3])
    order.pop_back();
  return order;
}

size_t choose(const std::vector<double>& logits, const double* settings, double draw) {
  std::vector<size_t> order = kept(logits, settings);
  if (order.size() == 1) return order[0];
  double top = logits[order[0]], sum = 0;
  std::sort(order.begin(), order.end());
  for (size_t id : order) sum += weight(logits[id], top, settings[0]);
  double cumulative = 0;
  for (size_t id : order) {
    cumulative += weight(logits[id], top, settings[0]);
    if (cumulative > draw * sum) return id;
  }
  return order.back();
}

struct SampleOp {
  static Op declaration() {
    return {.name = "sample",
            .category = OpCategory::kSampling,
            .operands = {8, 9},
            .formula = "1 FLOP a logit"};
  }

  static std::vector<Type> infer(const Call& call) {
    const Type& logits = call.inputs[0];
    expect_rank("sample", logits, 2, "the logits");
    expect_dtype("sample", logits, DType::kF32, "the logits");
    expect_rank("sample", call.inputs[1], 1, "tokens");
    const int64_t rows = logits.shape[0], slots = call.inputs[1].shape[0];
    if (call.inputs.size() == 9)
      expect_type("sample", call.inputs[8], i32({rows}), "slots of rows");
    else if (rows != slots)
      throw usage_error("[sample] expected logits of {} slots, got {}", slots, logits.str());
    if (logits.shape[1] < 1)
      throw usage_error("[sample] expected a vocabulary, got {}", logits.str());
    expect_rank("sample", call.inputs[2], 2, "recent tokens");
    int64_t recent = call.inputs[2].shape[1];
    if (recent < 1)
      throw usage_error("[sample] expected room for a recent token, got {}", call.inputs[2].str());
    expect_type("sample", call.inputs[1], i32({slots}), "tokens");
    expect_type("sample", call.inputs[2], i32({slots, recent}), "recent tokens");
    expect_type("sample", call.inputs[3], i32({slots}), "next positions");
    expect_type("sample", call.inputs[4], f32({slots, kSettings}), "settings");
    expect_type("sample", call.inputs[5], i32({slots}), "seeds");
    expect_rank("sample", call.inputs[6], 2, "biased ids");
    int64_t biases = call.inputs[6].shape[1];
    expect_type("sample", call.inputs[6], i32({slots, biases}), "biased ids");
    expect_type("sample", call.inputs[7], f32({slots, biases}), "biases");
    return {call.inputs[1], call.inputs[2]};
  }

  static std::vector<Alias> aliases(const Call&) { return {{0, 1}, {1, 2}}; }

  // One comparison per logit; the work of the other settings is not counted.
  static Work work(const Call& call) { return arithmetic(call.inputs[0].shape.elements()); }
  static ModelWork model_work(const Call& call) { return {work(call), {}}; }
  // Only as many biases are read as there are, by default none.
  static std::optional<Traffic> traffic(const Call& call) {
    Traffic traffic = whole_operands(call);
    traffic.read_bytes[6] = traffic.read_bytes[7] = 0;
    traffic.written_bytes[0] = storage_bytes(DType::kI32, call.inputs[0].shape[0]);
    return traffic;
  }

  static void reference(const Call& call, Inputs64 in, Outputs64 out) {
    int64_t vocabulary = call.inputs[0].shape[1], recent = call.inputs[2].shape[1],
            most_biases = call.inputs[6].shape[1];
    out[0].data = in[1]->data;
    out[1].data = in[2]->data;
    for (int64_t row = 0; row < call.inputs[0].shape[0]; ++row) {
      const int64_t s =
          in.size() < 9 ? row : static_cast<int64_t>(in[8]->data[static_cast<size_t>(row)]);
      if (s < 0) continue;
      size_t slot = static_cast<size_t>(s);
      int64_t position = static_cast<int64_t>(in[3]->data[slot]);
      if (position < 0) continue;
      std::vector<double> logits(in[0]->data.begin() + row * vocabulary,
                                 in[0]->data.begin() + (row + 1) * vocabulary);
      const double* settings = &in[4]->data[static_cast<size_t>(s * kSettings)];
      if (settings[4] > 0)
        penalize(logits, &in[2]->data[static_cast<size_t>(s * recent)], recent, settings[4]);
      size_t first = static_cast<size_t>(s * most_biases);
      add_biases(logits, in[6]->data.data() + first, in[7]->data.data() + first,
                 std::min(static_cast<int64_t>(settings[5]), most_biases));
      double draw = uniform_at(static_cast<uint32_t>(static_cast<int32_t>(in[5]->data[slot])),
                               static_cast<uint32_t>(position));
      double token =
          is_distribution(logits) ? static_cast<double>(choose(logits, settings, draw)) : -1;
      out[0].data[slot] = token;
      out[1].data[static_cast<size_t>(s * recent + position % recent)] = token;
    }
  }

  static std::vector<Case> cases() {
    std::vector<Case> cases;
    struct SamplerSample {
      const char* name;
      int64_t slots, vocabulary, recent, biases;
      double setting;
    };
    // All settings have one value: 0 is greedy; at 0.9 few tokens stay; at 2 top-k keeps two, with
    // a penalty and two biases.
    for (const SamplerSample& r :
         {SamplerSample{"greedy", 5, 67, 4, 3, 0}, SamplerSample{"one", 1, 1, 1, 1, 0},
          SamplerSample{"drawn", 6, 131, 8, 5, 0.9}, SamplerSample{"top2", 6, 67, 3, 4, 2}}) {
      CaseInput logits{f32({r.slots, r.vocabulary}), {Fill::kNormal, 3, false}, false};
      auto ids = [](const Shape& shape, int64_t bound) {
        return CaseInput{i32(shape), {Fill::kIds, static_cast<double>(bound), false}, false};
      };
      cases.push_back({r.name,
                       {logits,
                        ids({r.slots}, r.vocabulary),
                        ids({r.slots, r.recent}, r.vocabulary),
                        ids({r.slots}, 50),
                        {f32({r.slots, kSettings}), {Fill::kConstant, r.setting, false}, false},
                        ids({r.slots}, 1000),
                        {i32({r.slots, r.biases}),
                         {Fill::kPositions, static_cast<double>(r.biases), false},
                         false},
                        {f32({r.slots, r.biases}), {Fill::kNormal, 2, false}, false}},
                       {}});
    }
    // Three of five slots have rows.
    Case some = cases.front();
    some.name = "rows";
    some.inputs[0].type.shape = some.inputs[0].type.shape.with(0, 3);
    some.inputs.push_back({i32({3}), {Fill::kPositions, 3, false}, false});
    cases.push_back(some);
    return cases;
  }
};

}  // namespace

const Op& sample_op() { return op_from<SampleOp>(); }

}  // namespace ridge::ops
