// SPDX-License-Identifier: Apache-2.0
// Selects candidates by partial sorting: only as much of a large vocabulary is sorted as top-p
// needs.
#include "backends/cpu/kernels/kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/kernels/partition.h"
#include "base/random.h"

namespace ridge::backends::cpu {
namespace {

struct Candidate {
  float logit;
  int32_t id;
};

// Larger logits come first; among equal ones, the lower id.
bool before(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

// NaN or +infinity.
bool is_spoiled(float logit) { return !(logit < std::numeric_limits<float>::infinity()); }

float penalized(float logit, float penalty) {
  return logit > 0 ? logit / penalty : logit * penalty;
}

class Chooser {
 public:
  Chooser(const Sample& call, int64_t row, int64_t slot)
      : call_(call),
        settings_(call.settings[slot]),
        logits_(call.logits[row]),
        recent_(call.recent + slot * call.recent_tokens),
        biased_(call.biased + slot * call.most_biases),
        biases_(call.biases + slot * call.most_biases),
        candidates_(reinterpret_cast<Candidate*>(call.workspace)) {}

  int32_t choose(float draw) {
    if (!(settings_.temperature > 0))
      return settings_.repeat_penalty > 0 || settings_.biases >= 1 ? greedy_changed() : greedy();
    if (!fill()) return kNoToken;
    cut_top_k();
    sum_ = 0;
    top_ = std::min_element(candidates_, candidates_ + count_, before)->logit;
    if (std::isinf(top_)) return kNoToken;
    cut_top_p();
    cut_min_p();
    return draw_one(draw);
  }

 private:
  static constexpr int64_t kBlock = 1024;

  static constexpr Candidate kSpoiled{std::numeric_limits<float>::infinity(), kNoToken};

  float reduced(Range block, Reduction reduction) const {
    float value = 0;
    reduce_rows<float, float>(
        {1, block.end - block.begin, reduction, {logits_ + block.begin, 0}, &value});
    return value;
  }

  // The first of the largest logits; kSpoiled if one of all is NaN or +infinity. Only a block with
  // a larger maximum than all blocks before it is searched. The maximum ignores NaN, the sum does
  // not; the sum finds a block that the maximum has put into L1.
  Candidate largest(Range range) const {
    Candidate top{-std::numeric_limits<float>::infinity(), kNoToken};
    for (int64_t begin = range.begin; begin < range.end; begin += kBlock) {
      const Range block{begin, std::min(begin + kBlock, range.end)};
      const float most = reduced(block, Reduction::kMax);
      const float *first = logits_ + block.begin, *last = logits_ + block.end;
      if (!std::isfinite(reduced(block, Reduction::kSum)) && std::any_of(first, last, is_spoiled))
        return kSpoiled;
      if (most > top.logit)
        top = {most, static_cast<int32_t>(std::find(first, last, most) - logits_)};
    }
    return top;
  }

  // Each thread searches the logits that it computed, which are in its cache.
  int32_t greedy() const {
    const int64_t parts = parts_for(bytes_of<float>(call_.vocabulary));
    for_each_part(parts, [&](int64_t part) {
      candidates_[part] = largest(part_of(call_.vocabulary, parts, part, kBlock));
    });
    Candidate top = candidates_[0];
    for (int64_t part = 1; part < parts; ++part)
      if (candidates_[part].logit > top.logit) top = candidates_[part];
    return top.id;
  }

  int32_t greedy_changed() {
    if (!fill()) return kNoToken;
    const Candidate top = *std::min_element(candidates_, candidates_ + count_, before);
    return std::isinf(top.logit) ? kNoToken : top.id;
  }

  // Returns false if a logit is NaN or +infinity.
  bool fill() {
    count_ = call_.vocabulary;
    bool spoiled = false;
    for (int64_t i = 0; i < count_; ++i) {
      candidates_[i] = {logits_[i], static_cast<int32_t>(i)};
      spoiled |= is_spoiled(logits_[i]);
    }
    if (spoiled) return false;
    if (settings_.repeat_penalty > 0) penalize();
    add_biases();
    return true;
  }

  void penalize() {
    for (int64_t r = 0; r < call_.recent_tokens; ++r) {
      const int32_t id = recent_[r];
      if (id < 0 || id >= call_.vocabulary) continue;
      // A token is penalized once, however often it occurred.
      candidates_[id].logit = penalized(logits_[id], settings_.repeat_penalty);
    }
  }

  void add_biases() {
    const int64_t count = std::min(static_cast<int64_t>(settings_.biases), call_.most_biases);
    for (int64_t i = 0; i < count; ++i)
      if (biased_[i] >= 0 && biased_[i] < call_.vocabulary)
        candidates_[biased_[i]].logit += biases_[i];
  }

  void cut_top_k() {
    if (!(settings_.top_k >= 1) || settings_.top_k >= static_cast<float>(count_)) return;
    const int64_t k = static_cast<int64_t>(settings_.top_k);
    std::nth_element(candidates_, candidates_ + k - 1, candidates_ + count_, before);
    count_ = k;
  }

  // Relative to the largest logit.
  double weight(const Candidate& each, double temperature = 1) const {
    return std::exp((static_cast<double>(each.logit) - top_) / temperature);
  }

  void cut_top_p() {
    if (!(settings_.top_p > 0 && settings_.top_p < 1)) return;
    for (int64_t i = 0; i < count_; ++i) sum_ += weight(candidates_[i]);
    const double needed = static_cast<double>(settings_.top_p) * sum_;
    double covered = 0;
    int64_t sorted = 0, kept = 0;
    while (kept < count_ && covered < needed) {
      if (kept == sorted) {  // sort a larger part
        sorted = std::min(count_, std::max<int64_t>(64, 8 * sorted));
        std::partial_sort(candidates_ + kept, candidates_ + sorted, candidates_ + count_, before);
      }
      covered += weight(candidates_[kept++]);
    }
    count_ = kept;
  }

  void cut_min_p() {
    if (!(settings_.min_p > 0)) return;
    auto stays = [&](const Candidate& each) {
      return each.logit == top_ || weight(each) >= static_cast<double>(settings_.min_p);
    };
    count_ = std::partition(candidates_, candidates_ + count_, stays) - candidates_;
    // With min-p above 1, only the first candidate stays.
    if (settings_.min_p <= 1) return;
    std::nth_element(candidates_, candidates_, candidates_ + count_, before);
    count_ = 1;
  }

  int32_t draw_one(float draw) {
    auto by_id = [](const Candidate& a, const Candidate& b) { return a.id < b.id; };
    // If nothing was cut, the vocabulary is in order already.
    if (!std::is_sorted(candidates_, candidates_ + count_, by_id))
      std::sort(candidates_, candidates_ + count_, by_id);
    const auto temperature = static_cast<double>(settings_.temperature);
    double sum = 0, cumulative = 0;
    for (int64_t i = 0; i < count_; ++i) sum += weight(candidates_[i], temperature);
    for (int64_t i = 0; i < count_; ++i) {
      cumulative += weight(candidates_[i], temperature);
      if (cumulative > static_cast<double>(draw) * sum) return candidates_[i].id;
    }
    return candidates_[count_ - 1].id;
  }

  const Sample& call_;
  const SampleSettings& settings_;
  const float* logits_;
  const int32_t* recent_;
  const int32_t* biased_;
  const float* biases_;
  Candidate* candidates_;
  int64_t count_ = 0;
  double top_ = 0, sum_ = 0;
};

}  // namespace

int64_t sample_workspace_bytes(int64_t vocabulary) { return bytes_of<Candidate>(vocabulary); }

void sample(const Sample& call) {
  for (int64_t row = 0; row < call.rows; ++row) {
    const int64_t s = call.row_slots == nullptr ? row : call.row_slots[row];
    if (s < 0) continue;
    const int32_t position = call.next_positions[s];
    if (position < 0) continue;
    const float draw =
        uniform_at(static_cast<uint32_t>(call.seeds[s]), static_cast<uint32_t>(position));
    const int32_t token = Chooser(call, row, s).choose(draw);
    call.tokens[s] = token;
    call.recent[s * call.recent_tokens + position % call.recent_tokens] = token;
  }
}

}  // namespace ridge::backends::cpu
