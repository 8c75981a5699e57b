// SPDX-License-Identifier: Apache-2.0
// Prompts over a KV cache, which are computed by tiles, against the same tokens one at a time. The
// op's cases compare single tokens with the double-precision reference.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <limits>
#include <numeric>

#include "backends/cpu/kernels/cache/cached_attention.h"
#include "backends/cpu_kernel_fixture.h"

namespace ridge::backends::cpu {
namespace {

struct Layout {
  int64_t heads, kv_heads, head_size, window, block_tokens, blocks_per_slot;
};

// Fills the slots' rings with random keys and values, because the keys that a token attends to
// depend only on its position. T is the type of tokens, C that of the cache.
template <typename T, typename C = T>
struct Prompt {
  Prompt(const Layout& l, const std::vector<int32_t>& at, const std::vector<int32_t>& in)
      : layout(l), positions(at), slots(in) {
    const int64_t tokens = static_cast<int64_t>(at.size()), row = l.kv_heads * l.head_size;
    const int64_t cells = kSlots * l.blocks_per_slot * l.block_tokens;
    q = random_values<T>(tokens * l.heads * l.head_size, 3);
    const double range = sizeof(C) == 1 ? 127.5 : 2;  // quants up to 127
    keys = random_values<C>(cells * row, 5, range);
    values = random_values<C>(cells * row, 7, range);
    if (sizeof(C) == 1) {
      key_scales = random_values<float>(cells * l.kv_heads, 9, 2.0 / 127);
      value_scales = random_values<float>(cells * l.kv_heads, 11, 2.0 / 127);
    }
    table.resize(static_cast<size_t>(kSlots * l.blocks_per_slot));
    std::iota(table.rbegin(), table.rend(), 0);
  }

  // Attention of tokens first .. first + count - 1 in one call.
  std::vector<T> attend(int64_t first, int64_t count) const {
    const Layout& l = layout;
    CachedAttention<T, C> call;
    call.cells = {count,
                  &positions[static_cast<size_t>(first)],
                  &slots[static_cast<size_t>(first)],
                  table.data(),
                  kSlots,
                  l.blocks_per_slot,
                  kSlots * l.blocks_per_slot,
                  l.block_tokens};
    call.heads = l.heads;
    call.window = l.window;
    call.columns = call.cells.ring();
    call.scale = scale;
    call.in_int16 = in_int16;
    const int64_t width = l.heads * l.head_size;
    call.q = {q.data() + first * width, width, l.head_size};
    call.keys = {keys.data(), l.kv_heads, l.head_size, key_scales.data(), l.block_tokens};
    call.values = {values.data(), l.kv_heads, l.head_size, value_scales.data(), l.block_tokens};
    std::vector<T> o(static_cast<size_t>(count * width), from_double<T>(-7.0));
    call.o = {o.data(), width, l.head_size};
    const auto floats =
        static_cast<size_t>(cached_attention_workspace_bytes(count, l.heads, l.kv_heads,
                                                             l.head_size, call.most_keys()) /
                            4);
    // Behind the workspace lies what the kernel may not touch.
    constexpr float kUntouched = -1234.5f;
    std::vector<float> workspace(floats + 65536, kUntouched);
    call.workspace = workspace.data();
    cached_attention(call);
    for (size_t i = floats; i < workspace.size(); ++i)
      if (workspace[i] != kUntouched) {
        ADD_FAILURE() << "wrote beyond a workspace of " << floats << " floats";
        break;
      }
    return o;
  }

  // An element of a cache of keys or values: of a head, at a position.
  double cached(const std::vector<C>& cells,
                const std::vector<float>& scales,
                int32_t slot,
                int64_t position,
                int64_t head,
                int64_t e) const {
    const Layout& l = layout;
    const int64_t cell = position % (l.blocks_per_slot * l.block_tokens);
    const int64_t block =
        table[static_cast<size_t>(slot * l.blocks_per_slot + cell / l.block_tokens)];
    const int64_t token = cell % l.block_tokens, row = block * l.block_tokens + token;
    const double x =
        to_double(cells[static_cast<size_t>((row * l.kv_heads + head) * l.head_size + e)]);
    if (scales.empty()) return x;
    return x * scales[static_cast<size_t>((block * l.kv_heads + head) * l.block_tokens + token)];
  }

