// SPDX-License-Identifier: Apache-2.0
// The bounds of sampling options: the last value within each is taken, the next one is refused.
#include "serve/sampling.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "files/scratch.h"

namespace ridge::serve {
namespace {

template <typename T>
struct Bounds {
  const char* option;
  T SamplingOptions::*field;
  T least, most, step;

  void expect(T value, bool is_taken) const {
    SamplingOptions options;
    options.*field = value;
    if (is_taken)
      EXPECT_NO_THROW(validate(options)) << option << ' ' << value;
    else
      files::expect_error([&] { validate(options); }, ExitCode::kUsage,
                          std::string("[") + option + "] expected a number from ");
  }
  void expect_all() const {
    expect(least, true);
    expect(most, true);
    expect(least - step, false);
    expect(most + step, false);
  }
};

TEST(SamplingOptions, NumbersHaveBounds) {
  using Options = SamplingOptions;
  for (const Bounds<double>& each :
       {Bounds<double>{"temperature", &Options::temperature, 0, 100, 1e-9},
        {"top-p", &Options::top_p, 0, 1, 1e-9},
        {"min-p", &Options::min_p, 0, 1, 1e-9},
        {"repeat-penalty", &Options::repeat_penalty, 0.01, 100, 1e-9},
        {"presence-penalty", &Options::presence_penalty, -2, 2, 1e-9},
        {"frequency-penalty", &Options::frequency_penalty, -2, 2, 1e-9}}) {
    each.expect_all();
    each.expect(std::numeric_limits<double>::quiet_NaN(), false);
    each.expect(std::numeric_limits<double>::infinity(), false);
  }
  for (const Bounds<int64_t>& each :
       {Bounds<int64_t>{"top-k", &Options::top_k, 0, int64_t{1} << 24, 1},
        {"seed", &Options::seed, 0, UINT32_MAX, 1}})
    each.expect_all();
}

TEST(SamplingOptions, BiasesHaveBounds) {
  SamplingOptions options;
  options.logit_bias.assign(kMostLogitBiases, {1, 100});
  options.logit_bias.back().bias = -100;
  EXPECT_NO_THROW(validate(options));
  options.logit_bias.push_back({1, 0});
  files::expect_error([&] { validate(options); }, ExitCode::kUsage,
                      "[logit-bias] expected at most 1024 tokens, got 1025");
  for (const double bias : {-100.5, 100.5}) {
    options.logit_bias = {{1, 0}, {2, static_cast<float>(bias)}};
    files::expect_error([&] { validate(options); }, ExitCode::kUsage,
                        "[logit-bias] expected a number from -100 to 100");
  }
}

}  // namespace
}  // namespace ridge::serve
