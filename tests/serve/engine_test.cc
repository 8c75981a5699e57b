// SPDX-License-Identifier: Apache-2.0
// The engine on small models: each request gets the text that it gets alone, whatever shares its
// steps, and requests end, are refused and are dropped without a trace.
#include "serve/engine.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>

#include "base/clock.h"
#include "cost/made_up_ceilings.h"
#include "cost/predict.h"
#include "serve/answer_reader.h"
#include "serve/bytes_tokenizer.h"
#include "serve/generator.h"
#include "serve/log_probability.h"
#include "serve/real_model.h"

namespace ridge::serve {
namespace {

constexpr int64_t kCapacity = 192;
// So long that priorities alone count.
constexpr double kNeverAges = 1e5;

class EngineTest : public testing::TestWithParam<EngineCase> {
 protected:
  EngineTest()
      : file_(models::ModelFile::open(data_folder() + GetParam().model)),
        tokenizer_(bytes_tokenizer(file_.config().vocabulary)),
        endless_(bytes_tokenizer(file_.config().vocabulary, false)) {
    const nlohmann::json expected =
        files::read_json(data_folder() + GetParam().model + "/expected.json");
    ids_ = ids_of(expected["ids"][0]);
    other_ = ids_of(expected["ids"][1]);
    long_ = ids_;
    while (std::ssize(long_) < 150) long_.insert(long_.end(), other_.begin(), other_.end());
    long_.resize(150);
  }

  void open(int64_t slots, int64_t chunk = 64, EngineOptions options = {}, int64_t positions = 0) {
    engine_.reset();
    SessionOptions of = at_level("compiled", kCapacity);
    of.slots = slots;
    of.chunk = chunk;
    of.kv_capacity_tokens = positions;
    of.prefix_caching = true;
    session_ = std::make_unique<Session>(file_, of, cpu_backend());
    options.runs_ahead = GetParam().runs_ahead;
    engine_ = std::make_unique<Engine>(*session_, tokenizer_, options);
  }
  Generation alone(const Request& request) {
    Session session(file_, at_level("compiled", kCapacity), cpu_backend());
    return generate(session, request.ignores_end ? endless_ : tokenizer_, request.prompt,
                    {request.sampling, request.max_tokens, request.stop, {}}, {});
  }
  std::unique_ptr<AnswerReader> ask(Request request, std::shared_ptr<Gate> gate = nullptr) {
    return std::make_unique<AnswerReader>(*engine_, std::move(request), std::move(gate));
  }
  // Fills the context.
  Request whole(const std::vector<int32_t>& prompt) const {
    return {.prompt = prompt, .max_tokens = kCapacity, .ignores_end = true};
  }
  // Returns the indices of finished requests in the order in which they got their slots.
  std::vector<size_t> admitted(const std::vector<std::unique_ptr<AnswerReader>>& readers) const {
    std::map<uint64_t, double> times;
    for (const LoggedRequest& each : engine_->event_log().since(0).requests)
      for (const LoggedRequest::StageBegin& stage : each.reached())
        if (stage.stage == Stage::kPrefill) times.emplace(each.id, stage.begin_ns);
    std::vector<size_t> order(readers.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::sort(order, {}, [&](size_t i) { return times.at(readers[i]->handle().id); });
    return order;
  }
  void await_idle() const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!engine_->is_idle() && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_TRUE(engine_->is_idle());
  }

