// SPDX-License-Identifier: Apache-2.0
// Options and requests that an engine refuses, in its words, and how it begins: alone, on a device
// of its own, and as the first of two ranks.
#include <gtest/gtest.h>

#include <atomic>

#include "backends/graph_run.h"
#include "backends/ranks_in_threads.h"
#include "cost/made_up_ceilings.h"
#include "cost/predict.h"
#include "runtime/ranks.h"
#include "serve/answer_reader.h"
#include "serve/bytes_tokenizer.h"
#include "serve/generator.h"
#include "serve/kept_sequence.h"
#include "serve/real_model.h"
#include "serve/shared_steps.h"

namespace ridge::serve {
namespace {

template <typename Act>
std::string error_of(const Act& act) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage) << error.what();
    return error.what();
  }
  return "";
}

TEST(EngineOptionsTest, HaveBounds) {
  const auto error = [](void (*change)(EngineOptions&)) {
    EngineOptions options;
    change(options);
    return error_of([&] { validate(options); });
  };
  EXPECT_EQ(error([](auto&) {}), "");
  EXPECT_EQ(error([](auto& o) { o.max_batched_tokens = 1; }), "");
  EXPECT_EQ(error([](auto& o) { o.max_batched_tokens = 1 << 20; }), "");
  EXPECT_EQ(error([](auto& o) { o.max_batched_tokens = 0; }),
            "[max-batched-tokens] expected 1 to 1048576, got 0");
  EXPECT_EQ(error([](auto& o) { o.max_batched_tokens = (1 << 20) + 1; }),
            "[max-batched-tokens] expected 1 to 1048576, got 1048577");
  EXPECT_EQ(error([](auto& o) { o.step_ms = 1e6; }), "");
  EXPECT_EQ(error([](auto& o) { o.step_ms = -0.5; }),
            "[max-step-ms] expected 0 to 1000000 ms, got -0.5");
  EXPECT_EQ(error([](auto& o) { o.step_ms = 1000000.5; }),
            "[max-step-ms] expected 0 to 1000000 ms, got 1000000.5");
  EXPECT_EQ(error([](auto& o) { o.queue = 1; }), "");
  EXPECT_EQ(error([](auto& o) { o.queue = 1 << 20; }), "");
  EXPECT_EQ(error([](auto& o) { o.queue = 0; }), "[queue] expected 1 to 1048576 requests, got 0");
  EXPECT_EQ(error([](auto& o) { o.queue = (1 << 20) + 1; }),
            "[queue] expected 1 to 1048576 requests, got 1048577");
  EXPECT_EQ(error([](auto& o) { o.most_priority = 0; }), "");
  EXPECT_EQ(error([](auto& o) { o.most_priority = 1 << 20; }), "");
  EXPECT_EQ(error([](auto& o) { o.most_priority = -1; }),
            "[max-priority] expected 0 to 1048576, got -1");
  EXPECT_EQ(error([](auto& o) { o.most_priority = (1 << 20) + 1; }),
            "[max-priority] expected 0 to 1048576, got 1048577");
  EXPECT_EQ(error([](auto& o) { o.priority_ms = 0; }), "");
  EXPECT_EQ(error([](auto& o) { o.priority_ms = 1e6; }), "");
  EXPECT_EQ(error([](auto& o) { o.priority_ms = -1; }),
            "[priority-ms] expected 0 to 1000000 ms, got -1");
  EXPECT_EQ(error([](auto& o) { o.priority_ms = 1000001; }),
            "[priority-ms] expected 0 to 1000000 ms, got 1000001");
}

class EngineBegin : public testing::Test {
 protected:
  static SessionOptions options(int64_t slots = 2) {
    SessionOptions made = at_level("compiled", 16);
    made.slots = slots;
    made.chunk = 8;
    return made;
  }
  std::string text_alone(const std::vector<int32_t>& prompt) {
    Session session(file_, options(1), cpu_backend());
    GenerateOptions limited;
    limited.max_tokens = 4;
    return generate(session, tokenizer_, prompt, limited, {}).text;
  }
  static Request four_tokens(const std::vector<int32_t>& prompt) {
    Request request;
    request.prompt = prompt;
    request.max_tokens = 4;
    return request;
  }

  models::ModelFile file_ = models::ModelFile::open(data_folder() + "llama_fp32");
  const text::Tokenizer tokenizer_ = bytes_tokenizer(file_.config().vocabulary);
};

