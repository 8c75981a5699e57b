// SPDX-License-Identifier: Apache-2.0
// CPU flash attention against a naive attention in double precision, without tiles or a running
// maximum. Not a test of speed.
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "backends/cpu/kernels/flash_attention/flash_attention.h"
#include "base/arena.h"
#include "base/bf16.h"
#include "base/error.h"
#include "base/random.h"

namespace ridge::backends::cpu {
namespace {

double to_double(float value) { return value; }
double to_double(uint16_t bits) { return bf16_to_float(bits); }
template <typename T>
T from_float(float value) {
  if constexpr (std::is_same_v<T, float>) {
    return value;
  } else {
    return float_to_bf16(value);
  }
}

// The memory layout of the heads of q, k and v (or of their gradients).
enum class Layout {
  // Slices of one [N, (H + 2K) E + 3] tensor. The last 3 columns are unused and break alignment.
  kMerged,
  kHeadMajor,  // [heads, N, E] each
};

// Three operands in one buffer. Every element starts as NaN.
template <typename T>
struct Operands {
  Operands(const AttentionExtents& e, Layout layout) {
    const int64_t tokens = e.batch * e.sequence;
    const int64_t columns = (e.heads + 2 * e.kv_heads) * e.head_size;
    const int64_t row = columns + (layout == Layout::kMerged ? 3 : 0);
    values.assign(static_cast<size_t>(tokens * row), from_float<T>(std::nanf("")));
    int64_t first_head = 0;
    for (auto [view, heads] : {std::pair{&q, e.heads}, {&k, e.kv_heads}, {&v, e.kv_heads}}) {
      if (layout == Layout::kMerged) {
        *view = {values.data() + first_head * e.head_size, row, e.head_size};
      } else {
        *view = {values.data() + first_head * tokens * e.head_size, e.head_size,
                 tokens * e.head_size};
      }
      first_head += heads;
    }
  }
  std::vector<T> values;
  TokenHeads<T> q, k, v;
};

template <typename T>
TokenHeads<const T> readable(TokenHeads<T> view) {
  return {view.data, view.token_stride, view.head_stride};
}

// Dense [N, heads, E] in double, the only layout of the reference.
using Dense = std::vector<double>;

template <typename T>
Dense dense(const AttentionExtents& e, TokenHeads<T> view, int64_t heads) {
  Dense out;
  for (int64_t n = 0; n < e.batch * e.sequence; ++n) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t i = 0; i < e.head_size; ++i) {
        out.push_back(to_double(view.data[n * view.token_stride + h * view.head_stride + i]));
      }
    }
  }
  return out;
}

template <typename T>
void fill_normal(const AttentionExtents& e, TokenHeads<T> view, int64_t heads, Random& random) {
  std::vector<float> row(static_cast<size_t>(std::max<int64_t>(e.head_size, 16)));
  for (int64_t n = 0; n < e.batch * e.sequence; ++n) {
    for (int64_t h = 0; h < heads; ++h) {
      random.fill_normal(row, 1.0f);
      for (int64_t i = 0; i < e.head_size; ++i) {
        view.data[n * view.token_stride + h * view.head_stride + i] =
            from_float<T>(row[static_cast<size_t>(i)]);
      }
    }
  }
}

bool visible(const AttentionExtents& e, int64_t query, int64_t key) {
  if (!e.causal) return true;
  return key <= query && (e.window == 0 || key > query - e.window);
}

