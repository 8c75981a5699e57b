// SPDX-License-Identifier: Apache-2.0
// AdamW on CPUs against its formula in double, against 1000 steps of another implementation, and a
// list of tensors against one tensor at a time.
#include "backends/cpu/kernels/kernels.h"

#include "backends/cpu/kernels/element.h"
#include "backends/cpu_kernel_fixture.h"
#include "backends/npz_array.h"
#include "test_paths.h"

namespace ridge::backends::cpu {
namespace {

RIDGE_CPU_KERNEL_SUITE(CpuAdamw);

// The scalars that the call of a step points to.
struct Scalars {
  float learning_rate = 1e-3f;
  float step = 1;
  float gradient_scale = 1;
  AdamwStep call() const { return {&learning_rate, &step, &gradient_scale}; }
};

template <typename T>
struct Parameters {
  std::vector<float> parameter, m, v;
  std::vector<T> gradient;
  std::vector<std::conditional_t<std::is_same_v<T, Float16>, Float16, uint16_t>> copy;
  double weight_decay;

  Parameters(int64_t n, uint32_t seed, double decay)
      : parameter(random_values<float>(n, seed)),
        m(random_values<float>(n, seed + 1, 0.1)),
        v(random_values<float>(n, seed + 2, 0.1)),
        gradient(random_values<T>(n, seed + 3)),
        copy(n),
        weight_decay(decay) {
    for (float& value : v) value = std::abs(value);
  }

