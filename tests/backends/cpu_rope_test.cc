// SPDX-License-Identifier: Apache-2.0
// Rotary embedding on CPUs against its formula, another implementation's results, and Llama 3's
// published scaling.
#include "backends/cpu/kernels/kernels.h"

#include <numbers>

#include "backends/cpu_kernel_fixture.h"
#include "backends/npz_array.h"
#include "base/error.h"
#include "test_paths.h"

namespace ridge::backends::cpu {
namespace {

RIDGE_CPU_KERNEL_SUITE(CpuRope);

struct Shape {
  int64_t tokens, heads, rotated, head_size;
};

const Shape kShapes[] = {{1, 1, 1, 2},    {3, 2, 2, 6},   {5, 3, 2, 10}, {2, 4, 0, 16},
                         {3, 2, 1, 32},   {4, 3, 3, 34},  {2, 5, 4, 64}, {3, 2, 2, 130},
                         {129, 4, 3, 64}, {67, 3, 2, 256}};

template <typename T>
void check(const Shape& shape, RopePairs pairs, bool inverse) {
  const int64_t half = shape.head_size / 2;
  const int64_t head_stride = shape.head_size + 2;
  const int64_t token_stride = shape.heads * head_stride + 3;
  auto x = random_values<T>(shape.tokens * token_stride, 1);
  auto cos = random_values<float>(shape.tokens * half, 2, 1.0);
  auto sin = random_values<float>(shape.tokens * half, 3, 1.0);
  auto y = random_values<T>(shape.tokens * token_stride, 4);
  auto want_untouched = y;
  Rope<T> call{shape.tokens,
               shape.heads,
               shape.rotated,
               shape.head_size,
               {x.data(), token_stride, head_stride},
               cos.data(),
               sin.data(),
               {y.data(), token_stride, head_stride},
               pairs,
               inverse};
  rope(call);
  for (int64_t n = 0; n < shape.tokens; ++n) {
    for (int64_t h = 0; h < shape.heads; ++h) {
      const int64_t at = n * token_stride + h * head_stride;
      for (int64_t i = 0; i < half; ++i) {
        const int64_t a = pairs == RopePairs::kInterleaved ? at + 2 * i : at + i;
        const int64_t b = pairs == RopePairs::kInterleaved ? a + 1 : a + half;
        const double c = cos[n * half + i];
        const double s = (inverse ? -1.0 : 1.0) * sin[n * half + i];
        const bool rotated = h < shape.rotated;
        const double xa = to_double(x[a]), xb = to_double(x[b]);
        expect_close(y[a], rotated ? xa * c - xb * s : xa, 4e-7);
        expect_close(y[b], rotated ? xb * c + xa * s : xb, 4e-7);
      }
      for (int64_t i = shape.head_size; i < head_stride; ++i) {
        ASSERT_EQ(y[at + i], want_untouched[at + i]) << "wrote between heads";
      }
    }
  }
  auto again = y;
  rope(call);
  EXPECT_TRUE(same_bits(y, again));
  call.y = {x.data(), token_stride, head_stride};
  rope(call);
  for (int64_t n = 0; n < shape.tokens; ++n) {
    for (int64_t h = 0; h < shape.heads; ++h) {
      const int64_t at = n * token_stride + h * head_stride;
      EXPECT_EQ(std::memcmp(&x[at], &y[at], shape.head_size * sizeof(T)), 0) << "in place differs";
    }
  }
}

TEST_P(CpuRope, MatchesFormula) {
  for (const Shape& shape : kShapes) {
    for (RopePairs pairs : {RopePairs::kInterleaved, RopePairs::kHalves}) {
      for (bool inverse : {false, true}) {
        check<float>(shape, pairs, inverse);
        check<uint16_t>(shape, pairs, inverse);
        check<Float16>(shape, pairs, inverse);
      }
    }
  }
}

void fill_table(const RopeTable& call) { RopeAngles(call).fill(); }

TEST_P(CpuRope, InverseUndoesIt) {
  const int64_t tokens = 12, heads = 3, size = 64;
  std::vector<int32_t> positions;
  for (int i = 0; i < tokens; ++i) positions.push_back(i * 311);
  std::vector<float> cos(tokens * size / 2), sin(cos.size());
  fill_table({.tokens = tokens,
              .head_size = size,
              .positions = positions.data(),
              .cos = cos.data(),
              .sin = sin.data()});
  auto x = random_values<float>(tokens * heads * size, 1);
  auto y = x;
  Rope<float> call{tokens,
                   heads,
                   heads,
                   size,
                   {x.data(), heads * size, size},
                   cos.data(),
                   sin.data(),
                   {y.data(), heads * size, size},
                   RopePairs::kHalves,
                   false};
  rope(call);
  EXPECT_FALSE(same_bits(x, y));
  call.x = {y.data(), heads * size, size};
  call.inverse = true;
  rope(call);
  for (size_t i = 0; i < x.size(); ++i) expect_close(y[i], x[i], 4e-7);
}

// The gradient of sum(g * rope(x)) with respect to x is the inverse rotation of g: a linear map and
// its transpose.
TEST_P(CpuRope, InverseIsTheGradient) {
  const int64_t size = 18;
  auto x = random_values<float>(size, 1), g = random_values<float>(size, 2);
  std::vector<int32_t> positions = {5};
  std::vector<float> cos(size / 2), sin(size / 2), y(size), dx(size);
  fill_table({.tokens = 1,
              .head_size = size,
              .positions = positions.data(),
              .cos = cos.data(),
              .sin = sin.data()});
  auto rotate = [&](const std::vector<float>& from, std::vector<float>& to, RopePairs pairs,
                    bool inverse) {
    const TokenHeads<const float> heads{from.data(), size, size};
    rope<float>(
        {1, 1, 1, size, heads, cos.data(), sin.data(), {to.data(), size, size}, pairs, inverse});
  };
  for (RopePairs pairs : {RopePairs::kInterleaved, RopePairs::kHalves}) {
    rotate(g, dx, pairs, true);
    for (int64_t i = 0; i < size; ++i) {
      auto unit = std::vector<float>(size, 0.0f);
      unit[i] = 1.0f;
      rotate(unit, y, pairs, false);
      double want = 0.0;
      for (int64_t j = 0; j < size; ++j) want += static_cast<double>(g[j]) * y[j];
      expect_close(dx[i], want, 1e-6);
    }
  }
}

TEST_P(CpuRope, MatchesSnapshot) {
  const int64_t batch = 4, length = 12, size = 64;
  std::vector<float> x(batch * length * size);
  Random(4).fill_normal(x, 1.0f);
  std::vector<int32_t> positions;
  for (int64_t n = 0; n < batch * length; ++n)
    positions.push_back(static_cast<int32_t>(n % length));
  std::vector<float> cos(batch * length * size / 2), sin(cos.size()), y(x.size());
  fill_table({.tokens = batch * length,
              .head_size = size,
              .positions = positions.data(),
              .theta = 1e4,
              .cos = cos.data(),
              .sin = sin.data()});
  rope<float>({batch * length,
               1,
               1,
               size,
               {x.data(), size, size},
               cos.data(),
               sin.data(),
               {y.data(), size, size},
               RopePairs::kInterleaved,
               false});
  const auto want = read_npz_array(test_data("snapshots/test_rope.npz"));
  ASSERT_EQ(want.size(), y.size());
  for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(y[i], want[i], 1e-6) << i;
}

TEST_P(CpuRope, OddHeadSizeIsRefused) {
  Rope<float> call;
  call.head_size = 63;
  EXPECT_THROW(rope(call), InternalError);
}

std::vector<float> angles_at_one(const RopeTable& given) {
  RopeTable call = given;
  const std::vector<int32_t> positions = {1, -1};
  const int64_t half = call.head_size / 2;
  std::vector<float> cos(2 * half), sin(2 * half), angles;
  call.tokens = 2;
  call.positions = positions.data();
  call.cos = cos.data();
  call.sin = sin.data();
  fill_table(call);
  for (int64_t i = 0; i < half; ++i) {
    angles.push_back(std::atan2(sin[i], cos[i]));
    EXPECT_EQ(cos[half + i], 1.0f) << "padding";
    EXPECT_EQ(sin[half + i], 0.0f) << "padding";
  }
  return angles;
}

TEST_P(CpuRope, TableFollowsThetaAndLinearScaling) {
  for (double theta : {1e4, 5e5, 1e6}) {
    const auto plain = angles_at_one({.head_size = 128, .theta = theta});
    const auto linear = angles_at_one(
        {.head_size = 128, .theta = theta, .scaling = RopeScaling::kLinear, .factor = 8.0});
    for (int i = 0; i < 64; ++i) {
      const double want = std::exp(-i / 64.0 * std::log(theta));
      EXPECT_NEAR(plain[i], want, 2e-7 * want);
      EXPECT_NEAR(linear[i], want / 8.0, 2e-7 * want);
    }
  }
}

// Llama 3.1: theta 5e5, factor 8, low 1, high 4, context 8192 and head size 128. The reference is
// the code of the model card, which works with wavelengths.
TEST_P(CpuRope, TableFollowsLlama3Scaling) {
  const auto angles = angles_at_one({.head_size = 128,
                                     .theta = 5e5,
                                     .scaling = RopeScaling::kLlama3,
                                     .factor = 8.0,
                                     .low_frequency_factor = 1.0,
                                     .high_frequency_factor = 4.0,
                                     .original_context = 8192.0});
  int kept = 0, stretched = 0, blended = 0;
  for (int i = 0; i < 64; ++i) {
    const double frequency = std::pow(5e5, -i / 64.0);
    const double wavelength = 2 * std::numbers::pi / frequency;
    double want = frequency;
    if (wavelength < 8192.0 / 4.0) {
      ++kept;
    } else if (wavelength > 8192.0 / 1.0) {
      want = frequency / 8.0;
      ++stretched;
    } else {
      const double smooth = (8192.0 / wavelength - 1.0) / (4.0 - 1.0);
      want = (1 - smooth) * frequency / 8.0 + smooth * frequency;
      ++blended;
    }
    EXPECT_NEAR(angles[i], want, 2e-7 * want) << i;
  }
  EXPECT_GT(kept, 0);
  EXPECT_GT(stretched, 0);
  EXPECT_GT(blended, 0);
}

// Also for numbers of pairs that fill no vectors.
TEST_P(CpuRope, TableIsRightFarOut) {
  const std::vector<int32_t> positions = {0, 131071, 1 << 20};
  for (const int pairs : {1, 10, 32, 50}) {
    std::vector<float> cos(3 * pairs), sin(3 * pairs);
    fill_table({.tokens = 3,
                .head_size = 2 * pairs,
                .positions = positions.data(),
                .theta = 1e6,
                .cos = cos.data(),
                .sin = sin.data()});
    for (int n = 0; n < 3; ++n) {
      for (int i = 0; i < pairs; ++i) {
        const long double angle =
            positions[n] * std::pow(1e6L, static_cast<long double>(-i) / pairs);
        EXPECT_NEAR(cos[n * pairs + i], std::cos(angle), 1e-7) << i << " of " << pairs;
        EXPECT_NEAR(sin[n * pairs + i], std::sin(angle), 1e-7) << i << " of " << pairs;
      }
    }
  }
}

}  // namespace
}  // namespace ridge::backends::cpu