double dot(const double* a, const double* b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

struct Reference {
  Dense o, d_q, d_k, d_v;  // [N, heads, E]
  Dense lse;               // [N, H]
};

// Softmax attention row by row and, if d_o is given, its textbook gradient. `given_o` are outputs
// that the backward pass reads instead of the exact ones; null for none.
Reference reference_attention(const AttentionExtents& e,
                              const Dense& q,
                              const Dense& k,
                              const Dense& v,
                              const Dense* d_o,
                              const Dense* given_o = nullptr) {
  const int64_t size = e.head_size;
  Reference out{Dense(q.size()), Dense(q.size()), Dense(k.size()), Dense(k.size()), {}};
  Dense p(static_cast<size_t>(e.sequence));
  for (int64_t n = 0; n < e.batch * e.sequence; ++n) {
    const int64_t first = n / e.sequence * e.sequence;
    for (int64_t h = 0; h < e.heads; ++h) {
      const int64_t row = (n * e.heads + h) * size;
      const auto kv_row = [&](int64_t key) {
        return ((first + key) * e.kv_heads + h / (e.heads / e.kv_heads)) * size;
      };
      double maximum = -std::numeric_limits<double>::infinity();
      for (int64_t j = 0; j < e.sequence; ++j) {
        p[j] = visible(e, n - first, j) ? e.scale * dot(&q[row], &k[kv_row(j)], size)
                                        : -std::numeric_limits<double>::infinity();
        maximum = std::max(maximum, p[j]);
      }
      double sum = 0;
      for (double& score : p) sum += score = std::exp(score - maximum);
      out.lse.push_back(maximum + std::log(sum));
      for (int64_t j = 0; j < e.sequence; ++j) {
        p[j] /= sum;
        for (int64_t i = 0; i < size; ++i) out.o[row + i] += p[j] * v[kv_row(j) + i];
      }
      if (d_o == nullptr) continue;
      const double delta = dot(&(*d_o)[row], given_o ? &(*given_o)[row] : &out.o[row], size);
      for (int64_t j = 0; j < e.sequence; ++j) {
        const double d_s = p[j] * (dot(&(*d_o)[row], &v[kv_row(j)], size) - delta) * e.scale;
        for (int64_t i = 0; i < size; ++i) {
          out.d_q[row + i] += d_s * k[kv_row(j) + i];
          out.d_k[kv_row(j) + i] += d_s * q[row + i];
          out.d_v[kv_row(j) + i] += p[j] * (*d_o)[row + i];
        }
      }
    }
  }
  return out;
}

// Workspaces hold NaN before each pass, because results may not depend on their contents. They are
// allocated on the heap at their exact size, so that AddressSanitizer detects an overrun.
class Workspace {
 public:
  explicit Workspace(int64_t bytes)
      : data_(static_cast<std::byte*>(::operator new(static_cast<size_t>(bytes), kAlignment))) {
    std::memset(data_.get(), 0xff, static_cast<size_t>(bytes));
  }
  float* data() const { return reinterpret_cast<float*>(data_.get()); }

 private:
  static constexpr std::align_val_t kAlignment{kAlignmentBytes};
  struct Delete {
    void operator()(std::byte* data) const { ::operator delete(data, kAlignment); }
  };
  std::unique_ptr<std::byte, Delete> data_;
};

// One call of each pass on random data.
template <typename T>
struct Passes {
  Passes(const AttentionExtents& extents, Layout layout, int threads, float magnitude = 1.0f)
      : e(extents),
        in(e, layout),
        gradient(e, layout),
        o(static_cast<size_t>(e.batch * e.sequence * e.heads * e.head_size),
          from_float<T>(std::nanf(""))),
        d_o(o.size()),
        lse(static_cast<size_t>(e.batch * e.sequence * e.heads), std::nanf("")) {
    Random random(1234);
    fill_normal(e, in.q, e.heads, random);
    fill_normal(e, in.k, e.kv_heads, random);
    fill_normal(e, in.v, e.kv_heads, random);
    fill_normal(e, d_o_view(), e.heads, random);
    for (T& value : in.values)
      value = from_float<T>(magnitude * static_cast<float>(to_double(value)));
    forward(threads);
    backward(threads);
  }

  TokenHeads<T> o_view() { return {o.data(), e.heads * e.head_size, e.head_size}; }
  TokenHeads<T> d_o_view() { return {d_o.data(), e.heads * e.head_size, e.head_size}; }

  void forward(int threads) {
    const Workspace workspace(flash_attention_forward_workspace_bytes(e, threads));
    flash_attention_forward<T>({e, readable(in.q), readable(in.k), readable(in.v), o_view(),
                                lse.data(), workspace.data(), threads});
  }
  void backward(int threads) {
    const Workspace workspace(flash_attention_backward_workspace_bytes(e, threads));
    flash_attention_backward<T>({e, readable(in.q), readable(in.k), readable(in.v),
                                 readable(o_view()), lse.data(), readable(d_o_view()), gradient.q,
                                 gradient.k, gradient.v, workspace.data(), threads});
  }

  // The bits of all results.
  std::vector<std::byte> bits() const {
    std::vector<std::byte> all;
    const auto append = [&](const auto& values) {
      const auto* data = reinterpret_cast<const std::byte*>(values.data());
      all.insert(all.end(), data, data + values.size() * sizeof(values[0]));
    };
    append(o);
    append(lse);
    append(gradient.values);
    return all;
  }

  AttentionExtents e;
  Operands<T> in;
  Operands<T> gradient;
  std::vector<T> o, d_o;
  std::vector<float> lse;
};

// |got - want| <= relative * max(|want|, floor), element by element; reports the worst element.
void expect_close(const Dense& got,
                  const Dense& want,
                  double relative,
                  double floor,
                  const std::string& what) {
  ASSERT_EQ(got.size(), want.size());
  double worst = 0;
  size_t where = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double error = std::abs(got[i] - want[i]) / std::max(std::abs(want[i]), floor);
    if (!(error <= worst)) {  // also true for NaN
      worst = error;
      where = i;
    }
    if (std::isnan(error)) break;
  }
  if (got.empty()) return;
  EXPECT_LE(worst, relative) << what << " at " << where << ": got " << got[where] << ", expected "
                             << want[where];
}

