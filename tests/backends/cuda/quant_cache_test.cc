// SPDX-License-Identifier: Apache-2.0
// KV caches of quants on a GPU: attention over them at many shapes against the double reference,
// what rope_append writes, and sessions whose results do not depend on chunks and batches.
#include <gtest/gtest.h>

#include <cmath>

#include "backends/cuda/gpu_session.h"
#include "backends/op_check.h"
#include "backends/op_samples.h"
#include "ops/kv_cache.h"
#include "serve/text_score.h"

namespace ridge::backends {
namespace {

struct QuantAttention {
  int64_t tokens, slots, per_slot, block, heads, kv_heads, head_size, window, context;
};

// Few tokens with keys split between blocks, wide and narrow heads with keys of their own or
// shared, rings that wrap around, tiles of chunks with several sequences and with lone tokens, more
// heads with keys of their own than run at once.
std::vector<Sample> attentions() {
  std::vector<Sample> all;
  for (DType cache : {DType::kBF16, DType::kI8, DType::kF8E4M3})
    for (const QuantAttention& r : {QuantAttention{1, 1, 1, 1500, 4, 4, 128, 0, 1500},
                                    QuantAttention{1, 1, 30, 16, 3, 1, 256, 0, 470},
                                    QuantAttention{3, 3, 1, 333, 2, 2, 80, 0, 333},
                                    QuantAttention{9, 9, 5, 48, 9, 3, 64, 100, 230},
                                    QuantAttention{33, 33, 1, 70, 4, 2, 48, 0, 70},
                                    QuantAttention{40, 40, 2, 64, 2, 2, 128, 0, 128},
                                    QuantAttention{150, 2, 5, 48, 4, 2, 128, 0, 200},
                                    QuantAttention{130, 1, 1, 260, 2, 1, 80, 0, 257},
                                    QuantAttention{200, 5, 2, 64, 2, 2, 256, 50, 128},
                                    QuantAttention{70, 69, 1, 96, 2, 1, 64, 0, 90},
                                    QuantAttention{27, 27, 1, 190, 10, 10, 128, 0, 180},
                                    QuantAttention{23, 23, 5, 16, 12, 12, 80, 30, 75},
                                    QuantAttention{17, 17, 2, 64, 16, 16, 256, 0, 120},
                                    QuantAttention{30, 30, 3, 48, 9, 9, 64, 0, 140}}) {
      const Shape shape{r.slots * r.per_slot, r.block, r.kv_heads, r.head_size};
      const CaseInput cells{{cache, shape}, {Fill::kNormal, 40, false}, false};
      const CaseInput wide{{cache, shape}, {Fill::kNormal, 1, false}, false};
      const bool scaled = ops::has_scales(cache);
      Case made{
          fmt::format("{}n{}e{}h{}k{}w{}", name(cache), r.tokens, r.head_size, r.heads, r.kv_heads,
                      r.window),
          {{{DType::kBF16, {r.tokens, r.heads, r.head_size}}, {Fill::kNormal, 1, false}, false},
           scaled ? cells : wide,
           scaled ? cells : wide,
           ops::sample_positions(r.tokens, r.context),
           ops::sample_slots(r.tokens, r.slots),
           ops::sample_block_table(r.slots, r.per_slot)},
          {{"window", r.window}, {"context", r.context}, {"scale", 0.2}}};
      const CaseInput scales{
          {DType::kF32, {shape[0], r.kv_heads, r.block}}, {Fill::kConstant, 0.02}, false};
      if (scaled) made.inputs.insert(made.inputs.end(), {scales, scales});
      all.push_back({&ops::table().at("cached_attention"), std::move(made)});
    }
  return all;
}

class GpuQuantAttention : public testing::TestWithParam<Sample> {};

TEST_P(GpuQuantAttention, MatchesTheReference) {
  const auto& [op, sample] = GetParam();
  const Variant variant{OperandForm::kPlain, DType::kF32, true, false};
  EXPECT_EQ("", check_values(*op, sample, ops::table(), variant, tested_backend(),
                             precision_of(*op, sample, variant)));
}

INSTANTIATE_TEST_SUITE_P(Shapes, GpuQuantAttention, testing::ValuesIn(attentions()), sample_name);

struct Appended {
  DType cache;
  int64_t tokens, heads, kv_heads, head_size;
  bool interleaved, norms;
};

// Runs a rope_append of tokens in two slots, and its reference.
class QuantAppend {
 public:
  explicit QuantAppend(const Appended& a) : made_(a) {
    Builder b(graph_, ops::table());
    const Type cache{a.cache, {2, kRing, a.kv_heads, a.head_size}};
    std::vector<ValueId> in{
        b.state("keys", cache),
        b.state("values", cache),
        b.input("merged", {DType::kBF16, {a.tokens, (a.heads + 2 * a.kv_heads) * a.head_size}}),
        b.input("cos", {DType::kF32, {a.tokens, a.head_size / 2}}),
        b.input("sin", {DType::kF32, {a.tokens, a.head_size / 2}}),
        b.input("positions", {DType::kI32, {a.tokens}}),
        b.input("slots", {DType::kI32, {a.tokens}}),
        b.input("table", {DType::kI32, {2, 1}})};
    if (a.norms)
      for (const char* weight : {"q_norm", "k_norm"})
        in.push_back(b.parameter(weight, {DType::kF32, {a.head_size}}));
    for (const char* scales : {"key_scales", "value_scales"})
      in.push_back(b.state(scales, ops::scales_of(cache)));
    graph_.outputs = b.call_all(
        "rope_append", in,
        {{"heads", a.heads}, {"interleaved", a.interleaved}, {"norms", a.norms}, {"eps", 1e-3}});
    Random random(5);
    for (const Value& value : graph_.values)
      if (value.producer == kNoNode) named_[value.name] = ops::draw(value.type, {}, random);
    for (size_t n = 0; n < static_cast<size_t>(a.tokens); ++n) {
      named_["positions"].data[n] = n == 1 ? -1 : static_cast<double>(n / 2);
      named_["slots"].data[n] = static_cast<double>(n % 2);
    }
    named_["table"].data = {1, 0};
  }

