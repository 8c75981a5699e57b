// SPDX-License-Identifier: Apache-2.0
// GEMMs and attention with fp32 operands in TF32 against the double reference, attention at the
// head sizes of models in every arithmetic, and fp32 GEMMs, losses and norm gradients at sizes that
// have specialized kernels.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>

#include "backends/cpu/cpu_backend.h"
#include "backends/op_check.h"
#include "backends/op_samples.h"
#include "ops/kv_cache.h"

namespace ridge::backends {
namespace {

// The tensor cores read 10 mantissa bits and truncate the rest. Attention truncates its
// probabilities in the same way.
constexpr Precision kTf32Steps{0x1p-10, 4};

Sample attention(const char* name,
                 int64_t tokens,
                 int64_t heads,
                 int64_t kv_heads,
                 int64_t head_size,
                 bool causal) {
  auto operand = [&](int64_t count) {
    return CaseInput{{DType::kF32, {tokens, count, head_size}}};
  };
  return {&ops::table().at("flash_attention"),
          {name,
           {operand(heads), operand(kv_heads), operand(kv_heads)},
           {{"sequence", tokens}, {"causal", causal}, {"window", int64_t{0}}, {"scale", 0.1}}}};
}

// Two rows of documents of one length; those of the second row begin in the middle of one.
Sample packed(const char* name,
              int64_t tokens,
              int64_t heads,
              int64_t kv_heads,
              int64_t head_size,
              int64_t window,
              int64_t document) {
  Sample made = attention(name, 2 * tokens, heads, kv_heads, head_size, true);
  made.sample.attrs = {{"sequence", tokens}, {"causal", true}, {"window", window}, {"scale", 0.1}};
  made.sample.inputs.push_back({{DType::kI32, {2 * tokens}},
                                {Fill::kPositions, static_cast<double>(document), false},
                                false});
  return made;
}

// Small enough for differences of the double reference.
std::vector<Sample> packed_sizes() {
  return {packed("e64", 97, 2, 1, 64, 0, 21), packed("e128", 70, 1, 1, 128, 0, 40),
          packed("e256", 70, 1, 1, 256, 0, 31), packed("e80window", 130, 1, 1, 80, 10, 41)};
}

// Documents shorter and longer than tiles, for each family of kernels: more than 512 keys are too
// many for the kernels for short sequences.
std::vector<Sample> large_packed_sizes() {
  return {packed("e64", 700, 4, 2, 64, 0, 150),     packed("e64long", 1100, 1, 1, 64, 0, 700),
          packed("e64single", 650, 1, 1, 64, 0, 1), packed("e64window", 700, 2, 1, 64, 100, 230),
          packed("e64short", 300, 2, 2, 64, 0, 77), packed("e128short", 250, 1, 1, 128, 0, 90),
          packed("e128", 650, 2, 1, 128, 0, 97),    packed("e128window", 650, 1, 1, 128, 70, 333),
          packed("e256", 400, 2, 1, 256, 0, 61),    packed("e256window", 330, 1, 1, 256, 65, 150),
          packed("e80", 330, 2, 1, 80, 0, 41),      packed("e64whole", 640, 1, 1, 64, 0, 5000)};
}

// The head sizes of the Hopper kernels and one in between; more keys than a tile holds; row counts
// around a block's, and more than the kernels for short sequences support.
std::vector<Sample> model_sizes() {
  return {attention("e64", 97, 2, 1, 64, true),      attention("e128", 140, 2, 1, 128, true),
          attention("e80", 70, 1, 1, 80, false),     attention("e256", 40, 1, 1, 256, true),
          attention("e64t1", 1, 2, 1, 64, true),     attention("e64t127", 127, 1, 1, 64, false),
          attention("e64t128", 128, 2, 1, 64, true), attention("e64t257", 257, 1, 1, 64, true),
          attention("e128t64", 64, 1, 1, 128, true), attention("e128t129", 129, 1, 1, 128, true)};
}

Sample product(const char* name, const char* einsum, Shape a, Shape b) {
  auto operand = [](const Shape& shape) { return CaseInput{{DType::kF32, shape}}; };
  return {&ops::table().at("matmul"),
          {name, {operand(a), operand(b)}, {{"einsum", einsum}, {"native", true}}}};
}

// Each operand in either storage order, tiles that are not full, a depth that a cluster shares, and
// adding to the output.
std::vector<Sample> large_products() {
  std::vector<Sample> all = {product("along_along", "nd,fd->nf", {200, 328}, {132, 328}),
                             product("along_across", "nf,fd->nd", {130, 192}, {192, 260}),
                             product("across_across", "nf,nd->fd", {136, 132}, {136, 196}),
                             product("across_along", "nf,dn->fd", {192, 64}, {68, 192}),
                             product("deep", "nd,fd->nf", {128, 2048}, {64, 2048}),
                             product("deep_across", "nf,fd->nd", {128, 2048}, {2048, 64}),
                             product("deep_gradient", "nf,nd->fd", {2000, 128}, {2000, 68}),
                             product("accumulate", "nf,nd->fd", {260, 132}, {260, 132})};
  all.back().sample.inputs.push_back({{DType::kF32, {132, 132}}});
  return all;
}

// Scores and products with a KV cache on the tensor cores: lone tokens, sequences side by side in
// a tile, padding, rings of several blocks, heads that share keys, and columns that are not whole
// vectors.
std::vector<Sample> cached_products() {
  struct CachedAttentionExtents {
    int64_t tokens, slots, per_slot, block, heads, kv_heads, head_size, columns;
  };
  std::vector<Sample> all;
  for (const char* op : {"cached_scores", "cached_mix"})
    for (const CachedAttentionExtents& r :
         {CachedAttentionExtents{1, 1, 3, 128, 4, 4, 128, 300},
          CachedAttentionExtents{24, 24, 1, 80, 2, 1, 64, 80},
          CachedAttentionExtents{40, 7, 9, 16, 4, 2, 256, 136},
          CachedAttentionExtents{150, 2, 5, 48, 4, 2, 128, 200},
          CachedAttentionExtents{130, 1, 1, 260, 2, 1, 80, 257},
          CachedAttentionExtents{200, 5, 2, 64, 2, 2, 256, 128}}) {
      const bool mix = std::string_view(op) == "cached_mix";
      all.push_back({&ops::table().at(op),
                     {fmt::format("n{}s{}e{}c{}", r.tokens, r.slots, r.head_size, r.columns),
                      {{{DType::kF32, {r.tokens, r.heads, mix ? r.columns : r.head_size}},
                        {Fill::kNormal, 1, false}},
                       {{DType::kF32, {r.slots * r.per_slot, r.block, r.kv_heads, r.head_size}},
                        {Fill::kNormal, 1, false}},
                       ops::sample_positions(r.tokens, r.columns),
                       ops::sample_slots(r.tokens, r.slots),
                       ops::sample_block_table(r.slots, r.per_slot)},
                      {}}});
      if (!mix) all.back().sample.attrs.set("columns", r.columns);
    }
  return all;
}

std::vector<Sample> samples() {
  std::vector<Sample> all = model_sizes();
  for (Sample& each : packed_sizes()) all.push_back(std::move(each));
  for (Sample& each : large_products()) all.push_back(std::move(each));
  for (Sample& each : all_samples())
    if (each.op->name == "matmul" || each.op->name == "flash_attention")
      all.push_back(std::move(each));
  return all;
}

class GpuTf32 : public testing::TestWithParam<Sample> {
 protected:
  static Backend& backend() {
    static std::unique_ptr<Backend> instance =
        cuda::make_cuda_backend({true, false, false, false, ""});
    return *instance;
  }
};

TEST_P(GpuTf32, ValuesMatchTheReference) {
  const auto& [op, sample] = GetParam();
  EXPECT_EQ("", check_values(*op, sample, ops::table(), {}, backend(), kTf32Steps));
}

TEST_P(GpuTf32, GradientsMatchTheReference) {
  const auto& [op, sample] = GetParam();
  if (op->name != "flash_attention") GTEST_SKIP() << "a product's gradient is two products";
  EXPECT_EQ("", check_gradient(*op, sample, ops::table(), {}, backend(), kTf32Steps));
}

class GpuAttention : public testing::TestWithParam<Sample> {};

TEST_P(GpuAttention, MatchesTheReference) {
  const auto& [op, sample] = GetParam();
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    Variant variant{OperandForm::kPlain, dtype, false, false};
    SCOPED_TRACE(variant.str());
    const Precision& precision = dtype == DType::kF32 ? kFloatArithmetic : kBf16Steps;
    EXPECT_EQ("", check_values(*op, sample, ops::table(), variant, tested_backend(), precision));
    EXPECT_EQ("", check_gradient(*op, sample, ops::table(), variant, tested_backend(), precision));
  }
}

// The gradients of q, k and v on a backend.
std::vector<Tensor64> gradients_on(Backend& backend,
                                   const Sample& each,
                                   const Variant& variant,
                                   const std::function<void(ops::NamedTensors&)>& change) {
  Differentiated made = differentiate_sample(*each.op, each.sample, ops::table(), variant, backend);
  change(made.named);
  GraphRun run(backend, lower(without_dead_nodes(made.backward), ops::table(), backend));
  run.write(made.named);
  run.run();
  return run.outputs();
}

// The number of each token's document, for packed rows of `sequence` tokens.
std::vector<int64_t> documents_of(const ops::NamedTensors& named, int64_t sequence) {
  std::vector<int64_t> documents;
  for (const auto& [name, tensor] : named) {
    if (tensor.type.dtype != DType::kI32) continue;
    int64_t document = -1;
    for (const double position : tensor.data) {
      if (position == 0 || std::ssize(documents) % sequence == 0) ++document;
      documents.push_back(document);
    }
  }
  return documents;
}

// Kernels of packed rows at sizes that are too large for differences of the double reference.
class GpuPackedAttention : public testing::TestWithParam<Sample> {
 protected:
  struct Form {
    Backend& backend;
    DType dtype;
    double unit;
  };
  static std::vector<Form> forms() {
    static const std::unique_ptr<Backend> tf32 =
        cuda::make_cuda_backend({true, false, false, false, ""});
    return {{tested_backend(), DType::kF32, 0x1p-20},
            {*tf32, DType::kF32, 0x1p-10},
            {tested_backend(), DType::kBF16, 0x1p-8}};
  }
};

TEST_P(GpuPackedAttention, GradientsAreThoseOfTheCpu) {
  const auto cpu = cpu::make_cpu_backend({});
  const auto same = [](ops::NamedTensors&) {};
  for (const Form& form : forms()) {
    const Variant variant{OperandForm::kPlain, form.dtype, false, false};
    const std::vector<Tensor64> want = gradients_on(*cpu, GetParam(), variant, same),
                                got = gradients_on(form.backend, GetParam(), variant, same);
    ASSERT_EQ(got.size(), want.size());
    double top = 0;  // all count, for the gradient of a query that attends to itself alone is 0
    for (const Tensor64& each : want) top = std::max(top, largest(each.data));
    for (size_t o = 0; o < want.size(); ++o) {
      const double allowed = 6 * form.unit * top;
      for (size_t i = 0; i < want[o].data.size(); ++i)
        ASSERT_NEAR(got[o].data[i], want[o].data[i], allowed)
            << "unit " << form.unit << ", output " << o << ", element " << i;
    }
  }
}

// A score of another document has no weight at all, whatever is there.
TEST_P(GpuPackedAttention, OtherDocumentsDoNotChangeABit) {
  const auto sequence = GetParam().sample.attrs.integer("sequence");
  for (const Form& form : forms()) {
    const Variant variant{OperandForm::kPlain, form.dtype, false, false};
    std::vector<int64_t> documents;
    const auto changed = [&](bool is_odd) {
      return [&, is_odd](ops::NamedTensors& named) {
        documents = documents_of(named, sequence);
        const auto tokens = std::ssize(documents);
        for (auto& [name, tensor] : named) {
          if (!is_float(tensor.type.dtype)) continue;
          const int64_t row = std::ssize(tensor.data) / tokens;
          for (int64_t i = 0; i < std::ssize(tensor.data); ++i)
            if (documents[static_cast<size_t>(i / row)] % 2 == (is_odd ? 1 : 0))
              tensor.data[static_cast<size_t>(i)] *= 8;
        }
      };
    };
    const std::vector<Tensor64> plain =
        gradients_on(form.backend, GetParam(), variant, [](ops::NamedTensors&) {});
    for (const bool is_odd : {false, true}) {
      const std::vector<Tensor64> got =
          gradients_on(form.backend, GetParam(), variant, changed(is_odd));
      for (size_t o = 0; o < plain.size(); ++o) {
        const size_t row = plain[o].data.size() / documents.size();
        for (size_t i = 0; i < plain[o].data.size(); ++i) {
          if (documents[i / row] % 2 == (is_odd ? 1 : 0)) continue;
          ASSERT_EQ(got[o].data[i], plain[o].data[i])
              << "unit " << form.unit << ", output " << o << ", element " << i;
        }
      }
    }
  }
}

class GpuProducts : public testing::TestWithParam<Sample> {};

TEST_P(GpuProducts, MatchTheReference) {
  const auto& [op, sample] = GetParam();
  EXPECT_EQ("", check_values(*op, sample, ops::table(), {}, tested_backend(), kFloatArithmetic));
}

// Operands that cannot be split into bf16 pieces: infinities, NaN, and the largest floats, which
// bf16 rounds to infinity.
TEST(GpuOwnProducts, TakeWhatIsNotFinite) {
  constexpr double kInfinity = std::numeric_limits<float>::infinity();
  for (const Sample& each : large_products()) {
    SCOPED_TRACE(each.sample.name);
    SampleGraph built(*each.op, each.sample, ops::table(), {});
    std::vector<ops::NamedTensors::iterator> operands;
    for (auto at = built.named().begin(); at != built.named().end(); ++at) operands.push_back(at);
    std::vector<double>&a = operands[0]->second.data, &b = operands[1]->second.data;
    a[70] = kInfinity, a[900] = -kInfinity, b[1333] = kInfinity, b[2000] = 0, b[70] = 0;
    a[3000] = std::numeric_limits<float>::quiet_NaN(), a[4001] = 3.4e38, b[3500] = 1e-3;
    std::vector<Tensor64> want = ops::ReferenceRun(built.graph(), built.named()).outputs();
    GraphRun run(tested_backend(), lower(built.graph(), ops::table(), tested_backend()));
    run.write(built.named());
    run.run();
    std::vector<double> got = run.outputs()[0].data;
    int64_t special = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      double x = want[0].data[i];
      if (std::isfinite(x) && std::abs(x) < 1e37) continue;
      ++special;
      if (std::isnan(x))
        EXPECT_TRUE(std::isnan(got[i])) << i << ": " << got[i];
      else if (std::abs(x) > std::numeric_limits<float>::max())
        EXPECT_EQ(got[i], std::copysign(kInfinity, x)) << i;
      else
        EXPECT_NEAR(got[i], x, std::abs(x) * 1e-5) << i;
    }
    EXPECT_GT(special, 100);
  }
}