std::string describe(const AttentionExtents& e) {
  return fmt::format("B{} T{} H{} K{} E{} {} window {}", e.batch, e.sequence, e.heads, e.kv_heads,
                     e.head_size, e.causal ? "causal" : "full", e.window);
}

AttentionExtents extents_of(int64_t batch,
                            int64_t sequence,
                            int64_t heads,
                            int64_t kv_heads,
                            int64_t head_size,
                            bool causal = true,
                            int64_t window = 0) {
  const float scale = 1.0f / std::sqrt(static_cast<float>(head_size));
  return {batch, sequence, heads, kv_heads, head_size, causal, window, scale};
}

// Elements of the gradients' buffer that belong to no head must keep their bits; all others must be
// written.
template <typename T>
int64_t count_nan(const std::vector<T>& values) {
  int64_t count = 0;
  for (const T value : values) count += std::isnan(to_double(value)) ? 1 : 0;
  return count;
}

// The allowed distance of results from the double reference.
struct Bounds {
  double relative;
  double floor;      // smaller values may differ by relative * floor
  bool of_stored_o;  // the reference's backward pass uses the kernel's stored o
};

template <typename T>
void check_passes(const AttentionExtents& e, Layout layout, int threads, const Bounds& bounds) {
  SCOPED_TRACE(describe(e));
  Passes<T> run(e, layout, threads);
  const Dense q = dense(e, run.in.q, e.heads);
  const Dense k = dense(e, run.in.k, e.kv_heads);
  const Dense v = dense(e, run.in.v, e.kv_heads);
  const Dense d_o = dense(e, run.d_o_view(), e.heads);
  const Dense o = dense(e, run.o_view(), e.heads);
  const Reference want = reference_attention(e, q, k, v, &d_o, bounds.of_stored_o ? &o : nullptr);
  const auto expect = [&](const Dense& got, const Dense& wanted, const char* what) {
    expect_close(got, wanted, bounds.relative, bounds.floor, what);
  };
  expect(o, want.o, "o");
  expect_close(Dense(run.lse.begin(), run.lse.end()), want.lse, 1e-5, 1.0, "lse");
  expect(dense(e, run.gradient.q, e.heads), want.d_q, "d_q");
  expect(dense(e, run.gradient.k, e.kv_heads), want.d_k, "d_k");
  expect(dense(e, run.gradient.v, e.kv_heads), want.d_v, "d_v");
  EXPECT_EQ(count_nan(run.gradient.values),
            layout == Layout::kMerged ? 3 * e.batch * e.sequence : 0);
}

