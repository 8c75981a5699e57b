// SPDX-License-Identifier: Apache-2.0
// A call of the engine's thread that allocates throws: at most one request fails, the fault is
// counted, and all others get the text that they get without it. The tests of one program say how
// many of the calls they try.
#pragma once

#include <gtest/gtest.h>

#include "serve/allocations.h"
#include "serve/answer_reader.h"
#include "serve/bytes_tokenizer.h"
#include "serve/engine.h"
#include "serve/real_model.h"

namespace ridge::serve {
class EngineFaultCase : public testing::TestWithParam<EngineCase> {
 protected:
  EngineFaultCase()
      : file_(models::ModelFile::open(data_folder() + GetParam().model)),
        tokenizer_(bytes_tokenizer(file_.config().vocabulary)) {
    SessionOptions of = at_level("compiled", 96);
    of.slots = 3;
    of.chunk = 16;
    of.kv_capacity_tokens = 9 * models::kBlockTokens;  // not enough for all: some are preempted
    of.prefix_caching = true;
    session_ = std::make_unique<Session>(file_, of, cpu_backend());
    EngineOptions options{.max_batched_tokens = 8};
    options.runs_ahead = GetParam().runs_ahead;
    engine_ = std::make_unique<Engine>(*session_, tokenizer_, options);
  }

  struct Trial {
    std::vector<Delta> answers;
    int64_t allocations = 0, internal_errors = 0;
  };

  // Numbers the allocations of the engine's thread while it answers several requests, of which a
  // first one holds it until all are there. So many fail, from number `first` on.
  Trial run(int64_t first, int64_t count) {
    // From a cache that whole answers left, all runs take the same steps, whose graphs are bound.
    if (count > 0) run(0, 0);
    const int64_t errors_before = engine_->counts().internal_errors;
    const auto gate = std::make_shared<Gate>([=, is_first = true]() mutable {
      if (std::exchange(is_first, false)) number_allocations(first, count);
    });
    std::vector<std::unique_ptr<AnswerReader>> readers;
    readers.push_back(std::make_unique<AnswerReader>(
        *engine_, Request{.prompt = ids(0, 40), .max_tokens = 12, .ignores_end = true}, gate));
    readers.front()->await(1);
    for (Request& each : requests())
      readers.push_back(std::make_unique<AnswerReader>(*engine_, std::move(each)));
    gate->open();
    Trial trial;
    for (const auto& each : readers) trial.answers.push_back(each->finished());
    await_idle();
    trial.allocations = end_numbering();
    const EngineCounts counts = engine_->counts();
    trial.internal_errors = counts.internal_errors - errors_before;
    EXPECT_EQ(counts.running, 0);
    EXPECT_EQ(counts.waiting, 0);
    EXPECT_EQ(counts.blocks_in_use, 0);
    return trial;
  }

  void await_idle() const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!engine_->is_idle() && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    EXPECT_TRUE(engine_->is_idle());
  }

  static std::vector<int32_t> ids(int32_t first, int32_t count) {
    std::vector<int32_t> made;
    for (int32_t i = 0; i < count; ++i) made.push_back(2 + (first + 7 * i) % 100);
    return made;
  }
  // Several priorities, penalties, scores and lengths.
  static std::vector<Request> requests() {
    std::vector<Request> all;
    all.push_back({.prompt = ids(1, 50), .max_tokens = 8, .ignores_end = true, .top_logprobs = 2});
    all.push_back({.prompt = ids(2, 20),
                   .sampling = {.temperature = 0.9, .seed = 3, .presence_penalty = 0.5},
                   .max_tokens = 20,
                   .stop = {"no such text in the answer"},
                   .ignores_end = true});
    all.push_back({.prompt = ids(3, 35), .max_tokens = 6, .ignores_end = true, .priority = -1});
    all.push_back({.prompt = ids(0, 40), .max_tokens = 5, .ignores_end = true, .priority = 1});
    return all;
  }
  // Returns how many answers failed. The others must be as those of `want`.
  static int64_t failed(const Trial& trial, const Trial& want) {
    int64_t count = 0;
    for (size_t i = 0; i < want.answers.size(); ++i) {
      const Delta &answer = trial.answers[i], &wanted = want.answers[i];
      if (answer.finish == Finish::kFailed) {
        ++count;
        EXPECT_NE(answer.error, "");
        continue;
      }
      EXPECT_EQ(answer.finish, Finish::kLength);
      EXPECT_EQ(answer.text, wanted.text) << i;
      EXPECT_EQ(answer.tokens, wanted.tokens) << i;
      EXPECT_EQ(answer.scores.size(), wanted.scores.size()) << i;
    }
    return count;
  }

  // Every `every`-th call throws once, one call after the other.
  void try_each(int64_t every) {
    run(0, 0);  // binds the graphs
    const Trial want = run(0, 0);
    EXPECT_EQ(want.internal_errors, 0);
    EXPECT_EQ(failed(want, want), 0);
    ASSERT_GT(want.allocations, 100);
    int64_t all_failed = 0;
    for (int64_t number = 1; number <= want.allocations; number += every) {
      SCOPED_TRACE(number);
      const Trial trial = run(number, 1);
      if (trial.allocations < number) continue;  // the threads met otherwise
      EXPECT_EQ(trial.internal_errors, 1);
      const int64_t ended = failed(trial, want);
      EXPECT_LE(ended, 1);
      all_failed += ended;
      if (HasFailure()) return;
    }
    EXPECT_GT(all_failed, 0);
    EXPECT_EQ(failed(run(0, 0), want), 0);
  }

  // Several calls in a row throw, also while a failure is being written down: no request stays
  // without an end.
  void try_many_in_a_row(int64_t every) {
    run(0, 0);
    const Trial want = run(0, 0);
    for (int64_t first = 1; first <= want.allocations; first += every)
      for (const int64_t count : {2, 5, 40, 1'000'000}) {
        SCOPED_TRACE(testing::Message() << count << " from " << first);
        failed(run(first, count), want);
        if (HasFailure()) return;
      }
    EXPECT_EQ(failed(run(0, 0), want), 0);
  }

  models::ModelFile file_;
  text::Tokenizer tokenizer_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<Engine> engine_;
};

inline const EngineCase kEngineCases[] = {{"llama_fp32"},
                                          {"gemma3_bf16"},
                                          {"llama_fp32", true},
                                          {"gemma3_bf16", true}};

}  // namespace ridge::serve
