// SPDX-License-Identifier: Apache-2.0
// Published models against Hugging Face transformers, on all texts.
#include "serve/published_model_case.h"

namespace ridge::serve {
namespace {

using PublishedModelSlow = PublishedModelCase;

TEST_P(PublishedModelSlow, GivesTheSameLastLogits) { expect_last_logits(texts()); }
TEST_P(PublishedModelSlow, ContinuesAlike) { expect_continuations(texts()); }
TEST_P(PublishedModelSlow, FindsTextsAsLikely) { expect_likelihoods(texts()); }
TEST_P(PublishedModelSlow, LosesLittleByRoundingActivations) { expect_close_when_rounded(texts()); }

INSTANTIATE_TEST_SUITE_P(All,
                         PublishedModelSlow,
                         testing::ValuesIn(kPublished),
                         PublishedModelCase::name);

}  // namespace
}  // namespace ridge::serve
