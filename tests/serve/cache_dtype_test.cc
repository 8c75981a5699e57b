// SPDX-License-Identifier: Apache-2.0
// Sessions whose KV cache is narrower than fp32: their logits are close to those of an fp32 cache,
// and do not depend on chunks, batch, rewinds, level or the order in which tokens came.
#include <gtest/gtest.h>

#include "base/error.h"
#include "serve/real_model.h"
#include "serve/text_score.h"

namespace ridge::serve {
namespace {

struct CacheModel {
  const char* name;
  DType dtype;
};

// Far longer than the window of 16, so that rings wrap around.
constexpr size_t kTokens = 80;

class CacheDtype : public testing::TestWithParam<CacheModel> {
 protected:
  CacheDtype()
      : file_(models::ModelFile::open(data_folder() + GetParam().name)),
        expected_(files::read_json(data_folder() + GetParam().name + "/expected.json")),
        ids_(ids_of(expected_["ids"][0])),
        other_(ids_of(expected_["ids"][1])) {
    text_ = ids_;
    text_.insert(text_.end(), other_.begin(), other_.end());
    text_.resize(std::min<size_t>(text_.size(), kTokens));
  }

  SessionOptions options(const std::string& level = "compiled") {
    SessionOptions options = at_level(level, 192);
    options.cache_dtype = GetParam().dtype;
    return options;
  }
  Session session(const SessionOptions& options) { return Session(file_, options, cpu_backend()); }

  // Sums in another order move a key or value by 1e-6 of itself. A few of them then round to the
  // neighbor: bf16's is 2^-8 and i8's 1/127 of a head's largest away. The logits of these models,
  // which are about 1, follow by less than the rounding of all of them moves them.
  double same() const { return GetParam().dtype == DType::kBF16 ? 2e-3 : 4e-3; }

  models::ModelFile file_;
  nlohmann::json expected_;
  std::vector<int32_t> ids_, other_, text_;
};

TEST_P(CacheDtype, IsCloseToFp32) {
  SessionOptions wide = options();
  wide.cache_dtype = DType::kF32;
  Session exact = session(wide), made = session(options());
  const std::vector<float> logits = last_logits(exact, text_);
  const double distance = largest_difference(last_logits(made, text_), logits);
  const auto [low, high] = std::minmax_element(logits.begin(), logits.end());
  EXPECT_GT(distance, 0) << "the cache holds fp32";
  EXPECT_LT(distance, 1e-2 * (*high - *low));
  const Likelihood want = score(exact, text_), got = score(made, text_);
  EXPECT_EQ(got.tokens, want.tokens);
  EXPECT_NE(got.nll, want.nll);
  EXPECT_NEAR(got.nll / static_cast<double>(got.tokens),
              want.nll / static_cast<double>(want.tokens), 1e-3);
}

TEST_P(CacheDtype, IsTheSameInChunks) {
  Session whole = session(options());
  const std::vector<float> want = last_logits(whole, text_);
  const double nll = score(whole, text_).nll;
  for (int64_t chunk : {1, 7, 16, 33}) {
    SessionOptions cut = options();
    cut.chunk = chunk;
    Session made = session(cut);
    EXPECT_LE(largest_difference(last_logits(made, text_), want), same()) << "chunks of " << chunk;
    EXPECT_NEAR(score(made, text_).nll, nll, same() * kTokens) << "chunks of " << chunk;
  }
}

TEST_P(CacheDtype, IsTheSameInABatch) {
  SessionOptions three = options();
  three.slots = 3;
  three.chunk = 16;  // prompts share chunks
  Session batch = session(three);
  const std::vector<int32_t> shorter(ids_.begin(), ids_.begin() + 5);
  const std::vector<Prompt> prompts{{2, ids_, {}}, {0, other_, {}}, {1, shorter, {}}};
  std::vector<int32_t> tokens = batch.start(prompts);
  const std::vector<int64_t> slots{2, 0, 1};
  std::vector<std::vector<int32_t>> made(3);
  for (int i = 0; i < 30; ++i) {
    for (size_t s = 0; s < 3; ++s) made[s].push_back(tokens[s]);
    batch.step(slots, tokens);
  }
  for (size_t s = 0; s < 3; ++s) {
    // The same tokens, in one sequence by itself.
    std::vector<int32_t> all(prompts[s].ids.begin(), prompts[s].ids.end());
    all.insert(all.end(), made[s].begin(), made[s].end());
    Session alone = session(options());
    EXPECT_LE(largest_difference(last_logits(alone, all), batch.logits(slots[s])), same());
  }
}

TEST_P(CacheDtype, IsTheSameAtEachLevel) {
  Session compiled = session(options());
  const std::vector<float> want = last_logits(compiled, text_);
  for (const char* level : {"baseline", "fused", "kernels"}) {
    Session made = session(options(level));
    EXPECT_LE(largest_difference(last_logits(made, text_), want), same()) << level;
  }
}

TEST_P(CacheDtype, RewindsToTheSameBits) {
  Session made = session(options());
  const Prompt prompt{0, ids_, {}};
  std::vector<int32_t> tokens = made.start({&prompt, 1});
  const int32_t first = tokens[0];
  const int64_t slot = 0;
  made.step({&slot, 1}, tokens);
  const std::vector<float> want = made.logits(0);
  made.rewind(0, static_cast<int64_t>(ids_.size()));
  EXPECT_EQ(made.start({&prompt, 1})[0], first);
  made.step({&slot, 1}, tokens);
  EXPECT_EQ(largest_difference(made.logits(0), want), 0);
}

INSTANTIATE_TEST_SUITE_P(All,
                         CacheDtype,
                         testing::Values(CacheModel{"llama_fp32", DType::kBF16},
                                         CacheModel{"llama_fp32", DType::kI8},
                                         CacheModel{"gemma3_bf16", DType::kBF16},
                                         CacheModel{"gemma3_bf16", DType::kI8}));

TEST(CacheDtypes, ActivationsInBf16KeepTheirOwnType) {
  models::ModelFile file = models::ModelFile::open(data_folder() + "llama_fp32");
  SessionOptions options;
  options.capacity = 32;
  options.selection = passes::Selection("compiled", "-tune_gemm,+autocast_bf16");
  EXPECT_EQ(checked(options, file.config()).cache_dtype, DType::kBF16);
  const std::vector<int32_t> ids{1, 2, 3};
  Session plain(file, options, cpu_backend());
  const std::vector<float> want = last_logits(plain, ids);
  options.cache_dtype = DType::kBF16;
  Session named(file, options, cpu_backend());
  EXPECT_EQ(largest_difference(last_logits(named, ids), want), 0);
  for (DType dtype : {DType::kF32, DType::kF16}) {
    options.cache_dtype = dtype;
    EXPECT_THROW(Session(file, options, cpu_backend()), Error) << name(dtype);
  }
  options.selection = passes::Selection("compiled", "-tune_gemm");
  options.cache_dtype = DType::kF16;
  EXPECT_THROW(Session(file, options, cpu_backend()), Error);
}

}  // namespace
}  // namespace ridge::serve
