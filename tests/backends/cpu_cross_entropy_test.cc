// SPDX-License-Identifier: Apache-2.0
// Cross-entropy on CPUs, fused and in the two steps of an eager framework, against double precision
// and finite differences.
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu_kernel_fixture.h"

namespace ridge::backends::cpu {
namespace {

RIDGE_CPU_KERNEL_SUITE(CpuCrossEntropy);

struct Shape {
  int64_t tokens, vocabulary, stride;
};
const Shape kShapes[] = {{1, 1, 1},       {2, 2, 5},       {5, 7, 7},       {3, 16, 16},
                         {9, 33, 40},     {131, 97, 97},   {7, 2048, 2048}, {5, 2049, 2050},
                         {3, 5003, 5003}, {64, 1000, 1000}};

std::vector<int32_t> labels_for(const Shape& shape) {
  Random random(11);
  std::vector<int32_t> labels;
  for (int64_t n = 0; n < shape.tokens; ++n) {
    const bool ignored = n % 4 == 3;
    labels.push_back(
        ignored ? -1 : static_cast<int32_t>(random.below(static_cast<uint32_t>(shape.vocabulary))));
  }
  return labels;
}

template <typename T>
std::vector<double> row_of(const std::vector<T>& x, int64_t row, const Shape& shape) {
  std::vector<double> values;
  for (int64_t v = 0; v < shape.vocabulary; ++v)
    values.push_back(to_double(x[row * shape.stride + v]));
  return values;
}

double log_sum_exp(const std::vector<double>& x) {
  const double highest = *std::max_element(x.begin(), x.end());
  double sum = 0.0;
  for (double value : x) sum += std::exp(value - highest);
  return highest + std::log(sum);
}

template <typename T>
double mean_loss(const std::vector<T>& logits,
                 const std::vector<int32_t>& labels,
                 const Shape& shape) {
  double sum = 0.0;
  int counted = 0;
  for (int64_t n = 0; n < shape.tokens; ++n) {
    if (labels[n] < 0) continue;
    const auto row = row_of(logits, n, shape);
    sum += log_sum_exp(row) - row[labels[n]];
    ++counted;
  }
  return sum / counted;
}

template <typename T>
void check_fused(const Shape& shape) {
  const int64_t size = shape.tokens * shape.stride;
  auto logits = random_values<T>(size, 1, 9.0);
  const auto labels = labels_for(shape);
  std::vector<float> lse(shape.tokens);
  std::vector<double> workspace(softmax_cross_entropy_workspace_bytes(shape.tokens) /
                                sizeof(double));
  float loss = -1.0f;
  int32_t count = -1;
  SoftmaxCrossEntropy<T> forward{shape.tokens,  shape.vocabulary, {logits.data(), shape.stride},
                                 labels.data(), lse.data(),       &loss,
                                 &count,        workspace.data()};
  ASSERT_EQ(softmax_cross_entropy(forward), kNoBadRow);
  const double want = mean_loss(logits, labels, shape);
  // The result is one fp32 number; its terms are summed in fp32 within a row.
  EXPECT_NEAR(loss, want, 2e-6 * (1.0 + std::abs(want)));
  EXPECT_EQ(count, shape.tokens - shape.tokens / 4);
  for (int64_t n = 0; n < shape.tokens; ++n) {
    ASSERT_NEAR(lse[n], log_sum_exp(row_of(logits, n, shape)), 2e-6 * 10.0);
  }

  const float d_loss = 0.75f;
  auto d_logits = random_values<T>(size, 2);
  SoftmaxCrossEntropyBackward<T> backward{
      shape.tokens, shape.vocabulary, {logits.data(), shape.stride},  labels.data(), lse.data(),
      &d_loss,      &count,           {d_logits.data(), shape.stride}};
  ASSERT_EQ(softmax_cross_entropy_backward(backward), kNoBadRow);
  const double each = d_loss / static_cast<double>(count);
  for (int64_t n = 0; n < shape.tokens; ++n) {
    const auto row = row_of(logits, n, shape);
    const double total = log_sum_exp(row);
    for (int64_t v = 0; v < shape.vocabulary; ++v) {
      const double p = std::exp(row[v] - total) - (v == labels[n] ? 1.0 : 0.0);
      const double gradient = labels[n] < 0 ? 0.0 : p * each;
      expect_close(d_logits[n * shape.stride + v], gradient, 3e-6, each);
    }
  }
  auto again = d_logits;
  const float loss_before = loss;
  softmax_cross_entropy(forward);
  EXPECT_EQ(loss, loss_before);
  backward.d_logits = {logits.data(), shape.stride};
  softmax_cross_entropy_backward(backward);
  for (int64_t n = 0; n < shape.tokens; ++n) {
    EXPECT_EQ(std::memcmp(&logits[n * shape.stride], &again[n * shape.stride],
                          shape.vocabulary * sizeof(T)),
              0)
        << "in place differs";
  }
}

TEST_P(CpuCrossEntropy, FusedMatchesFormula) {
  for (const Shape& shape : kShapes) {
    check_fused<float>(shape);
    check_fused<uint16_t>(shape);
    check_fused<Float16>(shape);
  }
}

// Checks the closed form above against differences of the loss.
TEST_P(CpuCrossEntropy, GradientMatchesFiniteDifferences) {
  const Shape shape{7, 29, 29};
  auto logits = random_values<float>(shape.tokens * shape.vocabulary, 1, 3.0);
  std::vector<double> exact(logits.begin(), logits.end());
  const auto labels = labels_for(shape);
  std::vector<float> lse(shape.tokens), d_logits(logits.size());
  std::vector<double> workspace(shape.tokens);
  float loss = 0.0f;
  int32_t count = 0;
  const float one = 1.0f;
  softmax_cross_entropy<float>({shape.tokens,
                                shape.vocabulary,
                                {logits.data(), shape.stride},
                                labels.data(),
                                lse.data(),
                                &loss,
                                &count,
                                workspace.data()});
  softmax_cross_entropy_backward<float>({shape.tokens,
                                         shape.vocabulary,
                                         {logits.data(), shape.stride},
                                         labels.data(),
                                         lse.data(),
                                         &one,
                                         &count,
                                         {d_logits.data(), shape.stride}});
  constexpr double kStep = 1e-5;
  for (size_t i = 0; i < exact.size(); ++i) {
    const double before = exact[i];
    exact[i] = before + kStep;
    const double up = mean_loss(exact, labels, shape);
    exact[i] = before - kStep;
    const double down = mean_loss(exact, labels, shape);
    exact[i] = before;
    expect_close(d_logits[i], (up - down) / (2 * kStep), 1e-6, 0.2);
  }
}

template <typename T>
void check_eager(const Shape& shape) {
  const int64_t size = shape.tokens * shape.stride;
  auto logits = random_values<T>(size, 1, 9.0);
  const auto labels = labels_for(shape);
  auto log_p = random_values<T>(size, 2);
  log_softmax<T>({shape.tokens,
                  shape.vocabulary,
                  {logits.data(), shape.stride},
                  {log_p.data(), shape.stride}});
  double sum = 0.0;
  int32_t counted = 0;
  for (int64_t n = 0; n < shape.tokens; ++n) {
    const auto row = row_of(logits, n, shape);
    const double total = log_sum_exp(row);
    for (int64_t v = 0; v < shape.vocabulary; ++v) {
      expect_close(log_p[n * shape.stride + v], row[v] - total, 2e-6, 10.0);
    }
    if (labels[n] < 0) continue;
    sum -= to_double(log_p[n * shape.stride + labels[n]]);
    ++counted;
  }
  float loss = 0.0f;
  int32_t count = 0;
  ASSERT_EQ(nll_loss<T>({shape.tokens,
                         shape.vocabulary,
                         {log_p.data(), shape.stride},
                         labels.data(),
                         &loss,
                         &count}),
            kNoBadRow);
  EXPECT_EQ(count, counted);
  EXPECT_FLOAT_EQ(loss, static_cast<float>(sum / counted));

  const float d_loss = 1.5f;
  auto d_log_p = random_values<T>(size, 3);
  const auto before = d_log_p;
  ASSERT_EQ(nll_loss_backward<T>({shape.tokens,
                                  shape.vocabulary,
                                  labels.data(),
                                  &d_loss,
                                  &count,
                                  {d_log_p.data(), shape.stride}}),
            kNoBadRow);
  for (int64_t n = 0; n < shape.tokens; ++n) {
    for (int64_t v = 0; v < shape.stride; ++v) {
      const int64_t at = n * shape.stride + v;
      if (v >= shape.vocabulary) {
        ASSERT_EQ(d_log_p[at], before[at]) << "wrote past the row";
      } else {
        expect_close(d_log_p[at], v == labels[n] ? -1.5 / count : 0.0, 1e-7);
      }
    }
  }
  auto dy = random_values<T>(size, 4);
  std::vector<T> dx(size);
  SoftmaxBackward<T> call{shape.tokens,
                          shape.vocabulary,
                          {log_p.data(), shape.stride},
                          {dy.data(), shape.stride},
                          {dx.data(), shape.stride}};
  log_softmax_backward(call);
  for (int64_t n = 0; n < shape.tokens; ++n) {
    const auto given = row_of(dy, n, shape);
    double total = 0.0;
    for (double value : given) total += value;
    for (int64_t v = 0; v < shape.vocabulary; ++v) {
      const double p = std::exp(to_double(log_p[n * shape.stride + v]));
      const double slack_size = std::sqrt(static_cast<double>(shape.vocabulary)) + std::abs(total);
      expect_close(dx[n * shape.stride + v], given[v] - p * total, 2e-6, slack_size);
    }
  }
  auto again = dx;
  log_softmax_backward(call);
  EXPECT_TRUE(same_bits(dx, again));
}

TEST_P(CpuCrossEntropy, EagerStepsMatchFormula) {
  for (const Shape& shape : kShapes) {
    check_eager<float>(shape);
    check_eager<uint16_t>(shape);
    check_eager<Float16>(shape);
  }
}

// Both ways to compute the gradient agree.
TEST_P(CpuCrossEntropy, EagerEqualsFused) {
  const Shape shape{37, 301, 301};
  auto logits = random_values<float>(shape.tokens * shape.vocabulary, 1, 5.0);
  const auto labels = labels_for(shape);
  std::vector<float> lse(shape.tokens), fused(logits.size()), log_p(logits.size());
  std::vector<float> d_log_p(logits.size()), eager(logits.size());
  std::vector<double> workspace(shape.tokens);
  float loss = 0.0f, loss_eager = 0.0f;
  int32_t count = 0;
  const float one = 1.0f;
  const StridedRows<const float> x{logits.data(), shape.stride};
  softmax_cross_entropy<float>({shape.tokens, shape.vocabulary, x, labels.data(), lse.data(), &loss,
                                &count, workspace.data()});
  softmax_cross_entropy_backward<float>({shape.tokens,
                                         shape.vocabulary,
                                         x,
                                         labels.data(),
                                         lse.data(),
                                         &one,
                                         &count,
                                         {fused.data(), shape.stride}});
  log_softmax<float>({shape.tokens, shape.vocabulary, x, {log_p.data(), shape.stride}});
  nll_loss<float>({shape.tokens,
                   shape.vocabulary,
                   {log_p.data(), shape.stride},
                   labels.data(),
                   &loss_eager,
                   &count});
  nll_loss_backward<float>({shape.tokens,
                            shape.vocabulary,
                            labels.data(),
                            &one,
                            &count,
                            {d_log_p.data(), shape.stride}});
  log_softmax_backward<float>({shape.tokens,
                               shape.vocabulary,
                               {log_p.data(), shape.stride},
                               {d_log_p.data(), shape.stride},
                               {eager.data(), shape.stride}});
  EXPECT_NEAR(loss, loss_eager, 2e-6);
  for (size_t i = 0; i < fused.size(); ++i) ASSERT_NEAR(fused[i], eager[i], 1e-7) << i;
}

TEST_P(CpuCrossEntropy, LabelsOutOfRangeAreReported) {
  const int64_t tokens = 4, vocabulary = 6;
  std::vector<float> logits(tokens * vocabulary, 1.0f), d_logits(logits.size(), 5.0f),
      lse(tokens, 5.0f);
  std::vector<double> workspace(tokens);
  float loss = 5.0f;
  int32_t count = 5;
  const float one = 1.0f;
  const StridedRows<const float> x{logits.data(), vocabulary};
  for (int32_t wrong : {6, 1 << 30, -2, INT32_MIN}) {
    const std::vector<int32_t> labels = {0, -1, wrong, wrong};
    EXPECT_EQ(softmax_cross_entropy<float>({tokens, vocabulary, x, labels.data(), lse.data(), &loss,
                                            &count, workspace.data()}),
              2);
    EXPECT_EQ(softmax_cross_entropy_backward<float>({tokens,
                                                     vocabulary,
                                                     x,
                                                     labels.data(),
                                                     lse.data(),
                                                     &one,
                                                     &count,
                                                     {d_logits.data(), vocabulary}}),
              2);
    EXPECT_EQ(nll_loss<float>({tokens, vocabulary, x, labels.data(), &loss, &count}), 2);
    EXPECT_EQ(nll_loss_backward<float>(
                  {tokens, vocabulary, labels.data(), &one, &count, {d_logits.data(), vocabulary}}),
              2);
  }
  EXPECT_EQ(loss, 5.0f);
  EXPECT_EQ(count, 5);
  for (float value : d_logits) EXPECT_EQ(value, 5.0f);
}

TEST_P(CpuCrossEntropy, NothingCountedGivesZeros) {
  const int64_t tokens = 3, vocabulary = 5;
  std::vector<float> logits(tokens * vocabulary, 1.0f), d_logits(logits.size(), 5.0f), lse(tokens);
  std::vector<double> workspace(tokens);
  const std::vector<int32_t> labels(tokens, -1);
  float loss = 5.0f;
  int32_t count = 5;
  const float one = 1.0f;
  const StridedRows<const float> x{logits.data(), vocabulary};
  softmax_cross_entropy<float>(
      {tokens, vocabulary, x, labels.data(), lse.data(), &loss, &count, workspace.data()});
  EXPECT_EQ(loss, 0.0f);
  EXPECT_EQ(count, 0);
  softmax_cross_entropy_backward<float>({tokens,
                                         vocabulary,
                                         x,
                                         labels.data(),
                                         lse.data(),
                                         &one,
                                         &count,
                                         {d_logits.data(), vocabulary}});
  for (float value : d_logits) EXPECT_EQ(value, 0.0f);
}

// With equal logits over a large vocabulary, the loss is log V, and fp32's sum of V ones must not
// drift.
TEST_P(CpuCrossEntropy, UniformLogitsGiveLogV) {
  const int64_t vocabulary = 262144;
  std::vector<float> logits(vocabulary, 3.25f), lse(1);
  std::vector<double> workspace(1);
  const std::vector<int32_t> labels = {77};
  float loss = 0.0f;
  int32_t count = 0;
  softmax_cross_entropy<float>({1,
                                vocabulary,
                                {logits.data(), vocabulary},
                                labels.data(),
                                lse.data(),
                                &loss,
                                &count,
                                workspace.data()});
  EXPECT_FLOAT_EQ(loss, static_cast<float>(std::log(262144.0)));
}

}  // namespace
}  // namespace ridge::backends::cpu