  // Each value is at most half a quant, and a rounding of the sums, from the exact one; what is not
  // written stays.
  void expect_rounded() {
    std::vector<Tensor64> got;
    GraphRun run(tested_backend(), lower(graph_, ops::table(), tested_backend()));
    ASSERT_EQ("", run_checked(run, named_, got));
    const ops::ReferenceRun reference(graph_, named_);
    for (size_t part : {size_t{0}, size_t{1}}) {
      const std::vector<double>&quants = got[part].data, &scales = got[3 + part].data,
            &want = reference[graph_.outputs[part]],
            &want_scales = reference[graph_.outputs[3 + part]];
      for (size_t i = 0; i < quants.size(); ++i) {
        const size_t width = static_cast<size_t>(made_.head_size),
                     kv_heads = static_cast<size_t>(made_.kv_heads);
        const size_t row = i / width / kv_heads, head = i / width % kv_heads;
        const size_t at = (row / kRing * kv_heads + head) * kRing + row % kRing;
        ASSERT_NEAR(scales[at], want_scales[at], 1e-5 * std::abs(want_scales[at])) << at;
        const double step = made_.cache == DType::kI8 ? 1 : std::max(std::abs(want[i]) / 8, 0x1p-9);
        ASSERT_LE(std::abs(quants[i] - want[i]), 1.001 * step) << part << " " << i;
        differing_ += quants[i] != want[i] ? 1 : 0;
        compared_ += 1;
      }
    }
    // A quant differs only where the exact value lies halfway between two.
    EXPECT_LE(differing_, compared_ / 500);
  }

 private:
  static constexpr int64_t kRing = 45;
  Appended made_;
  Graph graph_;
  ops::NamedTensors named_;
  int64_t differing_ = 0, compared_ = 0;
};

TEST(GpuQuantAppend, RoundsKeysAndValues) {
  for (DType cache : {DType::kI8, DType::kF8E4M3})
    for (const Appended& a :
         {Appended{cache, 5, 3, 1, 64, false, false}, Appended{cache, 3, 4, 2, 80, true, false},
          Appended{cache, 40, 8, 4, 128, false, true}, Appended{cache, 70, 2, 1, 256, false, false},
          Appended{cache, 64, 3, 3, 48, true, true}}) {
      SCOPED_TRACE(fmt::format("{} n{} e{}", name(a.cache), a.tokens, a.head_size));
      QuantAppend(a).expect_rounded();
    }
}

}  // namespace
}  // namespace ridge::backends

namespace ridge::serve {
namespace {

// Heads of 16 elements, and tokens past a window of the published models' tests.
class GpuQuantCache : public testing::TestWithParam<DType> {
 protected:
  GpuQuantCache()
      : file_(models::ModelFile::open(data_folder() + "llama_fp32")),
        ids_(ids_of(files::read_json(data_folder() + "llama_fp32/expected.json")["ids"][0])) {}

  SessionOptions options() const {
    SessionOptions made;
    made.capacity = 192;
    made.selection = passes::Selection("compiled", kNarrow);
    made.cache_dtype = GetParam();
    return made;
  }
  models::ModelFile file_;
  std::vector<int32_t> ids_;
};

TEST_P(GpuQuantCache, IsCloseToBf16) {
  SessionOptions wide = options();
  wide.cache_dtype = DType::kBF16;
  GpuSession exact(file_, wide), made(file_, options());
  const double want = score(exact.session, ids_).nll, got = score(made.session, ids_).nll;
  EXPECT_NE(got, want) << "the cache holds bf16";
  const double bound = GetParam() == DType::kI8 ? 0.01 : 0.03;
  EXPECT_NEAR(got / static_cast<double>(ids_.size()), want / static_cast<double>(ids_.size()),
              bound);
}

TEST_P(GpuQuantCache, IsTheSameInChunksAndInABatch) {
  GpuSession whole(file_, options());
  const std::vector<float> want = last_logits(whole.session, ids_);
  for (int64_t chunk : {1, 7, 33}) {
    SessionOptions cut = options();
    cut.chunk = chunk;
    GpuSession made(file_, cut);
    EXPECT_LE(largest_difference(last_logits(made.session, ids_), want), 0.06) << chunk;
  }
  SessionOptions two = options();
  two.slots = 2;
  two.chunk = 16;
  GpuSession batch(file_, two);
  // The prompt with these logits is the last one to end.
  const std::vector<int32_t> other(ids_.begin(), ids_.begin() + 9);
  batch.session.start(std::vector<Prompt>{{0, other, {}}, {1, ids_, {}}});
  EXPECT_LE(largest_difference(batch.session.logits(1), want), 0.06);
}

INSTANTIATE_TEST_SUITE_P(All, GpuQuantCache, testing::Values(DType::kI8, DType::kF8E4M3));

}  // namespace
}  // namespace ridge::serve