  // One head of token n, in double.
  std::vector<double> reference(int64_t n, int64_t head) const {
    const Layout& l = layout;
    const int64_t ring = l.blocks_per_slot * l.block_tokens,
                  last = positions[static_cast<size_t>(n)];
    const int64_t reach = l.window > 0 ? std::min(l.window, ring) : ring;
    const int64_t kv_head = head / (l.heads / l.kv_heads);
    const int32_t slot = slots[static_cast<size_t>(n)];
    std::vector<double> scores, o(static_cast<size_t>(l.head_size));
    const int64_t first = std::max<int64_t>(last + 1 - reach, 0);
    for (int64_t p = first; p <= last; ++p) {
      double score = 0;
      for (int64_t e = 0; e < l.head_size; ++e)
        score += to_double(q[static_cast<size_t>((n * l.heads + head) * l.head_size + e)]) *
                 cached(keys, key_scales, slot, p, kv_head, e);
      scores.push_back(score * scale);
    }
    const double top = *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    for (double& score : scores) sum += score = std::exp(score - top);
    for (int64_t p = first; p <= last; ++p)
      for (int64_t e = 0; e < l.head_size; ++e)
        o[static_cast<size_t>(e)] += scores[static_cast<size_t>(p - first)] / sum *
                                     cached(values, value_scales, slot, p, kv_head, e);
    return o;
  }

