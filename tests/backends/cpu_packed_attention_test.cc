// SPDX-License-Identifier: Apache-2.0
// CPU flash attention over documents that share rows: each document as if it were alone, blocks of
// other documents never touched. cpu_flash_attention_test.cc has attention over whole rows.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "backends/cpu/kernels/flash_attention/flash_attention.h"
#include "base/arena.h"
#include "base/random.h"

namespace ridge::backends::cpu {
namespace {

constexpr int64_t kHeads = 4, kKvHeads = 2, kSize = 24;

using Values = std::vector<float>;

Values drawn(int64_t count, uint32_t seed) {
  Values values(static_cast<size_t>(count));
  Random(seed).fill_normal(values, 1.0f);
  return values;
}

// q, k, v and do of some tokens, and all results.
struct Tensors {
  explicit Tensors(int64_t tokens)
      : q(drawn(tokens * kHeads * kSize, 1)),
        k(drawn(tokens * kKvHeads * kSize, 2)),
        v(drawn(tokens * kKvHeads * kSize, 3)),
        d_o(drawn(tokens * kHeads * kSize, 4)),
        o(q.size(), std::nanf("")),
        lse(static_cast<size_t>(tokens * kHeads), std::nanf("")),
        d_q(o),
        d_k(k.size(), std::nanf("")),
        d_v(d_k) {}

  void run(const AttentionExtents& e, const int32_t* positions, int threads) {
    const auto view = [](auto& values, int64_t heads) {
      return TokenHeads{values.data(), heads * kSize, kSize};
    };
    const auto read = [](const Values& values, int64_t heads) {
      return TokenHeads<const float>{values.data(), heads * kSize, kSize};
    };
    const Arena forward(flash_attention_forward_workspace_bytes(e, threads), "forward");
    flash_attention_forward<float>({e, read(q, kHeads), read(k, kKvHeads), read(v, kKvHeads),
                                    view(o, kHeads), lse.data(),
                                    reinterpret_cast<float*>(forward.data()), threads, positions});
    const Arena backward(flash_attention_backward_workspace_bytes(e, threads), "backward");
    flash_attention_backward<float>(
        {e, read(q, kHeads), read(k, kKvHeads), read(v, kKvHeads), read(o, kHeads), lse.data(),
         read(d_o, kHeads), view(d_q, kHeads), view(d_k, kKvHeads), view(d_v, kKvHeads),
         reinterpret_cast<float*>(backward.data()), threads, positions});
  }

  std::vector<Values*> all() { return {&q, &k, &v, &d_o, &o, &lse, &d_q, &d_k, &d_v}; }
  std::vector<Values*> results() { return {&o, &lse, &d_q, &d_k, &d_v}; }

  Values q, k, v, d_o, o, lse, d_q, d_k, d_v;
};

AttentionExtents extents(int64_t batch, int64_t sequence, int64_t window) {
  return {batch, sequence, kHeads, kKvHeads, kSize, true, window, 0.2f};
}

// Documents of these lengths, one after the other, cut at the ends of rows.
std::vector<int32_t> positions_of(const std::vector<int64_t>& lengths, int64_t row) {
  std::vector<int32_t> positions;
  for (const int64_t length : lengths) {
    int32_t position = 0;
    for (int64_t i = 0; i < length; ++i) {
      if (std::ssize(positions) % row == 0) position = 0;
      positions.push_back(position++);
    }
  }
  return positions;
}

// The tokens [begin, end) of `from`, alone.
Tensors part(Tensors& from, int64_t tokens, int64_t begin, int64_t end) {
  Tensors made(end - begin);
  const std::vector<Values*> sources = from.all(), targets = made.all();
  for (size_t i = 0; i < sources.size(); ++i) {
    const auto width = std::ssize(*sources[i]) / tokens;
    std::copy(sources[i]->begin() + begin * width, sources[i]->begin() + end * width,
              targets[i]->begin());
  }
  return made;
}

TEST(CpuPackedAttention, ADocumentIsAsIfItWereAlone) {
  constexpr int64_t kRow = 300, kTokens = 2 * kRow;
  // Within a block, across blocks and tiles, single tokens, one over the end of a row.
  const std::vector<int32_t> positions =
      positions_of({3, 1, 12, 16, 100, 1, 1, 130, 90, 64, 182}, kRow);
  ASSERT_EQ(std::ssize(positions), kTokens);
  for (const int64_t window : {0, 20})
    for (const int threads : {1, 2, 3}) {
      Tensors packed(kTokens);
      packed.run(extents(2, kRow, window), positions.data(), threads);
      for (int64_t begin = 0, end = 0; begin < kTokens; begin = end) {
        for (end = begin + 1; end < kTokens && positions[static_cast<size_t>(end)] != 0;) ++end;
        Tensors want = part(packed, kTokens, begin, end), got = part(packed, kTokens, begin, end);
        want.run(extents(1, end - begin, window), nullptr, 1);
        for (size_t i = 0; i < got.results().size(); ++i)
          for (size_t at = 0; at < got.results()[i]->size(); ++at)
            ASSERT_NEAR((*got.results()[i])[at], (*want.results()[i])[at], 2e-5)
                << "tokens " << begin << " to " << end << ", result " << i << " at " << at
                << ", window " << window << ", threads " << threads;
      }
    }
}

// A product with NaN is NaN, whatever its weight.
TEST(CpuPackedAttention, BlocksOfOtherDocumentsAreSkipped) {
  constexpr int64_t kRow = 256, kBegin = 112;  // 7 blocks
  const std::vector<int32_t> positions = positions_of({kBegin, kRow - kBegin}, kRow);
  for (const bool is_first_bad : {true, false}) {
    Tensors tensors(kRow);
    for (Values* each : {&tensors.q, &tensors.k, &tensors.v, &tensors.d_o}) {
      const auto middle = each->begin() + kBegin * (std::ssize(*each) / kRow);
      std::fill(is_first_bad ? each->begin() : middle, is_first_bad ? middle : each->end(),
                std::nanf(""));
    }
    tensors.run(extents(1, kRow, 0), positions.data(), 2);
    Tensors good =
        is_first_bad ? part(tensors, kRow, kBegin, kRow) : part(tensors, kRow, 0, kBegin);
    for (const Values* each : good.results())
      EXPECT_TRUE(
          std::all_of(each->begin(), each->end(), [](float x) { return std::isfinite(x); }));
  }
}

// Positions that no data set has stay inside the row.
TEST(CpuPackedAttention, AnyPositionsAreSafe) {
  constexpr int64_t kRow = 70;
  for (const int32_t bad : {-1, INT32_MIN, 1'000'000, INT32_MAX}) {
    std::vector<int32_t> positions(2 * kRow, bad);
    Tensors tensors(2 * kRow);
    tensors.run(extents(2, kRow, 0), positions.data(), 2);
    for (const Values* each : tensors.results())
      EXPECT_TRUE(
          std::all_of(each->begin(), each->end(), [](float x) { return std::isfinite(x); }));
    for (size_t i = 0; i < positions.size(); i += 3) positions[i] = 5;
    tensors.run(extents(2, kRow, 0), positions.data(), 2);
  }
}

}  // namespace
}  // namespace ridge::backends::cpu
