// SPDX-License-Identifier: Apache-2.0
// Answers that end by an error, also where no memory is left for its text, and the mailbox that
// requests come through.
#include "serve/answer_writer.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "serve/allocations.h"
#include "serve/bytes_tokenizer.h"
#include "serve/real_model.h"

namespace ridge::serve {
namespace {

// Lets the first allocation fail of what a thread of its own does. Returns how many it made.
int64_t allocations_of(const std::function<void()>& act) {
  int64_t count = 0;
  std::thread([&] {
    number_allocations(1, 1);
    act();
    count = end_numbering();
  }).join();
  return count;
}

class AnswerWriterTest : public testing::Test {
 protected:
  static SessionOptions options() {
    SessionOptions made = at_level("compiled", 16);
    made.prefix_caching = true;
    return made;
  }
  // A request of two ids whose answer goes to the queue, as the engine's thread gets it.
  std::unique_ptr<EngineSequence> submitted() {
    Request request;
    request.prompt = {1, 2};
    request.max_tokens = 4;
    auto sequence = std::make_unique<EngineSequence>(std::move(request), tokenizer_);
    sequence->output = output_;
    EXPECT_EQ(mailbox_.submit(std::move(sequence)).refusal, Refusal::kNone);
    Mailbox::Mail mail;
    EXPECT_TRUE(mailbox_.take(true, {}, mail));
    return std::move(mail.submitted.at(0));
  }