  static constexpr int64_t kSlots = 3;
  Layout layout;
  float scale = 0.3f;
  bool in_int16 = false;
  std::vector<int32_t> positions, slots, table;
  std::vector<T> q;
  std::vector<C> keys, values;
  std::vector<float> key_scales, value_scales;
};

void add_run(std::vector<int32_t>& positions,
             std::vector<int32_t>& slots,
             int32_t slot,
             int32_t from,
             int32_t count) {
  for (int32_t i = 0; i < count; ++i) {
    positions.push_back(from + i);
    slots.push_back(slot);
  }
}

// A score sums up to 256 products of about 1. Another order of summation and the scale of 0.3 move
// it by a few times 0.3 * 256 * 2^-24, and the weight of the key with it.
constexpr double kScoreError = 4 * 0.3 * 256 * 0x1p-24;
// Rounding q to 16 bits moves each of 256 products of a score by up to 4 * 2^-16, in either
// direction: the sum by sqrt(256) times that, and the weight of the key with it.
constexpr double kInt16Error = 4 * 0.3 * 16 * 4 * 0x1p-16;

template <typename T, typename C>
constexpr double kError = sizeof(C) == 1   ? kInt16Error
                          : sizeof(T) == 4 ? kScoreError
                                           : 0x1p-8;

template <typename T, typename C = T>
void expect_like_one_by_one(const Layout& layout) {
  std::vector<int32_t> positions, slots;
  add_run(positions, slots, 1, 0, 100);   // a prompt from its beginning
  add_run(positions, slots, 0, 150, 1);   // a decode step
  add_run(positions, slots, 2, 41, 37);   // a later part of a prompt, from an odd position
  add_run(positions, slots, 0, 7, 9);     // a short run
  add_run(positions, slots, 0, -1, 1);    // padding
  add_run(positions, slots, 0, 130, 16);  // wraps around if the ring is short
  const Prompt<T, C> prompt(layout, positions, slots);
  const int64_t tokens = static_cast<int64_t>(positions.size());
  const std::vector<T> all = prompt.attend(0, tokens);
  const size_t width = static_cast<size_t>(layout.heads * layout.head_size);
  for (int64_t n = 0; n < tokens; ++n) {
    const std::vector<T> alone = prompt.attend(n, 1);
    for (size_t i = 0; i < width; ++i)
      ASSERT_NO_FATAL_FAILURE(
          expect_close(all[static_cast<size_t>(n) * width + i], to_double(alone[i]), kError<T, C>))
          << "token " << n << " of head size " << layout.head_size << " at " << i;
  }
}

RIDGE_CPU_KERNEL_SUITE(CpuCachedAttention);

TEST_P(CpuCachedAttention, PromptsAreTheirTokens) {
  for (const Layout& layout :
       {Layout{3, 1, 64, 0, 160, 1}, Layout{4, 2, 24, 0, 16, 10}, Layout{4, 1, 256, 33, 140, 1},
        Layout{9, 3, 8, 70, 8, 20}, Layout{5, 1, 72, 20, 136, 1}, Layout{2, 2, 12, 0, 160, 1},
        Layout{2, 2, 256, 0, 160, 1}}) {
    expect_like_one_by_one<float>(layout);
    expect_like_one_by_one<uint16_t>(layout);
    expect_like_one_by_one<float, uint16_t>(layout);
    expect_like_one_by_one<float, int8_t>(layout);
  }
}

// Compares token n's output [heads, head size] with the reference.
template <typename T, typename C>
void expect_token(const Prompt<T, C>& prompt, int64_t n, const T* o, double error) {
  for (int64_t h = 0; h < prompt.layout.heads; ++h)
    for (double want : prompt.reference(n, h))
      ASSERT_NO_FATAL_FAILURE(expect_close(*o++, want, error)) << "token " << n << ", head " << h;
}

// Single tokens whose keys take one part or many, in blocks and rings of any length.
template <typename T, typename C>
void expect_reference(const Layout& layout) {
  std::vector<int32_t> positions, slots;
  for (int32_t position : {0, 30, 31, 32, 511, 512, 1500}) {
    positions.push_back(position);
    slots.push_back(position % 3);
  }
  const Prompt<T, C> prompt(layout, positions, slots);
  const std::vector<T> all = prompt.attend(0, static_cast<int64_t>(positions.size()));
  const size_t size = static_cast<size_t>(layout.head_size);
  for (int64_t n = 0; n < static_cast<int64_t>(positions.size()); ++n) {
    const std::vector<T> alone = prompt.attend(n, 1);
    const size_t row = static_cast<size_t>(n * layout.heads) * size;
    ASSERT_EQ(std::memcmp(alone.data(), &all[row], alone.size() * sizeof(T)), 0)
        << "token " << n << " depends on the others of its call";
    expect_token(prompt, n, alone.data(), kError<T, C>);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST_P(CpuCachedAttention, TokensMatchTheReference) {
  for (const Layout& layout :
       {Layout{3, 1, 64, 0, 1501, 1}, Layout{9, 3, 64, 0, 7, 220}, Layout{4, 1, 256, 700, 713, 1},
        Layout{5, 5, 48, 0, 600, 1}, Layout{10, 2, 16, 0, 1600, 1}, Layout{2, 1, 9, 33, 50, 1}}) {
    SCOPED_TRACE(fmt::format("{} heads of {}", layout.heads, layout.head_size));
    expect_reference<float, float>(layout);
    expect_reference<uint16_t, uint16_t>(layout);
    expect_reference<float, uint16_t>(layout);
    expect_reference<float, int8_t>(layout);
  }
}

// The number of elements of each head's output that are NaN.
template <typename C>
std::vector<int64_t> count_nan(const Prompt<float, C>& prompt, int64_t token) {
  const std::vector<float> o = prompt.attend(token, 1);
  const Layout& l = prompt.layout;
  std::vector<int64_t> counts;
  for (int64_t h = 0; h < l.heads; ++h) {
    const float* head = &o[static_cast<size_t>(h * l.head_size)];
    counts.push_back(
        std::count_if(head, head + l.head_size, [](float x) { return std::isnan(x); }));
  }
  return counts;
}

// A key or value reaches the heads of its KV head, and only tokens whose window has its cell. A key
// that is NaN, and a scale, reach all elements of an output, a value its own.
TEST_P(CpuCachedAttention, WhatIsNoNumberReachesItsHeadsAlone) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const Layout layout{4, 2, 32, 100, 200, 1};
  const std::vector<int32_t> positions{150, 299}, slots{1, 1};
  const size_t row = 200 + 140;  // slot 1, position 140
  const std::vector<int64_t> all{0, 0, 32, 32}, one{0, 0, 1, 1}, none(4, 0);
  Prompt<float, float> wide(layout, positions, slots);
  std::iota(wide.table.begin(), wide.table.end(), 0);
  for (std::vector<float>* cells : {&wide.keys, &wide.values}) {
    float& x = (*cells)[(row * 2 + 1) * 32 + 3];
    const float before = x;
    x = kNan;
    EXPECT_EQ(count_nan(wide, 0), cells == &wide.keys ? all : one);
    EXPECT_EQ(count_nan(wide, 1), none) << "the window does not have the cell";
    x = before;
  }
  Prompt<float, int8_t> quants(layout, positions, slots);
  std::iota(quants.table.begin(), quants.table.end(), 0);
  for (std::vector<float>* scales : {&quants.key_scales, &quants.value_scales}) {
    float& scale = (*scales)[200 * 2 + 200 + 140];
    const float before = scale;
    scale = kNan;
    EXPECT_EQ(count_nan(quants, 0), all);
    EXPECT_EQ(count_nan(quants, 1), none);
    scale = before;
  }
  quants.q[40] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(count_nan(quants, 0)[0], 0);
  EXPECT_GT(count_nan(quants, 0)[1], 0);
}

// A sequence in scattered blocks and in one block. Over i8, scales lie by block, and with them the
// order of sums.
template <typename T, typename C>
void expect_the_same_in_one_block(int64_t window, int64_t block_tokens, int64_t blocks) {
  const std::vector<int32_t> positions{0, 5, 46, 119, 500, 719, 800, 1203},
      slots{0, 1, 2, 0, 1, 2, 0, 1};
  const Prompt<T, C> scattered({6, 2, 64, window, block_tokens, blocks}, positions, slots);
  Prompt<T, C> whole({6, 2, 64, window, block_tokens * blocks, 1}, positions, slots);
  std::iota(whole.table.begin(), whole.table.end(), 0);
  const int64_t ring = block_tokens * blocks, row = 2 * 64;
  for (int64_t cell = 0; cell < 3 * ring; ++cell) {
    const auto block = scattered.table[static_cast<size_t>(cell / block_tokens)];
    const int64_t from = (block * block_tokens + cell % block_tokens) * row;
    std::copy_n(scattered.keys.begin() + from, row, whole.keys.begin() + cell * row);
    std::copy_n(scattered.values.begin() + from, row, whole.values.begin() + cell * row);
  }
  EXPECT_EQ(scattered.attend(0, 8), whole.attend(0, 8)) << "blocks of " << block_tokens;
}

TEST_P(CpuCachedAttention, BlocksDoNotChangeTheBits) {
  for (int64_t window : {0, 700}) {
    for (int64_t block_tokens : {1, 7, 16, 240}) {
      const int64_t blocks = (1204 + block_tokens - 1) / block_tokens;
      expect_the_same_in_one_block<float, float>(window, block_tokens, blocks);
      expect_the_same_in_one_block<uint16_t, uint16_t>(window, block_tokens, blocks);
      expect_the_same_in_one_block<float, uint16_t>(window, block_tokens, blocks);
    }
    if (window > 0) expect_the_same_in_one_block<float, float>(window, 16, 48);  // around the ring
  }
}

TEST_P(CpuCachedAttention, BitsDependOnNeitherTheChunkNorTheThreads) {
  for (bool in_int16 : {false, true})
    for (int64_t window : {0, 50}) {
      std::vector<int32_t> positions, slots;
      add_run(positions, slots, 2, 20, 110);
      Prompt<float> prompt({6, 2, 32, window, 136, 1}, positions, slots);
      prompt.in_int16 = in_int16;
      const std::vector<float> whole = prompt.attend(0, 110);
      for (int64_t first : {0, 13, 94}) {
        omp_set_num_threads(first == 13 ? 2 : 1);
        const std::vector<float> part = prompt.attend(first, 16);
        ASSERT_EQ(
            std::memcmp(part.data(), &whole[static_cast<size_t>(first * 6 * 32)], part.size() * 4),
            0)
            << "from token " << first << ", window " << window << (in_int16 ? ", int16" : "");
      }
    }
}

// A prompt in quants of 16 bits: of an odd length, from an odd position, with and without a window.
template <typename T, typename C>
void expect_int16_near(const Layout& layout) {
  std::vector<int32_t> positions, slots;
  add_run(positions, slots, 1, 7, 93);
  Prompt<T, C> prompt(layout, positions, slots);
  prompt.in_int16 = true;
  const double size = static_cast<double>(layout.head_size);
  prompt.scale = static_cast<float>(1 / std::sqrt(size));
  const std::vector<T> all = prompt.attend(0, 93);
  // q and k are 2 sqrt(E / 3) long, at 32767. Rounding deviates by 0.29 quants, so rounding both
  // moves a score by 0.29 * 4 / 3 * sqrt(2 E) / 32767 in one standard deviation, and the output by
  // at most 1.4 times that. Rounding weights and values moves it by 4.6 / 32767. 5 deviations do
  // not occur in 100,000 outputs.
  const double error = std::max(kError<T, C>, 5 * (0.77 * std::sqrt(size) + 4.6) / 32767);
  for (int64_t n = 0; n < 93; ++n)
    ASSERT_NO_FATAL_FAILURE(expect_token(
        prompt, n, &all[static_cast<size_t>(n * layout.heads * layout.head_size)], error));
}

TEST_P(CpuCachedAttention, Int16MatchesTheReference) {
  for (const Layout& layout :
       {Layout{3, 1, 64, 0, 160, 1}, Layout{4, 2, 24, 0, 16, 10}, Layout{4, 1, 256, 33, 140, 1},
        Layout{9, 3, 8, 70, 7, 20}, Layout{5, 1, 72, 20, 136, 1}, Layout{2, 2, 136, 0, 1, 101}}) {
    SCOPED_TRACE(fmt::format("{} heads of {}", layout.heads, layout.head_size));
    expect_int16_near<float, float>(layout);
    expect_int16_near<uint16_t, uint16_t>(layout);
    expect_int16_near<float, uint16_t>(layout);
    expect_int16_near<float, int8_t>(layout);
  }
}

// Rows whose squares overflow or vanish in fp32 have scales too. What is not finite is seen by each
// token that attends to it, and by none that comes well before it.
TEST_P(CpuCachedAttention, Int16TakesAnyNumber) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(),
                  kInfinity = std::numeric_limits<float>::infinity();
  std::vector<int32_t> positions, slots;
  add_run(positions, slots, 0, 0, 80);
  const Layout layout{2, 1, 32, 0, 96, 1};
  Prompt<float> prompt(layout, positions, slots);
  prompt.in_int16 = true;
  std::iota(prompt.table.begin(), prompt.table.end(), 0);
  const Prompt<float> before = prompt;
  // Scores and outputs stay as they are, but for a factor and scales up to sqrt(32) as large.
  for (float& x : prompt.q) x *= 0x1p-80f;
  for (float& x : prompt.keys) x *= 0x1p80f;
  for (float& x : prompt.values) x *= 0x1p-60f;
  const std::vector<float> usual = before.attend(0, 80), scaled = prompt.attend(0, 80);
  for (size_t i = 0; i < usual.size(); ++i) ASSERT_NEAR(scaled[i] * 0x1p60f, usual[i], 1e-3) << i;

  if (std::get<0>(GetParam()) == HWY_SCALAR) return;  // its exponential is a number for NaN too
  for (float bad : {kNan, kInfinity, -kInfinity}) {
    for (std::vector<float> Prompt<float>::*cells :
         {&Prompt<float>::keys, &Prompt<float>::values}) {
      prompt = before;
      (prompt.*cells)[70 * 32 + 5] = bad;
      const std::vector<float> o = prompt.attend(0, 80);
      for (size_t n = 0; n < 80; ++n) {
        if (n >= 64 && n < 70) continue;  // they share a block of scores with token 70
        for (size_t i = 0; i < 64; ++i)
          ASSERT_EQ(std::isfinite(o[n * 64 + i]), n < 64) << "token " << n << ", element " << i;
      }
    }
    prompt = before;
    prompt.q[10 * 64 + 32 + 3] = bad;  // token 10, head 1
    const std::vector<float> o = prompt.attend(0, 80);
    for (size_t i = 0; i < o.size(); ++i)
      ASSERT_EQ(std::isfinite(o[i]), i / 32 != 10 * 2 + 1) << "element " << i;
  }
}

}  // namespace
}  // namespace ridge::backends::cpu