// 1e-5 is about 170 roundings of 2^-24: sums of up to 256 terms of order 1, and in gradients two
// such sums in sequence.
void check_f32(const AttentionExtents& e, Layout layout, int threads) {
  check_passes<float>(e, layout, threads, {1e-5, 1.0, false});
}

// The kernels compute in fp32 from the same bf16 inputs as the reference. The remaining error is
// the rounding of the results to 8 significant bits (at most half a unit in the last place, or 2^-8
// of the value) and the fp32 error, which 1e-5 bounds. The stored o is bf16 too. Values below 1/64
// have an absolute limit of 6e-5, for their rounding and for the fp32 error after cancellation.
void check_bf16(const AttentionExtents& e, Layout layout, int threads) {
  check_passes<uint16_t>(e, layout, threads, {std::ldexp(1.0, -8) + 1e-5, 1.0 / 64, true});
}

constexpr int64_t kSequences[] = {1, 2, 7, 31, 64, 65, 128, 130};
constexpr int64_t kHeadSizes[] = {8, 16, 24, 40, 64, 80, 128, 256};

TEST(CpuFlashAttention, MatchesReferenceForAllSequencesAndHeadSizes) {
  for (const int64_t sequence : kSequences) {
    for (const int64_t head_size : kHeadSizes) {
      check_f32(extents_of(1, sequence, 2, 1, head_size), Layout::kMerged, 1);
    }
  }
}

TEST(CpuFlashAttention, MatchesReferenceWithoutMask) {
  for (const int64_t sequence : kSequences) {
    check_f32(extents_of(2, sequence, 2, 2, 24, false), Layout::kHeadMajor, 2);
    check_f32(extents_of(1, sequence, 1, 1, 64, false), Layout::kMerged, 1);
  }
}

TEST(CpuFlashAttention, MatchesReferenceForGroupedQueries) {
  for (const int64_t kv_heads : {1, 2, 4}) {
    for (const int64_t group : {1, 2, 3, 4, 5, 9}) {
      check_f32(extents_of(2, 70, kv_heads * group, kv_heads, 16), Layout::kMerged, 2);
    }
  }
}

TEST(CpuFlashAttention, MatchesReferenceForWindows) {
  for (const int64_t sequence : {1, 31, 65, 130, 257}) {
    for (const int64_t window : {1, 2, 15, 16, 17, 18, 63, 64, 65, 100, 1 << 20}) {
      check_f32(extents_of(1, sequence, 2, 1, 8, true, window), Layout::kMerged, 2);
    }
  }
  check_f32(extents_of(1, 130, 1, 1, 8, true, std::numeric_limits<int64_t>::max()), Layout::kMerged,
            1);
}

TEST(CpuFlashAttention, MatchesReferenceForAnyThreadCount) {
  for (const int threads : {2, 3, 5, 16}) {
    for (const int64_t kv_heads : {1, 3}) {
      check_f32(extents_of(1, 257, 2 * kv_heads, kv_heads, 16), Layout::kMerged, threads);
      check_f32(extents_of(1, 257, kv_heads, kv_heads, 16, false), Layout::kMerged, threads);
      check_f32(extents_of(3, 5, kv_heads, kv_heads, 8), Layout::kMerged, threads);
    }
  }
}

