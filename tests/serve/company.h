// SPDX-License-Identifier: Apache-2.0
// Sequences alone and in company, compared bit by bit.
#pragma once

#include <cstring>
#include <random>

#include "serve/real_model.h"

namespace ridge::serve {

// A sequence's logits at each of its steps.
using Steps = std::vector<std::vector<float>>;

class BatchInvariant {
 public:
  BatchInvariant(const models::ModelFile& file, const std::string& switches)
      : file_(file),
        alone_(file, options(switches), cpu_backend()),
        crowd_(file, options(switches), cpu_backend()) {}

  static constexpr int64_t kSlots = 6, kCapacity = 160;
  static constexpr size_t kTokens = 10;

  // Some rounds of a new prompt alone and in company.
  void compare(int rounds) { EXPECT_EQ(differing(rounds), 0); }
  // In how many steps of so many rounds some bits differ.
  int64_t differing(int rounds) {
    int64_t count = 0;
    for (int round = 0; round < rounds; ++round) {
      const std::vector<int32_t> prompt = any_ids(1 + below(100));
      std::vector<int32_t> tokens;
      const Steps want = run_alone(prompt, tokens), got = run_in_company(prompt, tokens);
      for (size_t i = 0; i < want.size(); ++i)
        count += std::memcmp(got[i].data(), want[i].data(), want[i].size() * sizeof(float)) != 0;
    }
    return count;
  }

 private:
  SessionOptions options(const std::string& switches) const {
    SessionOptions options;
    options.capacity = std::min(kCapacity, file_.config().context);
    options.selection = passes::Selection("compiled", "-tune_gemm,+batch_invariant" + switches);
    options.slots = kSlots;
    options.prefix_caching = true;
    return options;
  }
  int64_t below(int64_t end) { return std::uniform_int_distribution<int64_t>(0, end - 1)(random_); }
  std::vector<int32_t> any_ids(int64_t count) {
    std::vector<int32_t> ids;
    while (std::ssize(ids) < count)
      ids.push_back(static_cast<int32_t>(below(file_.config().vocabulary)));
    return ids;
  }
  Steps run_alone(const std::vector<int32_t>& prompt, std::vector<int32_t>& tokens) {
    Steps steps;
    Prompt begin{0, prompt, {}};
    tokens = alone_.start({&begin, 1});
    steps.push_back(alone_.logits(0));
    for (const int64_t slot = 0; tokens.size() < kTokens;) {
      tokens.push_back(tokens.back());
      alone_.step({&slot, 1}, {&tokens.back(), 1});
      steps.push_back(alone_.logits(0));
    }
    alone_.release(0);
    return steps;
  }

  // The others' slots: what they have still to compute.
  struct Other {
    std::vector<int32_t> ids;
    size_t done = 0;
  };
  // Begins in any slot, goes on in parts of any size next to parts of others, and now and then
  // begins again.
  Steps run_in_company(const std::vector<int32_t>& prompt, const std::vector<int32_t>& tokens) {
    const int64_t own = below(kSlots);
    std::vector<Other> others(kSlots);
    std::vector<int32_t> known = prompt;
    crowd_.begin({own, known, {}, static_cast<uint32_t>(below(2))});
    Steps steps;
    while (steps.size() < tokens.size()) {
      if (below(12) == 0) crowd_.begin({own, known, {}});
      std::vector<SequencePart> parts;
      int64_t left = crowd_.most_ids();
      const auto done = static_cast<size_t>(crowd_.length(own));
      const size_t taken = 1 + static_cast<size_t>(below(std::ssize(known) - crowd_.length(own)));
      left -= static_cast<int64_t>(taken);
      const bool ends = done + taken == known.size();
      const auto add_others = [&](int64_t begin, int64_t end) {
        for (int64_t slot = begin; slot < end; ++slot)
          if (slot != own && below(3) > 0 && left > 64)
            parts.push_back(part_of(others, slot, left));
      };
      add_others(0, kSlots / 2);
      parts.push_back({own, std::span(known).subspan(done, taken), ends});
      add_others(kSlots / 2, kSlots);
      crowd_.compute(parts);  // the tokens of the sequence alone go on
      if (!ends) continue;
      known.push_back(tokens[steps.size()]);
      steps.push_back(crowd_.logits(own));
    }
    for (int64_t slot = 0; slot < kSlots; ++slot) crowd_.release(slot);
    return steps;
  }
  SequencePart part_of(std::vector<Other>& others, int64_t slot, int64_t& left) {
    Other& other = others[static_cast<size_t>(slot)];
    if (other.done == other.ids.size()) {
      other = {any_ids(1 + below(60)), 0};
      crowd_.begin({slot, other.ids, {}, 7});
      other.done = static_cast<size_t>(crowd_.length(slot));
    }
    const size_t taken =
        1 + static_cast<size_t>(below(static_cast<int64_t>(other.ids.size() - other.done)));
    const SequencePart part{slot, std::span(other.ids).subspan(other.done, taken), below(2) == 0};
    other.done += taken;
    left -= static_cast<int64_t>(taken);
    return part;
  }

  const models::ModelFile& file_;
  std::minstd_rand random_{11};
  Session alone_, crowd_;
};

}  // namespace ridge::serve