  models::ModelFile file_ = models::ModelFile::open(data_folder() + "llama_fp32");
  text::Tokenizer tokenizer_ = bytes_tokenizer(file_.config().vocabulary);
  Session session_{file_, options(), cpu_backend()};
  EngineMetrics metrics_{session_, nullptr};
  Mailbox mailbox_{2, metrics_.log()};
  Scheduler scheduler_{session_, metrics_};
  AnswerWriter writer_{session_, scheduler_, mailbox_, metrics_};
  int woken_ = 0;
  std::shared_ptr<OutputQueue> output_ = std::make_shared<OutputQueue>([this] { ++woken_; });
};

const std::string kReason = "[model] expected an error of so many letters that no string keeps it";

TEST_F(AnswerWriterTest, RefusesWithTheReason) {
  const auto sequence = submitted();
  EXPECT_EQ(mailbox_.queued_and_open(), (std::pair<int64_t, int64_t>{1, 1}));
  writer_.refuse(*sequence, Error(kReason));
  EXPECT_TRUE(sequence->has_ended);
  EXPECT_EQ(mailbox_.queued_and_open(), (std::pair<int64_t, int64_t>{0, 0}));
  EXPECT_EQ(woken_, 0);
  writer_.wake_readers();
  writer_.wake_readers();
  EXPECT_EQ(woken_, 1);
  const Delta answer = output_->take();
  EXPECT_EQ(answer.finish, Finish::kFailed);
  EXPECT_EQ(answer.error, kReason);
  ASSERT_NE(answer.metrics, nullptr);
  EXPECT_EQ(answer.metrics->later_tokens, 0);
  EXPECT_EQ(metrics_.counts().internal_errors, 0);
}

TEST_F(AnswerWriterTest, FailsOnceForAFaultOfItsOwn) {
  const auto sequence = submitted();
  writer_.fail(*sequence, Error(kReason));
  EXPECT_EQ(metrics_.counts().internal_errors, 1);
  EXPECT_EQ(output_->take().error, kReason);
  writer_.fail(*sequence, Error("another one"));
  EXPECT_EQ(metrics_.counts().internal_errors, 2);
  EXPECT_EQ(output_->take().finish, Finish::kNone) << "it has ended";
}

TEST_F(AnswerWriterTest, SaysThatMemoryIsLackingForTheReason) {
  const auto sequence = submitted();
  const Error error(kReason);
  EXPECT_GT(allocations_of([&] { writer_.refuse(*sequence, error); }), 1);
  const Delta answer = output_->take();
  EXPECT_EQ(answer.finish, Finish::kFailed);
  EXPECT_EQ(answer.error, "out of memory");
  EXPECT_EQ(metrics_.counts().internal_errors, 0);
}

// The request fails, and its reader is woken at once.
TEST_F(AnswerWriterTest, FailsWhereMemoryIsLackingForTheEnd) {
  const auto sequence = submitted();
  const Error error("short");
  allocations_of([&] { writer_.refuse(*sequence, error); });
  const Delta answer = output_->take();
  EXPECT_EQ(answer.finish, Finish::kFailed);
  EXPECT_EQ(answer.error, "std::bad_alloc");
  EXPECT_EQ(answer.metrics, nullptr);
  EXPECT_EQ(woken_, 1);
  EXPECT_TRUE(sequence->has_ended);
  EXPECT_EQ(metrics_.counts().internal_errors, 1);
}

TEST_F(AnswerWriterTest, TakesNoTokenForOneThatIsNotFinite) {
  const auto sequence = submitted();
  writer_.accept(*sequence, -1);
  const Delta answer = output_->take();
  EXPECT_EQ(answer.finish, Finish::kFailed);
  EXPECT_EQ(answer.error, "[model] expected finite logits, got nan or infinity");
  EXPECT_EQ(answer.tokens, 0);
  EXPECT_EQ(sequence->generated(), 0);
}

TEST_F(AnswerWriterTest, TheMailboxForgetsWhatItHasNoMemoryFor) {
  Mailbox::Mail mail;
  EXPECT_EQ(allocations_of([&] { mailbox_.cancel(7); }), 1);
  EXPECT_TRUE(mailbox_.take(true, {}, mail));
  EXPECT_TRUE(mail.cancelled.empty());
  mailbox_.cancel(8);
  EXPECT_TRUE(mailbox_.take(false, std::chrono::hours(1), mail)) << "it is woken";
  EXPECT_EQ(mail.cancelled, std::vector<uint64_t>{8});
}

TEST_F(AnswerWriterTest, TheMailboxHoldsSoManyRequests) {
  const auto first = submitted(), second = submitted();
  EXPECT_EQ(first->id, 1u);
  EXPECT_EQ(second->id, 2u);
  Request request;
  const auto refused = [&] {
    const RequestHandle handle =
        mailbox_.submit(std::make_unique<EngineSequence>(request, tokenizer_));
    EXPECT_EQ(handle.id == 0, handle.refusal != Refusal::kNone);
    return handle.refusal;
  };
  EXPECT_EQ(refused(), Refusal::kFull);
  mailbox_.count_admitted();
  EXPECT_EQ(mailbox_.queued_and_open(), (std::pair<int64_t, int64_t>{1, 2}));
  mailbox_.count_ended(true);
  EXPECT_EQ(mailbox_.queued_and_open(), (std::pair<int64_t, int64_t>{1, 1}));
  EXPECT_EQ(refused(), Refusal::kNone);
  mailbox_.count_ended(false);
  EXPECT_EQ(mailbox_.queued_and_open(), (std::pair<int64_t, int64_t>{1, 1}));
  mailbox_.close(false);
  EXPECT_EQ(refused(), Refusal::kDraining);
}

TEST_F(AnswerWriterTest, TheMailboxTakesNoUsesOnceItStops) {
  const auto task = [] { return std::packaged_task<void()>([] {}); };
  Mailbox::Mail mail;
  mailbox_.close(false);
  std::future<void> done = mailbox_.use(task());
  EXPECT_TRUE(mailbox_.take(false, std::chrono::hours(1), mail)) << "it goes on";
  ASSERT_EQ(mail.uses.size(), 1u);
  mail.uses[0]();
  EXPECT_NO_THROW(done.get());
  mailbox_.close(true);
  mailbox_.close(false);
  done = mailbox_.use(task());
  EXPECT_THROW(done.get(), std::future_error);
  EXPECT_FALSE(mailbox_.take(false, std::chrono::hours(1), mail));
  EXPECT_TRUE(mail.uses.empty());
}

}  // namespace
}  // namespace ridge::serve