TEST(CpuFlashAttention, MatchesReferenceInBf16) {
  for (const int64_t sequence : kSequences) {
    for (const int64_t head_size : {8, 40, 64, 128}) {
      check_bf16(extents_of(1, sequence, 2, 1, head_size), Layout::kMerged, 2);
    }
  }
  check_bf16(extents_of(2, 65, 4, 4, 256, false), Layout::kHeadMajor, 2);
  check_bf16(extents_of(1, 130, 4, 1, 24, true, 33), Layout::kMerged, 2);
}

// bf16 is a storage type only: the same values in fp32 give the same sums, rounded to nearest even.
TEST(CpuFlashAttention, Bf16IsFp32Rounded) {
  const AttentionExtents e = extents_of(1, 100, 4, 2, 40);
  Passes<uint16_t> half(e, Layout::kMerged, 2);
  Passes<float> single(e, Layout::kMerged, 2);
  const auto widen = [](const std::vector<uint16_t>& from, std::vector<float>& to) {
    ASSERT_EQ(from.size(), to.size());
    for (size_t i = 0; i < from.size(); ++i) to[i] = bf16_to_float(from[i]);
  };
  const auto expect_rounded = [](const std::vector<uint16_t>& got, const std::vector<float>& want) {
    for (size_t i = 0; i < got.size(); ++i) {
      if (std::isnan(want[i])) continue;  // between the columns of the heads
      ASSERT_EQ(got[i], float_to_bf16(want[i])) << i;
    }
  };
  widen(half.in.values, single.in.values);
  widen(half.d_o, single.d_o);
  single.forward(2);
  EXPECT_EQ(half.lse, single.lse);
  expect_rounded(half.o, single.o);
  widen(half.o, single.o);
  single.backward(2);
  expect_rounded(half.gradient.values, single.gradient.values);
}

// Does not use the reference's own gradient formula, only finite differences of its forward pass.
TEST(CpuFlashAttention, GradientMatchesFiniteDifferences) {
  for (const bool causal : {true, false}) {
    const AttentionExtents e = extents_of(2, 19, 4, 2, 8, causal, causal ? 7 : 0);
    Passes<float> run(e, Layout::kMerged, 2);
    Dense inputs[] = {dense(e, run.in.q, e.heads), dense(e, run.in.k, e.kv_heads),
                      dense(e, run.in.v, e.kv_heads)};
    const Dense gradients[] = {dense(e, run.gradient.q, e.heads),
                               dense(e, run.gradient.k, e.kv_heads),
                               dense(e, run.gradient.v, e.kv_heads)};
    const Dense d_o = dense(e, run.d_o_view(), e.heads);
    const auto loss = [&] {
      const Reference out = reference_attention(e, inputs[0], inputs[1], inputs[2], nullptr);
      return dot(out.o.data(), d_o.data(), static_cast<int64_t>(d_o.size()));
    };
    for (int which = 0; which < 3; ++which) {
      for (size_t i = 0; i < inputs[which].size(); i += 13) {
        const double value = inputs[which][i];
        // Truncation is about kStep^2, rounding about 1e-16 * 300 / kStep.
        constexpr double kStep = 1e-4;
        inputs[which][i] = value + kStep;
        const double above = loss();
        inputs[which][i] = value - kStep;
        const double below = loss();
        inputs[which][i] = value;
        EXPECT_NEAR(gradients[which][i], (above - below) / (2 * kStep), 2e-5)
            << "operand " << which << " element " << i;
      }
    }
  }
}

TEST(CpuFlashAttention, TwoRunsHaveTheSameBits) {
  for (const int threads : {1, 2, 3}) {
    for (const int64_t kv_heads : {1, 4}) {
      const AttentionExtents e = extents_of(1, 333, 2 * kv_heads, kv_heads, 40);
      EXPECT_EQ(Passes<float>(e, Layout::kMerged, threads).bits(),
                Passes<float>(e, Layout::kMerged, threads).bits());
      EXPECT_EQ(Passes<uint16_t>(e, Layout::kMerged, threads).bits(),
                Passes<uint16_t>(e, Layout::kMerged, threads).bits());
    }
  }
}

