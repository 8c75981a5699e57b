// SPDX-License-Identifier: Apache-2.0
// Prompts over a KV cache, which are computed by tiles, against the same tokens one at a time. The
// op's cases compare single tokens with the double-precision reference.
#include <gtest/gtest.h>

#include <numeric>

#include "backends/cpu/kernels/cache/cached_attention.h"
#include "backends/cpu_kernel_fixture.h"

namespace ridge::backends::cpu {
namespace {

struct Layout {
  int64_t heads, kv_heads, head_size, window, block_tokens, blocks_per_slot;
};

// Fills the slots' rings with random keys and values, because the keys that a token attends to
// depend only on its position.
template <typename T>
struct Prompt {
  Prompt(const Layout& l, const std::vector<int32_t>& at, const std::vector<int32_t>& in)
      : layout(l), positions(at), slots(in) {
    const int64_t tokens = static_cast<int64_t>(at.size()), row = l.kv_heads * l.head_size;
    const int64_t cells = kSlots * l.blocks_per_slot * l.block_tokens;
    q = random_values<T>(tokens * l.heads * l.head_size, 3);
    keys = random_values<T>(cells * row, 5);
    values = random_values<T>(cells * row, 7);
    table.resize(static_cast<size_t>(kSlots * l.blocks_per_slot));
    std::iota(table.rbegin(), table.rend(), 0);
  }

  // Attention of tokens first .. first + count - 1 in one call.
  std::vector<T> attend(int64_t first, int64_t count) const {
    const Layout& l = layout;
    CachedAttention<T> call;
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
    call.scale = 0.3f;
    const int64_t width = l.heads * l.head_size;
    call.q = {q.data() + first * width, width, l.head_size};
    call.keys = {keys.data(), l.kv_heads, l.head_size};
    call.values = {values.data(), l.kv_heads, l.head_size};
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

  static constexpr int64_t kSlots = 3;
  Layout layout;
  std::vector<int32_t> positions, slots, table;
  std::vector<T> q, keys, values;
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

template <typename T>
void expect_like_one_by_one(const Layout& layout) {
  std::vector<int32_t> positions, slots;
  add_run(positions, slots, 1, 0, 100);   // a prompt from its beginning
  add_run(positions, slots, 0, 150, 1);   // a decode step
  add_run(positions, slots, 2, 41, 37);   // a later part of a prompt, from an odd position
  add_run(positions, slots, 0, 7, 9);     // a short run
  add_run(positions, slots, 0, -1, 1);    // padding
  add_run(positions, slots, 0, 130, 16);  // wraps around if the ring is short
  const Prompt<T> prompt(layout, positions, slots);
  const int64_t tokens = static_cast<int64_t>(positions.size());
  const std::vector<T> all = prompt.attend(0, tokens);
  const size_t width = static_cast<size_t>(layout.heads * layout.head_size);
  for (int64_t n = 0; n < tokens; ++n) {
    const std::vector<T> alone = prompt.attend(n, 1);
    for (size_t i = 0; i < width; ++i)
      ASSERT_NO_FATAL_FAILURE(expect_close(all[static_cast<size_t>(n) * width + i],
                                           to_double(alone[i]),
                                           std::is_same_v<T, float> ? kScoreError : 0x1p-8))
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
  }
}

TEST_P(CpuCachedAttention, BitsDependOnNeitherTheChunkNorTheThreads) {
  for (int64_t window : {0, 50}) {
    std::vector<int32_t> positions, slots;
    add_run(positions, slots, 2, 20, 110);
    const Prompt<float> prompt({6, 2, 32, window, 136, 1}, positions, slots);
    const std::vector<float> whole = prompt.attend(0, 110);
    for (int64_t first : {0, 13, 94}) {
      omp_set_num_threads(first == 13 ? 2 : 1);
      const std::vector<float> part = prompt.attend(first, 16);
      ASSERT_EQ(
          std::memcmp(part.data(), &whole[static_cast<size_t>(first * 6 * 32)], part.size() * 4), 0)
          << "from token " << first << ", window " << window;
    }
  }
}

}  // namespace
}  // namespace ridge::backends::cpu