TEST_F(EngineBegin, RefusesRequestsInItsWords) {
  Session session(file_, options(), cpu_backend());
  EngineOptions few;
  few.most_priority = 3;
  Engine engine(session, tokenizer_, few);
  const auto error = [&](const std::function<void(Request&)>& change) {
    Request request = four_tokens({1});
    change(request);
    return error_of([&] { AnswerReader(engine, request).finished(); });
  };
  EXPECT_EQ(error([](Request&) {}), "");
  EXPECT_EQ(error([](Request& r) { r.prompt = {}; }),
            "[prompt] expected at least one token, got none");
  EXPECT_EQ(error([](Request& r) { r.prompt.assign(16, 1); }), "");
  EXPECT_EQ(error([](Request& r) { r.prompt.assign(17, 1); }),
            "[prompt] expected at most 16 tokens, the context, got 17");
  EXPECT_EQ(error([](Request& r) { r.prompt = {0, 159}; }), "");
  EXPECT_EQ(error([](Request& r) {
              r.prompt = {1, 160};
            }),
            "[prompt] expected ids from 0 to 159, got 160");
  EXPECT_EQ(error([](Request& r) { r.prompt = {-1}; }),
            "[prompt] expected ids from 0 to 159, got -1");
  EXPECT_EQ(error([](Request& r) { r.max_tokens = 1; }), "");
  EXPECT_EQ(error([](Request& r) { r.max_tokens = 0; }), "[max-tokens] expected at least 1, got 0");
  EXPECT_EQ(error([](Request& r) { r.priority = 3; }), "");
  EXPECT_EQ(error([](Request& r) { r.priority = -3; }), "");
  EXPECT_EQ(error([](Request& r) { r.priority = 4; }), "[priority] expected -3 to 3, got 4");
  EXPECT_EQ(error([](Request& r) { r.priority = -4; }), "[priority] expected -3 to 3, got -4");
}

TEST_F(EngineBegin, RefusesRequestsIfCallersKeepAllSequences) {
  Session session(file_, options(), cpu_backend());
  Engine engine(session, tokenizer_, {});
  KeptSequences kept;
  const auto error = [&] {
    return error_of([&] { AnswerReader(engine, four_tokens({1})).finished(); });
  };
  const auto keep = [&](Session& of) { kept.open(of); };
  engine.use(keep).get();
  EXPECT_EQ(error(), "");
  engine.use(keep).get();
  EXPECT_EQ(error(),
            "[sequence] expected a free sequence, callers keep all 2; end one of them, or have "
            "more (max_sequences)");
  engine.use([&](Session& of) { kept.close_all(of); }).get();
  EXPECT_EQ(error(), "");
}

TEST_F(EngineBegin, WarmsASessionUpOnce) {
  Session session(file_, options(), cpu_backend());
  {
    const Engine engine(session, tokenizer_, {});
    EXPECT_NE(session.runner().last_bucket(), nullptr);
    EXPECT_EQ(session.length(0), 0) << "its slot is free again";
    EXPECT_EQ(engine.counts().steps, 0);
  }
  Session cold(file_, options(), cpu_backend());
  EngineOptions warm;
  warm.is_warm = true;
  const Engine engine(cold, tokenizer_, warm);
  EXPECT_EQ(cold.runner().last_bucket(), nullptr);
}

TEST_F(EngineBegin, RunsNothingInSlotsThatAreTaken) {
  Session session(file_, options(1), cpu_backend());
  const OwnSlot slot(session);
  warm_up(session, {});
  EXPECT_EQ(session.runner().last_bucket(), nullptr);
}

// Memory that kernels read in place is the host's; this backend has none.
TEST_F(EngineBegin, BuildsTheBucketsOfADevice) {
  backends::GuardedBackend device(cpu_backend());
  SessionOptions of = options();
  of.selection = passes::Selection("baseline", "");
  Session session(file_, of, device);
  ASSERT_TRUE(session.runner().is_on_device());
  std::vector<int64_t> built, all;
  Engine engine(session, tokenizer_, {}, [&](int64_t done, int64_t count) {
    built.push_back(done);
    all.push_back(count);
  });
  ASSERT_FALSE(built.empty());
  for (size_t i = 0; i < built.size(); ++i) EXPECT_EQ(built[i], static_cast<int64_t>(i) + 1);
  EXPECT_EQ(all, std::vector<int64_t>(built.size(), std::ssize(built)));
  EXPECT_EQ(session.runner().buckets().count(), std::ssize(built)) << "none is built later";
  EXPECT_EQ(AnswerReader(engine, four_tokens({1, 2, 3})).finished().text, text_alone({1, 2, 3}));
}