TEST(CpuFlashAttention, ForwardHasTheSameBitsForAnyThreadCountAndLayout) {
  for (const AttentionExtents& e :
       {extents_of(1, 300, 2, 1, 24), extents_of(2, 100, 3, 3, 64, false),
        extents_of(1, 200, 4, 1, 8, true, 40)}) {
    const Passes<float> one(e, Layout::kMerged, 1);
    for (const int threads : {2, 3, 8}) {
      const Passes<float> many(e, Layout::kHeadMajor, threads);
      EXPECT_EQ(one.o, many.o);
      EXPECT_EQ(one.lse, many.lse);
    }
  }
}

TEST(CpuFlashAttention, EveryInstructionSetMatchesReference) {
  std::vector<std::vector<float>> outputs;
  for (const int64_t target : {HWY_AVX3, HWY_AVX2, HWY_SSE4, HWY_SCALAR}) {
    if (target != HWY_SCALAR && (hwy::SupportedTargets() & target) == 0) {
      std::printf("skipped: this machine has no %s\n", hwy::TargetName(target));
      continue;
    }
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    const AttentionExtents e = extents_of(1, 130, 2, 1, 40);
    check_f32(e, Layout::kMerged, 2);
    check_f32(extents_of(1, 67, 1, 1, 64, false), Layout::kMerged, 1);
    check_f32(extents_of(1, 130, 1, 1, 80, true, 20), Layout::kMerged, 2);
    check_bf16(e, Layout::kMerged, 2);
    outputs.push_back(Passes<float>(e, Layout::kMerged, 1).o);
    hwy::SetSupportedTargetsForTest(0);
  }
  // Sums over lanes have as many terms as lanes, so equal bits would mean that no instruction set
  // was forced.
  for (size_t i = 1; i < outputs.size(); ++i) EXPECT_NE(outputs[i - 1], outputs[i]);
}

// Scores in the hundreds: their exponentials overflow unless the maximum is subtracted first. Their
// fp32 error is about 2^-24 * |score|, and weights inherit it as a relative error.
TEST(CpuFlashAttention, LargeScoresStayFinite) {
  const AttentionExtents e = extents_of(1, 100, 2, 1, 64);
  Passes<float> run(e, Layout::kMerged, 1, 12.0f);
  const Reference want =
      reference_attention(e, dense(e, run.in.q, e.heads), dense(e, run.in.k, e.kv_heads),
                          dense(e, run.in.v, e.kv_heads), nullptr);
  expect_close(dense(e, run.o_view(), e.heads), want.o, 1e-3, 1.0, "o");
  expect_close(Dense(run.lse.begin(), run.lse.end()), want.lse, 1e-5, 1.0, "lse");
  EXPECT_EQ(count_nan(run.gradient.values), 3 * e.batch * e.sequence);
}

TEST(CpuFlashAttention, NanIsNotSwallowed) {
  const AttentionExtents e = extents_of(1, 70, 1, 1, 16);
  for (const int64_t target : {HWY_AVX3, HWY_AVX2, HWY_SSE4}) {
    if ((hwy::SupportedTargets() & target) == 0) continue;
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    Passes<float> run(e, Layout::kMerged, 1);
    run.in.k.data[30 * run.in.k.token_stride + 5] = std::nanf("");
    run.forward(1);
    hwy::SetSupportedTargetsForTest(0);
    for (int64_t t = 0; t < 70; ++t) {
      EXPECT_EQ(std::isnan(run.o[static_cast<size_t>(t * 16)]), t >= 30) << t;
      EXPECT_EQ(std::isnan(run.lse[static_cast<size_t>(t)]), t >= 30) << t;
    }
  }
}

TEST(CpuFlashAttention, LseIsOptional) {
  const AttentionExtents e = extents_of(1, 20, 1, 1, 16);
  Passes<float> run(e, Layout::kMerged, 1);
  const std::vector<float> before = run.o;
  const Workspace workspace(flash_attention_forward_workspace_bytes(e, 1));
  flash_attention_forward<float>({e, readable(run.in.q), readable(run.in.k), readable(run.in.v),
                                  run.o_view(), nullptr, workspace.data(), 1});
  EXPECT_EQ(before, run.o);
}