Sample norm_gradient(const char* name, Shape shape, bool residual) {
  CaseInput x{{DType::kF32, shape}}, weight{{DType::kF32, {shape[1]}}, {}, false};
  CaseInput rstd{{DType::kF32, {shape[0], 1}}, {Fill::kPositive}, false};
  std::vector<CaseInput> inputs{x, x, weight, rstd};
  if (residual) inputs.push_back(x);
  return {&ops::table().at("rms_norm_backward"), {name, inputs, {{"offset", 0.0}}}};
}

// Rows that are whole vectors: few rows, for which the weight's gradient has separate blocks, and
// many.
std::vector<Sample> norm_gradients() {
  return {norm_gradient("few", {40, 72}, false),
          norm_gradient("few_residual", {300, 200}, true),
          norm_gradient("many", {2050, 40}, false),
          norm_gradient("many_residual", {2050, 520}, true),
          norm_gradient("groups_of_a_block", {2051, 1024}, true),
          norm_gradient("two_vectors", {2051, 2048}, false)};
}

void expect_reference_values(const Sample& tried, bool fused) {
  const auto& [op, sample] = tried;
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    Variant variant{OperandForm::kPlain, dtype, fused, false};
    SCOPED_TRACE(variant.str());
    EXPECT_EQ("", check_values(*op, sample, ops::table(), variant, tested_backend(),
                               precision_of(*op, sample, variant)));
  }
}

