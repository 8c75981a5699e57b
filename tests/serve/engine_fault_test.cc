// SPDX-License-Identifier: Apache-2.0
// Some calls of the engine's thread that allocate throw once; engine_fault_slow_test.cc has all of
// them.
#include "serve/engine_fault_case.h"

namespace ridge::serve {
namespace {

using EngineFaultTest = EngineFaultCase;

TEST_P(EngineFaultTest, EachEndsAtMostOneRequest) { try_each(23); }
TEST_P(EngineFaultTest, ManyInARowEndRequestsAndNothingElse) { try_many_in_a_row(71); }

// Nothing else runs, so each fault is that of the only request, which is admitted first.
TEST_P(EngineFaultTest, EachEndsTheOnlyRequest) {
  const Request only{.prompt = ids(3, 35), .max_tokens = 2, .ignores_end = true};
  for (int i = 0; i < 2; ++i) AnswerReader(*engine_, only).finished();  // binds the graphs
  int64_t number = 1;
  for (bool has_failed = true; has_failed && !HasFailure(); ++number) {
    SCOPED_TRACE(number);
    const auto gate = std::make_shared<Gate>([=] { number_allocations(number, 1); });
    gate->open();
    AnswerReader before(*engine_, {.prompt = ids(0, 40), .max_tokens = 1}, gate);
    before.finished();
    await_idle();
    const int64_t errors_before = engine_->counts().internal_errors;
    AnswerReader reader(*engine_, only);
    const Delta& answer = reader.finished();
    await_idle();
    has_failed = end_numbering() >= number;
    EXPECT_EQ(answer.finish, has_failed ? Finish::kFailed : Finish::kLength);
    EXPECT_EQ(answer.error.empty(), !has_failed);
    EXPECT_EQ(engine_->counts().internal_errors - errors_before, has_failed ? 1 : 0);
    EXPECT_EQ(engine_->counts().blocks_in_use, 0);
  }
  EXPECT_GT(number, 20);
}

INSTANTIATE_TEST_SUITE_P(All, EngineFaultTest, testing::ValuesIn(kEngineCases));

}  // namespace
}  // namespace ridge::serve