TEST(CpuFlashAttention, VisitedScoresCountTheBlocksThatHoldAVisiblePair) {
  for (const int64_t sequence : {1, 15, 16, 17, 31, 64, 65, 128, 130, 257}) {
    for (const int64_t window : {-1, 0, 1, 2, 15, 16, 17, 18, 33, 64, 1000}) {  // -1: not causal
      const AttentionExtents e =
          extents_of(1, sequence, 1, 1, 8, window >= 0, std::max<int64_t>(0, window));
      int64_t want = 0;
      for (int64_t q0 = 0; q0 < sequence; q0 += 16) {
        const int64_t rows = std::min<int64_t>(16, sequence - q0);
        for (int64_t k0 = 0; k0 < sequence; k0 += 16) {
          bool any = false;
          for (int64_t i = q0; i < q0 + rows; ++i) {
            for (int64_t j = k0; j < std::min(k0 + 16, sequence); ++j)
              any = any || visible(e, i, j);
          }
          want += any ? rows * 16 : 0;
        }
      }
      EXPECT_EQ(flash_attention_visited_scores(e), want) << describe(e);
      EXPECT_EQ(flash_attention_backward_visited_scores(e), want) << describe(e);
    }
  }
  EXPECT_EQ(flash_attention_visited_scores(extents_of(1, 128, 1, 1, 64)), 36 * 256);
}

TEST(CpuFlashAttention, WorkspaceOfTheLargestExtentsDoesNotOverflow) {
  const AttentionExtents e = extents_of(1, int64_t{1} << 31, 256, 1, 256);
  EXPECT_GT(flash_attention_backward_workspace_bytes(e, 4096), int64_t{1} << 60);
}

TEST(CpuFlashAttention, RefusesExtentsThatBreakTheRules) {
  const auto refused = [](const std::function<void(AttentionExtents&)>& change, int threads = 1) {
    AttentionExtents e = extents_of(2, 4, 4, 2, 16);
    change(e);
    EXPECT_THROW(flash_attention_forward_workspace_bytes(e, threads), Error);
    EXPECT_THROW(flash_attention_backward_workspace_bytes(e, threads), Error);
    EXPECT_THROW(flash_attention_forward<float>({e, {}, {}, {}, {}, nullptr, nullptr, threads}),
                 Error);
  };
  const int64_t huge = std::numeric_limits<int64_t>::max();
  refused([](AttentionExtents& e) { e.batch = 0; });
  refused([](AttentionExtents& e) { e.sequence = 0; });
  refused([](AttentionExtents& e) { e.sequence = -1; });
  refused([&](AttentionExtents& e) { e.sequence = huge; });
  refused([&](AttentionExtents& e) { e.batch = huge; });
  refused([](AttentionExtents& e) { e.heads = 0; });
  refused([](AttentionExtents& e) { e.heads = 3; });
  refused([&](AttentionExtents& e) { e.heads = huge - 1; });
  refused([](AttentionExtents& e) {
    e.sequence = 1 << 30;
    e.heads = 1 << 16;
  });
  refused([](AttentionExtents& e) { e.kv_heads = 0; });
  refused([](AttentionExtents& e) { e.head_size = 0; });
  refused([](AttentionExtents& e) { e.head_size = 12; });
  refused([](AttentionExtents& e) { e.head_size = 264; });
  refused([](AttentionExtents& e) { e.window = -1; });
  refused([](AttentionExtents& e) {
    e.causal = false;
    e.window = 4;
  });
  refused([](AttentionExtents& e) { e.scale = std::nanf(""); });
  refused([](AttentionExtents&) {}, 0);
  refused([](AttentionExtents&) {}, 1 << 20);
}

}  // namespace
}  // namespace ridge::backends::cpu