class GpuNorms : public testing::TestWithParam<Sample> {};

TEST_P(GpuNorms, GradientMatchesTheReference) { expect_reference_values(GetParam(), false); }

// Rows that a warp holds in one to four vectors per lane, one or several rows per warp and more
// than it has lanes, and longer rows.
std::vector<Sample> losses() {
  std::vector<Sample> all;
  for (const Shape& shape : {Shape{40, 1000}, Shape{9000, 40}, Shape{140'000, 8}, Shape{300, 200},
                             Shape{300, 600}, Shape{60, 5000}}) {
    CaseInput labels{{DType::kI32, {shape[0]}}, {Fill::kIds, static_cast<double>(shape[1]), false}};
    all.push_back(
        {&ops::table().at("softmax_cross_entropy"),
         {fmt::format("{}x{}", shape[0], shape[1]), {{{DType::kF32, shape}}, labels}, {}}});
  }
  return all;
}

class GpuLosses : public testing::TestWithParam<Sample> {};

TEST_P(GpuLosses, MatchTheReference) { expect_reference_values(GetParam(), true); }

TEST_P(GpuLosses, LeaveRowsWithoutLabelOut) {
  const auto& [op, sample] = GetParam();
  SampleGraph built(*op, sample, ops::table(), {OperandForm::kPlain, DType::kBF16, true, false});
  for (auto& [name, tensor] : built.named())
    if (tensor.type.shape.rank() == 1)
      for (size_t row = 0; row < tensor.data.size(); row += 3) tensor.data[row] = -1;
  std::vector<Tensor64> want = ops::ReferenceRun(built.graph(), built.named()).outputs();
  GraphRun run(tested_backend(), lower(built.graph(), ops::table(), tested_backend()));
  run.write(built.named());
  for (int round = 0; round < 2; ++round) {  // the counter of blocks is reset
    run.run();
    EXPECT_NEAR(run.outputs()[0].data[0], want[0].data[0], 1e-3 * want[0].data[0]);
    EXPECT_EQ(run.outputs()[2].data[0], want[2].data[0]);
  }
}

class GpuCachedProducts : public testing::TestWithParam<Sample> {};

TEST_P(GpuCachedProducts, MatchTheReference) { expect_reference_values(GetParam(), false); }

// More tokens than a grid has blocks along y or z, each the only one of its sequence in a tile.
TEST(GpuCachedAttention, TakesMoreThan65535LoneTokens) {
  constexpr int64_t kTokens = 70'000, kSlots = 70, kRing = 16;
  for (const int64_t heads : {1, 2}) {
    const auto operand = [](const Shape& shape) {
      return CaseInput{{DType::kF32, shape}, {Fill::kNormal, 1, false}};
    };
    const Sample sample{&ops::table().at("cached_attention"),
                        {fmt::format("h{}", heads),
                         {operand({kTokens, heads, 8}), operand({kSlots, kRing, 1, 8}),
                          operand({kSlots, kRing, 1, 8}), ops::sample_positions(kTokens, kRing),
                          ops::sample_slots(kTokens, kSlots), ops::sample_block_table(kSlots, 1)},
                         {{"window", int64_t{0}}, {"context", kRing}, {"scale", 0.35}}}};
    const Variant variant{OperandForm::kPlain, DType::kBF16, false, false};
    EXPECT_EQ("", check_values(*sample.op, sample.sample, ops::table(), variant, tested_backend(),
                               precision_of(*sample.op, sample.sample, variant)));
  }
}

INSTANTIATE_TEST_SUITE_P(Large,
                         GpuCachedProducts,
                         testing::ValuesIn(cached_products()),
                         sample_name);
INSTANTIATE_TEST_SUITE_P(Rows, GpuLosses, testing::ValuesIn(losses()), sample_name);
INSTANTIATE_TEST_SUITE_P(Rows, GpuNorms, testing::ValuesIn(norm_gradients()), sample_name);
INSTANTIATE_TEST_SUITE_P(Large, GpuProducts, testing::ValuesIn(large_products()), sample_name);
INSTANTIATE_TEST_SUITE_P(ModelSizes, GpuAttention, testing::ValuesIn(model_sizes()), sample_name);
INSTANTIATE_TEST_SUITE_P(PackedSizes, GpuAttention, testing::ValuesIn(packed_sizes()), sample_name);
INSTANTIATE_TEST_SUITE_P(Large,
                         GpuPackedAttention,
                         testing::ValuesIn(large_packed_sizes()),
                         sample_name);
INSTANTIATE_TEST_SUITE_P(All, GpuTf32, testing::ValuesIn(samples()), sample_name);

}  // namespace
}  // namespace ridge::backends
