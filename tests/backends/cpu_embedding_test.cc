// SPDX-License-Identifier: Apache-2.0
// Embedding on CPUs: the gather, its gradient, padding, and ids outside the vocabulary.
#include "backends/cpu/kernels/kernels.h"

#include "backends/cpu_kernel_fixture.h"

namespace ridge::backends::cpu {
namespace {

RIDGE_CPU_KERNEL_SUITE(CpuEmbedding);

struct Shape {
  int64_t tokens, width, vocabulary;
};
const Shape kShapes[] = {{1, 1, 1},    {5, 7, 3},     {3, 16, 2},      {11, 65, 9},
                         {8, 130, 40}, {301, 96, 17}, {157, 640, 1000}};

std::vector<int32_t> ids_for(const Shape& shape) {
  Random random(5);
  std::vector<int32_t> ids;
  for (int64_t n = 0; n < shape.tokens; ++n) {
    ids.push_back(
        n % 5 == 4 ? -1
                   : static_cast<int32_t>(random.below(static_cast<uint32_t>(shape.vocabulary))));
  }
  return ids;
}

template <typename Table, typename T>
void check_forward(const Shape& shape) {
  const int64_t table_stride = shape.width + 3, stride = shape.width + 1;
  const auto table = random_values<Table>(shape.vocabulary * table_stride, 1);
  const auto ids = ids_for(shape);
  auto y = random_values<T>(shape.tokens * stride, 2);
  const auto before = y;
  ASSERT_EQ((embedding<Table, T>({shape.tokens,
                                  shape.width,
                                  shape.vocabulary,
                                  {table.data(), table_stride},
                                  ids.data(),
                                  {y.data(), stride}})),
            kNoBadRow);
  for (int64_t n = 0; n < shape.tokens; ++n) {
    for (int64_t i = 0; i < shape.width; ++i) {
      const double want = ids[n] < 0 ? 0.0 : to_double(table[ids[n] * table_stride + i]);
      expect_close(y[n * stride + i], want, 1e-7);
    }
    ASSERT_EQ(y[n * stride + shape.width], before[n * stride + shape.width])
        << "wrote past the row";
  }
}

TEST_P(CpuEmbedding, ForwardLooksUp) {
  for (const Shape& shape : kShapes) {
    check_forward<float, float>(shape);
    check_forward<float, uint16_t>(shape);
    check_forward<uint16_t, float>(shape);
    check_forward<uint16_t, uint16_t>(shape);
  }
}

template <typename T>
void check_backward(const Shape& shape, bool accumulate) {
  const int64_t stride = shape.width + 2, table_stride = shape.width + 1;
  const auto dy = random_values<T>(shape.tokens * stride, 1);
  const auto ids = ids_for(shape);
  auto d_table = random_values<float>(shape.vocabulary * table_stride, 2);
  const auto before = d_table;
  EmbeddingBackward<T> call{shape.tokens,
                            shape.width,
                            shape.vocabulary,
                            ids.data(),
                            {dy.data(), stride},
                            accumulate,
                            {d_table.data(), table_stride}};
  ASSERT_EQ(embedding_backward(call), kNoBadRow);
  for (int64_t v = 0; v < shape.vocabulary; ++v) {
    for (int64_t i = 0; i < shape.width; ++i) {
      double want = accumulate ? before[v * table_stride + i] : 0.0;
      int uses = 1;
      for (int64_t n = 0; n < shape.tokens; ++n) {
        if (ids[n] != v) continue;
        want += to_double(dy[n * stride + i]);
        ++uses;
      }
      ASSERT_NEAR(d_table[v * table_stride + i], want, 1e-7 * uses * 4);
    }
    ASSERT_EQ(d_table[v * table_stride + shape.width], before[v * table_stride + shape.width]);
  }
  auto again = before;
  call.d_table = {again.data(), table_stride};
  embedding_backward(call);
  EXPECT_TRUE(same_bits(d_table, again));
  omp_set_num_threads(omp_get_max_threads() + 1);  // every thread count adds in token order
  again = before;
  embedding_backward(call);
  omp_set_num_threads(omp_get_max_threads() - 1);
  EXPECT_TRUE(same_bits(d_table, again));
}

TEST_P(CpuEmbedding, BackwardAddsRows) {
  for (const Shape& shape : kShapes) {
    for (bool accumulate : {false, true}) {
      check_backward<float>(shape, accumulate);
      check_backward<uint16_t>(shape, accumulate);
      check_backward<Float16>(shape, accumulate);
    }
  }
}

TEST_P(CpuEmbedding, IdsOutOfRangeAreReported) {
  const std::vector<float> table(12, 1.0f);
  std::vector<float> y(12, 5.0f), d_table(12, 5.0f);
  for (int32_t wrong : {4, INT32_MAX, -2, INT32_MIN}) {
    const std::vector<int32_t> ids = {3, -1, 0, wrong};
    EXPECT_EQ((embedding<float, float>({4, 3, 4, {table.data(), 3}, ids.data(), {y.data(), 3}})),
              3);
    EXPECT_EQ(embedding_backward<float>(
                  {4, 3, 4, ids.data(), {table.data(), 3}, false, {d_table.data(), 3}}),
              3);
  }
  for (float value : y) EXPECT_EQ(value, 5.0f) << "nothing is written";
  for (float value : d_table) EXPECT_EQ(value, 5.0f);
}

}  // namespace
}  // namespace ridge::backends::cpu