  AdamwTensor tensor(bool with_copy) {
    AdamwTensor tensor;
    tensor.elements = static_cast<int64_t>(parameter.size());
    tensor.parameter = parameter.data();
    if constexpr (sizeof(T) == 4)
      tensor.gradient = gradient.data();
    else if constexpr (std::is_same_v<T, Float16>)
      tensor.f16_gradient = gradient.data();
    else
      tensor.bf16_gradient = gradient.data();
    tensor.m = m.data();
    tensor.v = v.data();
    if constexpr (std::is_same_v<T, Float16>)
      tensor.f16_parameter = with_copy ? copy.data() : nullptr;
    else
      tensor.bf16_parameter = with_copy ? copy.data() : nullptr;
    tensor.weight_decay = weight_decay;
    return tensor;
  }
};

void update(const AdamwTensor& tensor, const AdamwStep& step) { adamw_multi({&tensor, 1}, step); }

template <typename T>
void check_formula(int64_t n, const Scalars& scalars) {
  const AdamwStep step = scalars.call();
  const double rate = scalars.learning_rate, count = scalars.step;
  Parameters<T> got(n, 1, 0.1);
  const Parameters<T> old = got;
  update(got.tensor(true), step);
  for (int64_t i = 0; i < n; ++i) {
    const double g = to_double(old.gradient[i]) * scalars.gradient_scale;
    const double m = step.beta1 * old.m[i] + (1 - step.beta1) * g;
    const double v = step.beta2 * old.v[i] + (1 - step.beta2) * g * g;
    const double m_hat = m / (1 - std::pow(step.beta1, count));
    const double v_hat = v / (1 - std::pow(step.beta2, count));
    const double p =
        old.parameter[i] * (1 - rate * 0.1) - rate * m_hat / (std::sqrt(v_hat) + step.eps);
    expect_close(got.m[i], m, 3e-7);
    expect_close(got.v[i], v, 3e-7);
    // Terms of m may cancel, so the error of the update is relative to the size of the gradient,
    // that is, to the learning rate.
    expect_close(got.parameter[i], p, 2e-7, 1.0 + 50.0 * rate);
    auto rounded = got.copy[i];
    narrow_to(got.parameter[i], rounded);
    ASSERT_EQ(to_double(got.copy[i]), to_double(rounded));
  }
}

TEST_P(CpuAdamw, MatchesFormula) {
  for (int64_t n : {1, 7, 8, 15, 16, 17, 63, 1000, 20011}) {
    for (float step : {1.0f, 2.0f, 1000.0f}) {
      check_formula<float>(n, {.learning_rate = 3e-4f, .step = step});
      check_formula<uint16_t>(n, {.learning_rate = 1e-3f, .step = step, .gradient_scale = 0.25f});
      check_formula<Float16>(n, {.learning_rate = 1e-3f, .step = step, .gradient_scale = 0x1p-10f});
    }
  }
}

TEST_P(CpuAdamw, MatchesSnapshot) {
  Random random(42);
  std::vector<float> weight(6), m(6, 0.0f), v(6, 0.0f), gradient(6);
  const float bound = 1.0f / std::sqrt(3.0f);
  for (float& w : weight) w = -bound + 2.0f * bound * random.uniform();
  for (int step = 1; step <= 1000; ++step) {
    float x[3];
    for (float& value : x) value = random.uniform();
    const float target[2] = {x[0] + x[1], -x[2]};
    for (int o = 0; o < 2; ++o) {
      float y = 0.0f;
      for (int i = 0; i < 3; ++i) y += weight[o * 3 + i] * x[i];
      for (int i = 0; i < 3; ++i) gradient[o * 3 + i] = 2.0f * (y - target[o]) * x[i];
    }
    const Scalars at{.learning_rate = 1e-3f, .step = static_cast<float>(step)};
    update({6, weight.data(), gradient.data(), nullptr, m.data(), v.data(), nullptr, 0.01},
           at.call());
  }
  const auto want = read_npz_array(test_data("snapshots/test_adamw.npz"));
  ASSERT_EQ(want.size(), weight.size());
  for (int i = 0; i < 6; ++i) EXPECT_NEAR(weight[i], want[i], 1e-5) << i;
}

template <typename T>
void check_list() {
  const int64_t sizes[] = {1, 4096, 17, 0, 30000, 5, 999, 64};
  std::vector<Parameters<T>> together, alone;
  for (int64_t n : sizes) {
    const auto seed = static_cast<uint32_t>(10 + n);
    together.emplace_back(n, seed, n > 1000 ? 0.1 : 0.0);
    alone.emplace_back(n, seed, n > 1000 ? 0.1 : 0.0);
  }
  for (float step = 1; step <= 3; ++step) {
    const Scalars at{.learning_rate = 1e-2f, .step = step};
    std::vector<AdamwTensor> list;
    for (auto& parameters : together) list.push_back(parameters.tensor(true));
    adamw_multi(list, at.call());
    for (auto& parameters : alone) update(parameters.tensor(true), at.call());
  }
  for (size_t i = 0; i < together.size(); ++i) {
    EXPECT_TRUE(same_bits(together[i].parameter, alone[i].parameter));
    EXPECT_TRUE(same_bits(together[i].m, alone[i].m));
    EXPECT_TRUE(same_bits(together[i].v, alone[i].v));
    EXPECT_TRUE(same_bits(together[i].copy, alone[i].copy));
  }
}

TEST_P(CpuAdamw, ListEqualsOneAtATimeBitForBit) {
  check_list<float>();
  check_list<uint16_t>();
  check_list<Float16>();
}

TEST_P(CpuAdamw, ANegativeScaleChangesNothing) {
  Parameters<Float16> got(1000, 1, 0.1);
  const Parameters<Float16> old = got;
  const Scalars at{.gradient_scale = -1};
  update(got.tensor(true), at.call());
  EXPECT_TRUE(same_bits(got.parameter, old.parameter));
  EXPECT_TRUE(same_bits(got.m, old.m));
  EXPECT_TRUE(same_bits(got.v, old.v));
  EXPECT_TRUE(same_bits(got.copy, old.copy));
}

TEST_P(CpuAdamw, ZeroGradientOnlyDecays) {
  std::vector<float> p = {2.0f, -4.0f}, g(2, 0.0f), m(2, 0.0f), v(2, 0.0f);
  const Scalars at{.learning_rate = 0.5f};
  update({2, p.data(), g.data(), nullptr, m.data(), v.data(), nullptr, 0.5}, at.call());
  EXPECT_EQ(p[0], 1.5f);
  EXPECT_EQ(p[1], -3.0f);
}

}  // namespace
}  // namespace ridge::backends::cpu