TEST_F(EngineBegin, BuildsNothingAheadWithoutACache) {
  backends::GuardedBackend device(cpu_backend());
  SessionOptions of = options(1);
  of.selection = passes::Selection("baseline", "");
  of.cached = false;
  Session session(file_, of, device);
  warm_up(session, [](const Bucket&, int64_t, int64_t) { ADD_FAILURE(); });
  EXPECT_EQ(session.runner().buckets().count(), 1);
}

TEST_F(EngineBegin, ChoosesTheTokensOfAStepOnADevice) {
  backends::GuardedBackend device(cpu_backend());
  SessionOptions of = at_level("baseline", 256);
  of.selection = passes::Selection("baseline", "");
  of.slots = 8;
  Session session(file_, of, device);
  const auto at = [](double rate) {
    cost::Ceilings c =
        cost::made_up_ceilings({{1, rate, rate}, {int64_t{1} << 30, rate, rate}}, rate);
    c.arithmetic_flops_per_ns = c.fused_flops_per_ns = c.transcendentals_per_ns = rate;
    return c;
  };
  EXPECT_EQ(suitable_step_tokens(session, nullptr), 1024);
  const cost::Ceilings fast = at(1e9), slow = at(1e-9);
  EXPECT_EQ(suitable_step_tokens(session, &fast), 2048);
  EXPECT_EQ(suitable_step_tokens(session, &slow), 256);
  for (const int64_t tokens : {512, 1024, 2048}) {
    const cost::Ceilings one = at(1);
    const double ns =
        cost::predict_run_ns(*session.runner().buckets().planned_run(tokens, 128), one);
    // A machine that needs 75 ms for so many, and one that needs hardly more.
    const cost::Ceilings fits = at(ns / 75e6 * (1 + 1e-6)), is_late = at(ns / 75e6 * (1 - 1e-6));
    EXPECT_EQ(suitable_step_tokens(session, &fits), tokens);
    EXPECT_EQ(suitable_step_tokens(session, &is_late), tokens / 2);
  }
}

TEST_F(EngineBegin, HasCeilingsForALimitOfSteps) {
  Session session(file_, options(), cpu_backend());
  EXPECT_EQ(error_of([&] { StepBudget(session, nullptr, 64, 1); }),
            "[max-step-ms] expected measured ceilings to predict steps with, found none: run "
            "`ridge machine` once");
}

// Counts what the second rank hears of the first.
class Heard : public backends::CollectiveListener {
 public:
  void begin(const plan::Collective&, bool) override { ++count; }
  void end() override {}
  void launched(std::span<const plan::Collective>) override {}
  void watch(const backends::DeviceExchange*) override {}

  std::atomic<int64_t> count = 0;
};

// The other rank is said to be on another host. It takes part in what Ranks exchanges, then
// computes what the engine does.
TEST_F(EngineBegin, LeadsTheOtherRank) {
  const int port = runtime::free_port();
  Heard heard;
  std::vector<float> followed, led;
  std::thread other([&] {
    const auto world = backends::join_tcp_world({"127.0.0.1", port, 1, 2});
    const auto all = world->split(0);
    all->gather("another host");
    all->gather("1 -1 now");
    all->any(false);
    all->any(false);
    all->gather("1");
    backends::cpu::CpuOptions one;
    one.threads = 1;
    const auto backend = backends::cpu::make_cpu_backend(one);
    Session session(file_, options(), *backend);
    all->tell(&heard, "all");
    follow_steps(session.runner(), *all);
    followed = session.runner().last_bucket()->output();
    all->any(false);
  });
  runtime::RankPlace place;
  place.launcher = runtime::Launcher::kTorchrun;
  place.ranks = 2;
  place.address = "127.0.0.1", place.port = port;
  {
    runtime::Ranks ranks(place, {1, 2, 1}, {}, true);
    Session session(file_, options(), cpu_backend());
    EngineOptions lead;
    lead.ranks = &ranks;
    lead.is_warm = true;  // both sides have run nothing
    {
      Engine engine(session, tokenizer_, lead);
      // The other rank hears of an engine that runs nothing.
      const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
      while (heard.count < 3 && std::chrono::steady_clock::now() < end)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      EXPECT_GE(heard.count, 3);
      EXPECT_EQ(AnswerReader(engine, four_tokens({1, 2, 3})).finished().text,
                text_alone({1, 2, 3}));
    }
    led = session.runner().last_bucket()->output();
    ranks.any(false);
  }
  other.join();
  EXPECT_FALSE(led.empty());
  EXPECT_EQ(followed, led);
}

}  // namespace
}  // namespace ridge::serve