  models::ModelFile file_;
  text::Tokenizer tokenizer_, endless_;
  std::vector<int32_t> ids_, other_, long_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<Engine> engine_;
};

void expect_same(const Delta& made, const Generation& want) {
  EXPECT_EQ(made.text, want.text);
  EXPECT_EQ(made.tokens, std::ssize(want.ids));
  EXPECT_EQ(finish_name(made.finish), want.finish_reason);
}

TEST_P(EngineTest, EachRequestGetsWhatItGetsAlone) {
  open(3, 16, {.max_batched_tokens = 8});
  std::vector<Request> requests;
  for (int64_t i = 0; i < 9; ++i) {
    const std::vector<int32_t>& prompt = i % 3 == 0 ? long_ : i % 3 == 1 ? ids_ : other_;
    Request request{.prompt = prompt, .max_tokens = 5 + 4 * i};
    if (i % 2 == 1) request.sampling = {.temperature = 0.9, .top_p = 0.95, .seed = i};
    if (i == 4) request.sampling.repeat_penalty = 1.3;
    requests.push_back(request);
  }
  std::vector<std::unique_ptr<AnswerReader>> readers;
  const double begin_ns = now_ns();
  for (const Request& request : requests) readers.push_back(ask(request));
  for (size_t i = 0; i < requests.size(); ++i) {
    SCOPED_TRACE(i);
    expect_same(readers[i]->finished(), alone(requests[i]));
  }
  await_idle();
  const double all_s = (now_ns() - begin_ns) / 1e9;
  const EngineCounts counts = engine_->counts();
  EXPECT_EQ(counts.running, 0);
  EXPECT_EQ(counts.waiting, 0);
  EXPECT_EQ(counts.blocks_in_use, 0);
  EXPECT_EQ(counts.ttft.count, 9);
  EXPECT_EQ(counts.queue.count, 9);
  int64_t tokens = 0;
  for (auto& each : readers) tokens += each->finished().tokens;
  EXPECT_EQ(counts.generated_tokens, tokens);
  EXPECT_EQ(counts.inter_token.count, tokens - 9);
  EXPECT_EQ(counts.end_to_end.count, 9);
  EXPECT_GE(counts.end_to_end.sum * (1 + 1e-9), counts.ttft.sum + counts.inter_token.sum);
  EXPECT_LE(counts.end_to_end.sum, 9 * all_s);
}

// Whatever shares the steps, the costs of requests add up to those of the steps, and the model's
// part is what the request has alone.
TEST_P(EngineTest, AccountsAddUp) {
  const auto ran = [&](const std::vector<Request>& requests) {
    std::vector<std::unique_ptr<AnswerReader>> readers;
    for (const Request& each : requests) readers.push_back(ask(each));
    std::vector<std::shared_ptr<const RequestMetrics>> metrics;
    for (auto& each : readers) metrics.push_back(each->finished().metrics);
    await_idle();
    return metrics;
  };
  std::vector<Request> requests;
  for (const std::vector<int32_t>* prompt : {&ids_, &long_, &other_, &ids_, &long_})
    requests.push_back({.prompt = *prompt, .max_tokens = 9, .ignores_end = true});
  open(3, 16, {.max_batched_tokens = 7});
  const std::vector<std::shared_ptr<const RequestMetrics>> metrics = ran(requests);
  StepCost sum;
  double shared_ns = 0;
  for (const auto& each : metrics) {
    ASSERT_NE(each, nullptr);
    sum += each->cost;
    shared_ns += each->shared_ns;
    EXPECT_GE(each->steps, 9);
    EXPECT_LE(each->shared_ns, each->step_ns);
    EXPECT_GT(each->prefill_ns, 0);
    EXPECT_GT(each->decode_ns, 0);
    EXPECT_EQ(each->later_tokens, 8);
    EXPECT_EQ(each->predicted_prefill_ns, 0);  // without ceilings
  }
  EngineCounts counts = engine_->counts();
  EXPECT_EQ(sum += counts.discarded_cost, counts.cost);
  EXPECT_GT(sum.executed_flops, sum.model.flops);  // padding
  EXPECT_FALSE(engine_->counts().mfu.has_value());
  for (size_t i = 0; i < requests.size(); ++i) {
    if (metrics[i]->cached_tokens > 0) continue;
    open(1, 64);
    EXPECT_EQ(ran({requests[i]})[0]->cost.model, metrics[i]->cost.model) << i;
  }
}

TEST_P(EngineTest, TheNextTurnComputesOnlyWhatIsNew) {
  open(2, 128);
  const Request first{.prompt = ids_, .max_tokens = 6, .ignores_end = true};
  const Generation before = alone(first);
  expect_same(ask(first)->finished(), before);
  std::vector<int32_t> next = ids_;
  next.insert(next.end(), before.ids.begin(), before.ids.end());
  next.insert(next.end(), other_.begin(), other_.begin() + 4);
  const Request second{.prompt = next, .max_tokens = 6};
  const auto reader = ask(second);
  expect_same(reader->finished(), alone(second));
  // The whole blocks, without the last token that was sampled, which was never computed.
  const auto whole_blocks = [](int64_t tokens) {
    return tokens / models::kBlockTokens * models::kBlockTokens;
  };
  EXPECT_EQ(reader->finished().cached_tokens, whole_blocks(std::ssize(ids_) + 5));
  EXPECT_EQ(engine_->counts().cached_tokens, whole_blocks(std::ssize(ids_) + 5));
  // The same prompt again needs its last token's logits.
  EXPECT_EQ(ask(second)->finished().cached_tokens, whole_blocks(std::ssize(next) - 1));
}

// Three sequences need 36 blocks to fill their contexts, and there are 14.
TEST_P(EngineTest, WhatHasNoBlocksWaitsAndIsComputedAgain) {
  open(3, 16, {.max_batched_tokens = 8}, 14 * models::kBlockTokens);
  std::vector<std::unique_ptr<AnswerReader>> readers;
  std::vector<Request> requests;
  for (int64_t i = 0; i < 5; ++i) {
    Request request = whole(i % 2 == 0 ? ids_ : other_);
    request.max_tokens = 130 + 5 * i;
    if (i == 1) request.sampling = {.temperature = 0.8, .repeat_penalty = 1.2, .seed = 5};
    requests.push_back(request);
  }
  for (const Request& request : requests) readers.push_back(ask(request));
  for (size_t i = 0; i < requests.size(); ++i) {
    SCOPED_TRACE(i);
    expect_same(readers[i]->finished(), alone(requests[i]));
  }
  await_idle();
  EXPECT_EQ(engine_->counts().blocks_in_use, 0);
  EXPECT_EQ(engine_->counts().queue.count, 5);
  if (session_->config().has_full_layers()) {
    EXPECT_GT(engine_->counts().preemptions, 0);
    int64_t queued = 0;
    for (const LoggedRequest& each : engine_->event_log().since(0).requests)
      queued +=
          std::ranges::count(each.reached(), Stage::kQueued, &LoggedRequest::StageBegin::stage);
    EXPECT_EQ(queued, 5 + engine_->counts().preemptions);
  }
}

TEST_P(EngineTest, TenantsShareNoPrefixes) {
  open(2, 128);
  Request request{.prompt = long_, .max_tokens = 3, .tenant = 1};
  const Generation want = alone(request);
  for (const auto& [tenant, hits] : {std::pair(1u, false), {2u, false}, {1u, true}, {0u, false}}) {
    request.tenant = tenant;
    const auto reader = ask(request);
    expect_same(reader->finished(), want);
    EXPECT_EQ(reader->finished().cached_tokens > 0, hits) << tenant;
  }
}

// One slot: what waits is served by priority, then as it came.
TEST_P(EngineTest, ServesSmallerPrioritiesFirst) {
  open(1, 64, {.priority_ms = kNeverAges});
  const auto gate = std::make_shared<Gate>();
  const auto running = ask(whole(ids_), gate);
  running->await(1);
  std::vector<std::unique_ptr<AnswerReader>> waiting;
  for (int64_t priority : {0, 3, -2, 0, -2})
    waiting.push_back(ask({.prompt = other_, .max_tokens = 2, .priority = priority}));
  engine_->cancel(running->handle().id);
  gate->open();
  for (auto& each : waiting) each->finished();
  EXPECT_EQ(admitted(waiting), (std::vector<size_t>{2, 4, 0, 3, 1}));
}

// A request that has waited longer than a better priority counts comes before it, and does not lose
// its slot to it.
TEST_P(EngineTest, PrioritiesAge) {
  open(1, 64, {.priority_ms = 200});
  const auto gate = std::make_shared<Gate>();
  const auto running = ask(whole(ids_), gate);
  running->await(1);
  std::vector<std::unique_ptr<AnswerReader>> waiting;
  for (int64_t priority : {1, 0, -2}) {
    if (priority < 0) std::this_thread::sleep_for(std::chrono::seconds(1));
    waiting.push_back(ask({.prompt = other_, .max_tokens = 2, .priority = priority}));
  }
  gate->open();
  for (auto& each : waiting) each->finished();
  EXPECT_EQ(admitted(waiting), (std::vector<size_t>{1, 0, 2}));
  expect_same(running->finished(), alone(whole(ids_)));
  EXPECT_EQ(engine_->counts().preemptions, 0);
}

// Whoever floods the engine with requests of the best priority delays another request by as much as
// that priority counts, and not until the flood ends.
TEST_P(EngineTest, AFloodOfBetterPrioritiesStarvesNobody) {
  open(1, 64, {.priority_ms = 5});
  const auto gate = std::make_shared<Gate>();
  const auto running = ask({.prompt = ids_, .max_tokens = 2, .ignores_end = true}, gate);
  running->await(1);
  const auto victim = ask({.prompt = ids_, .max_tokens = 8, .ignores_end = true});
  std::vector<std::unique_ptr<AnswerReader>> flood;
  const auto add = [&] {
    flood.push_back(ask({.prompt = other_, .max_tokens = 8, .ignores_end = true, .priority = -10}));
  };
  for (int i = 0; i < 40; ++i) add();
  gate->open();
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (victim->poll().finish == Finish::kNone && std::chrono::steady_clock::now() < end) {
    while (engine_->counts().waiting < 40) add();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  EXPECT_EQ(victim->poll().finish, Finish::kLength);
  for (auto& each : flood) each->finished();
}

TEST_P(EngineTest, RefusesPrioritiesBeyondTheBound) {
  open(1, 64, {.most_priority = 3});
  const auto nobody = std::make_shared<OutputQueue>([] {});
  for (int64_t priority : {int64_t{4}, int64_t{-4}, int64_t{INT32_MIN}, INT64_MIN + 1})
    EXPECT_THROW(engine_->submit({.prompt = ids_, .max_tokens = 1, .priority = priority}, nobody),
                 Error);
  EXPECT_EQ(ask({.prompt = ids_, .max_tokens = 1, .priority = -3})->finished().tokens, 1);
}

// Two sequences need 24 blocks to fill their contexts, and there are 14: the later one stays.
TEST_P(EngineTest, PreemptsTheLeastPriority) {
  open(2, 16, {.max_batched_tokens = 8, .priority_ms = kNeverAges}, 14 * models::kBlockTokens);
  if (!session_->config().has_full_layers()) GTEST_SKIP() << "windows fit";
  Request first = whole(ids_), second = whole(other_);
  first.priority = 1;
  const auto gate = std::make_shared<Gate>();
  const auto early = ask(first, gate), late = ask(second);
  gate->open();
  expect_same(late->finished(), alone(second));
  expect_same(early->finished(), alone(first));
  EXPECT_GT(engine_->counts().preemptions, 0);
  // The preempted one computes its positions again.
  EXPECT_LT(late->finished().metrics->steps, early->finished().metrics->steps);
}

// One slot: a request of better priority takes it, one of the same does not, and the answer that
// lost it goes on.
TEST_P(EngineTest, BetterPrioritiesPushOutOthers) {
  open(1, 64, {.priority_ms = kNeverAges});
  const Request low = whole(ids_);
  for (int64_t priority : {0, -1}) {
    Request next{.prompt = long_, .max_tokens = 5, .priority = priority, .tenant = 1};
    const auto gate = std::make_shared<Gate>();
    const auto running = ask(low, gate);
    running->await(1);
    const auto waiting = ask(next);
    gate->allow(2);  // the engine stops at the third token
    if (priority < 0)
      expect_same(waiting->finished(), alone(next));
    else
      EXPECT_EQ(running->await(3).tokens, 3);
    EXPECT_EQ(engine_->counts().preemptions, priority < 0 ? 1 : 0);
    EXPECT_EQ(engine_->counts().waiting, priority < 0 ? 0 : 1);
    gate->open();
    expect_same(running->finished(), alone(low));
    expect_same(waiting->finished(), alone(next));
  }
  await_idle();
  EXPECT_EQ(engine_->counts().blocks_in_use, 0);
  EXPECT_EQ(engine_->counts().queue.count, 4);
}

// A slot is free, but blocks for one of the two prompts only.
TEST_P(EngineTest, BetterPrioritiesTakeBlocks) {
  open(2, 64, {.priority_ms = kNeverAges}, 14 * models::kBlockTokens);
  if (!session_->config().has_full_layers()) GTEST_SKIP() << "windows fit";
  const Request low = whole(long_);
  const Request next{.prompt = long_, .max_tokens = 5, .priority = -1, .tenant = 1};
  const auto gate = std::make_shared<Gate>();
  const auto running = ask(low, gate);
  running->await(1);
  const auto waiting = ask(next);
  gate->allow(2);
  expect_same(waiting->finished(), alone(next));
  EXPECT_EQ(engine_->counts().preemptions, 1);
  gate->open();
  expect_same(running->finished(), alone(low));
  await_idle();
  EXPECT_EQ(engine_->counts().blocks_in_use, 0);
}

// Tokens of a step are as many as are predicted to fit, and at least one of a prompt.
TEST_P(EngineTest, StepsAreAsLongAsPredicted) {
  auto ceilings =
      std::make_shared<cost::Ceilings>(cost::made_up_ceilings({{int64_t{1} << 30, 10, 10}}, 10));
  open(2);
  const auto predicted = [&](int64_t tokens) {
    return cost::predict_run_ns(*session_->runner().buckets().planned_run(tokens, kCapacity),
                                *ceilings);
  };
  ASSERT_LT(predicted(1), predicted(64));
  ASSERT_GE(session_->most_ids(), 64);
  for (int64_t tokens : {1, 16, 48, 64}) {
    const double limit_ns = predicted(tokens) * (1 + 1e-9);
    const StepBudget budget(*session_, ceilings.get(), 64, limit_ns);
    const int64_t most = budget.tokens(kCapacity);
    EXPECT_GE(most, tokens);
    EXPECT_LE(predicted(most), limit_ns);
    if (most < 64) {
      EXPECT_GT(predicted(most + 1), limit_ns);
    }
  }
  EXPECT_EQ(StepBudget(*session_, ceilings.get(), 64, 1e-3).tokens(1), 1);
  EXPECT_EQ(StepBudget(*session_, nullptr, 64, 0).tokens(1), 64);
  EXPECT_EQ(suitable_step_tokens(*session_, ceilings.get()), 128);  // on any CPU
  EXPECT_THROW(open(2, 64, {.step_ms = 5}), Error);                 // nothing to predict with
  open(2, 64, {.max_batched_tokens = 32, .step_ms = 1e-6, .ceilings = ceilings});
  const Request request{.prompt = long_, .max_tokens = 4};
  const auto decoding = ask(whole(ids_)), beside = ask(request);
  expect_same(beside->finished(), alone(request));
}

TEST_P(EngineTest, CancelsInTheQueueInPrefillAndInDecode) {
  open(2, 2, {.max_batched_tokens = 2});
  const auto gate = std::make_shared<Gate>();
  const auto decoding = ask(whole(ids_), gate);
  decoding->await(1);
  const auto prefilling = ask(whole(long_)), queued = ask(whole(other_)),
             late = ask({.prompt = other_, .max_tokens = 3});
  gate->allow(1);
  decoding->await(2);  // and one token of the prompt beside it
  EXPECT_EQ(engine_->counts().waiting, 2);
  for (const auto* each : {&decoding, &prefilling, &queued}) engine_->cancel((*each)->handle().id);
  gate->open();
  EXPECT_EQ(decoding->finished().finish, Finish::kCancelled);
  // Ahead, its second token is of a step that was launched before the prompts came.
  EXPECT_EQ(decoding->finished().tokens, GetParam().runs_ahead ? 3 : 2);
  EXPECT_EQ(prefilling->finished().finish, Finish::kCancelled);
  EXPECT_EQ(prefilling->finished().tokens, 0);
  EXPECT_EQ(queued->finished().finish, Finish::kCancelled);
  expect_same(late->finished(), alone({.prompt = other_, .max_tokens = 3}));
  engine_->cancel(decoding->handle().id);  // twice
  engine_->cancel(late->handle().id);      // after its end
  engine_->cancel(1u << 30);               // never there
  await_idle();
  const auto after = ask({.prompt = long_, .max_tokens = 3});
  expect_same(after->finished(), alone({.prompt = long_, .max_tokens = 3}));
  EXPECT_EQ(engine_->counts().finished[static_cast<size_t>(Finish::kCancelled)], 3);
}

TEST_P(EngineTest, RefusesWhatTheQueueCannotHold) {
  open(1, 64, {.queue = 2});
  const auto gate = std::make_shared<Gate>();
  const auto running = ask(whole(ids_), gate);
  running->await(1);
  const auto second = ask(whole(ids_)), third = ask({.prompt = ids_, .max_tokens = 2});
  EXPECT_EQ(ask(whole(ids_))->handle().refusal, Refusal::kFull);
  EXPECT_EQ(engine_->counts().waiting, 2);
  EXPECT_EQ(engine_->counts().refused, 1);
  engine_->cancel(running->handle().id);
  engine_->cancel(second->handle().id);
  gate->open();
  EXPECT_EQ(running->finished().finish, Finish::kCancelled);
  expect_same(third->finished(), alone({.prompt = ids_, .max_tokens = 2}));
}

TEST_P(EngineTest, DrainsWhatItHasAccepted) {
  open(1);
  const Request request{.prompt = ids_, .max_tokens = 12};
  const auto running = ask(request), waiting = ask(request);
  engine_->drain();
  EXPECT_EQ(ask(request)->handle().refusal, Refusal::kDraining);
  expect_same(running->finished(), alone(request));
  expect_same(waiting->finished(), alone(request));
  await_idle();
}

TEST_P(EngineTest, StoppingEndsAllAnswers) {
  open(1);
  const auto gate = std::make_shared<Gate>();
  const auto running = ask(whole(ids_), gate), waiting = ask(whole(ids_));
  running->await(1);
  // Lets the engine go on once its end has begun, which is when it refuses requests.
  std::thread opens([&, engine = engine_.get()] {
    const auto nobody = std::make_shared<OutputQueue>(std::function<void()>());
    while (engine->submit({.prompt = ids_, .max_tokens = 1}, nobody).refusal != Refusal::kDraining)
      std::this_thread::yield();
    gate->open();
  });
  engine_.reset();
  opens.join();
  EXPECT_EQ(running->finished().finish, Finish::kCancelled);
  EXPECT_EQ(waiting->finished().finish, Finish::kCancelled);
}

// A reader that wakes finds the tokens of the whole step, its own and those of others.
TEST_P(EngineTest, ReadersAreWokenWhenAStepIsThere) {
  open(3);
  struct StepReader {
    std::shared_ptr<OutputQueue> output;
    int64_t tokens = 0;
  } readers[2];
  std::vector<int64_t> leads;  // At each wake, the first answer's tokens less the second's.
  const auto look = [&] {
    for (StepReader& each : readers) each.tokens += each.output->take().tokens;
    if (readers[0].tokens > 0 && readers[1].tokens > 0 && readers[1].tokens < 20)
      leads.push_back(readers[0].tokens - readers[1].tokens);
  };
  for (StepReader& each : readers) each.output = std::make_shared<OutputQueue>(look);
  // Holds the engine until it has both, which it then begins in one step.
  const auto gate = std::make_shared<Gate>();
  const auto before = ask({.prompt = other_, .max_tokens = 2, .ignores_end = true}, gate);
  before->await(1);
  for (StepReader& each : readers)
    engine_->submit({.prompt = ids_, .max_tokens = 40, .ignores_end = true}, each.output);
  gate->open();
  await_idle();
  engine_.reset();
  ASSERT_GT(leads.size(), 20u);  // two wakes a step
  EXPECT_EQ(std::ranges::count(leads, leads.front()), std::ssize(leads));
}

TEST_P(EngineTest, EndsAtStopTextsAndAtTheContextsEnd) {
  open(2);
  const Request full = whole(long_);
  const auto answer = ask(full);
  const Delta& cut = answer->finished();
  EXPECT_EQ(cut.finish, Finish::kLength);
  EXPECT_EQ(cut.tokens, kCapacity - std::ssize(long_) + 1);
  Request stopped{.prompt = ids_, .max_tokens = 40, .ignores_end = true};
  const std::string text = ask(stopped)->finished().text;
  ASSERT_GT(text.size(), 12u);
  stopped.stop = {text.substr(8, 4)};
  const auto reader = ask(stopped);
  EXPECT_EQ(reader->finished().finish, Finish::kStop);
  EXPECT_EQ(reader->finished().text, text.substr(0, text.find(stopped.stop[0])));
}

TEST_P(EngineTest, ReportsLogProbabilities) {
  open(2);
  const auto with = ask({.prompt = ids_, .max_tokens = 4, .ignores_end = true, .top_logprobs = 3});
  const auto beside = ask({.prompt = other_, .max_tokens = 9});
  const Delta& made = with->finished();
  ASSERT_EQ(made.scores.size(), 4u);
  Session session(file_, at_level("compiled", kCapacity), cpu_backend());
  const std::vector<float> logits = last_logits(session, ids_);
  const double sum = log_sum_exp(logits);
  for (const ScoredToken& each : made.scores[0].top)
    EXPECT_NEAR(each.logprob, static_cast<double>(logits[static_cast<size_t>(each.id)]) - sum,
                1e-4);
  for (const TokenScores& each : made.scores) {
    ASSERT_EQ(each.top.size(), 3u);
    EXPECT_EQ(each.top[0].id, each.chosen.id);  // greedy
    EXPECT_GE(each.top[0].logprob, each.top[1].logprob);
    EXPECT_GE(each.top[1].logprob, each.top[2].logprob);
  }
  EXPECT_TRUE(beside->finished().scores.empty());
}

TEST(ScoreToken, OrdersEqualLogitsById) {
  const std::vector<float> logits{1, 2, 2, 0};
  const TokenScores scores = score_token(logits, 3, 9);
  const double sum = std::exp(1.0) + 2 * std::exp(2.0) + 1;
  EXPECT_NEAR(scores.chosen.logprob, -std::log(sum), 1e-12);
  std::vector<int32_t> order;
  for (const ScoredToken& each : scores.top) order.push_back(each.id);
  EXPECT_EQ(order, (std::vector<int32_t>{1, 2, 0, 3}));
  EXPECT_TRUE(score_token(logits, 0, 0).top.empty());
}

TEST_P(EngineTest, RefusesWhatCannotRun) {
  open(1);
  const auto refused = [&](const Request& request) { EXPECT_THROW(ask(request), Error); };
  refused({.prompt = {}, .max_tokens = 1});
  refused({.prompt = {-1}, .max_tokens = 1});
  refused({.prompt = {static_cast<int32_t>(file_.config().vocabulary)}, .max_tokens = 1});
  refused({.prompt = std::vector<int32_t>(kCapacity + 1, 3), .max_tokens = 1});
  refused({.prompt = {1}, .max_tokens = 0});
  refused({.prompt = {1}, .sampling = {.temperature = -1}, .max_tokens = 1});
  refused({.prompt = {1}, .max_tokens = 1, .stop = {""}});
  EXPECT_TRUE(engine_->is_idle());
  EXPECT_THROW(open(1, 64, {.queue = 0}), Error);
  EXPECT_THROW(open(1, 64, {.max_batched_tokens = 0}), Error);
}

INSTANTIATE_TEST_SUITE_P(All,
                         EngineTest,
                         testing::Values(EngineCase{"llama_fp32"},
                                         EngineCase{"gemma3_bf16"},
                                         EngineCase{"qwen2_fp32"},
                                         EngineCase{"qwen3_bf16"},
                                         EngineCase{"llama_fp32", true},
                                         EngineCase{"gemma3_bf16", true}));

}  // namespace
}  // namespace ridge::serve
