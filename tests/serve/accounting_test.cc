// SPDX-License-Identifier: Apache-2.0
// The costs of requests against those of steps and the engine's counters, to the last FLOP and
// byte: also with requests that lose their blocks, leave, share a prefix, or fill pages or slots.
#include "serve/accounting.h"

#include <memory>

#include "cost/made_up_ceilings.h"
#include "cost/predict.h"
#include "ops/registry.h"
#include "serve/answer_reader.h"
#include "serve/bytes_tokenizer.h"
#include "serve/engine.h"
#include "serve/real_model.h"

namespace ridge::serve {
namespace {

constexpr int64_t kCapacity = 192;

class AccountingTest : public testing::TestWithParam<EngineCase> {
 protected:
  AccountingTest()
      : file_(models::ModelFile::open(data_folder() + GetParam().model)),
        tokenizer_(bytes_tokenizer(file_.config().vocabulary)) {}

  void open(int64_t slots,
            int64_t chunk,
            int64_t max_batched_tokens,
            int64_t blocks = 0,
            bool shares = true) {
    engine_.reset();
    SessionOptions of = at_level("compiled", kCapacity);
    of.slots = slots;
    of.chunk = chunk;
    of.prefix_caching = shares;
    of.kv_capacity_tokens = blocks * models::kBlockTokens;
    session_ = std::make_unique<Session>(file_, of, cpu_backend());
    EngineOptions options{.max_batched_tokens = max_batched_tokens};
    options.runs_ahead = GetParam().runs_ahead;
    engine_ = std::make_unique<Engine>(*session_, tokenizer_, options);
  }
  // A prompt of so many tokens that begins like no prompt of another seed.
  static Request request(int32_t seed, int64_t prompt, int64_t tokens) {
    std::vector<int32_t> ids;
    for (int32_t i = 0; i < prompt; ++i) ids.push_back((31 * seed + 7 * i) % 150);
    return {.prompt = ids, .max_tokens = tokens, .ignores_end = true};
  }
  std::unique_ptr<AnswerReader> ask(const Request& asked, std::shared_ptr<Gate> gate = nullptr) {
    return std::make_unique<AnswerReader>(*engine_, asked, std::move(gate));
  }
  std::vector<RequestMetrics> ran(const std::vector<Request>& requests) {
    std::vector<std::unique_ptr<AnswerReader>> readers;
    for (const Request& each : requests) readers.push_back(ask(each));
    std::vector<RequestMetrics> metrics;
    for (auto& each : readers) metrics.push_back(*each->finished().metrics);
    return metrics;
  }
  void await_idle() const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!engine_->is_idle() && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ASSERT_TRUE(engine_->is_idle());
  }
  // The requests of this engine's whole life against its steps and its counters.
  void expect_adds_up(std::vector<RequestMetrics> metrics) {
    await_idle();
    // The engine has counted all earlier steps when another request ends.
    metrics.push_back(ran({request(0, 3, 1)})[0]);
    StepCost of_requests, of_steps;
    for (const RequestMetrics& each : metrics) of_requests += each.cost;
    int64_t sequences = 0, took_part = 0;
    for (const LoggedStep& each : engine_->event_log().since(0).steps) {
      of_steps += each.cost;
      sequences += each.sequences;
    }
    for (const RequestMetrics& each : metrics) took_part += each.steps;
    EXPECT_EQ(of_requests += engine_->counts().discarded_cost, of_steps);
    EXPECT_EQ(of_steps, engine_->counts().cost);
    EXPECT_EQ(took_part, sequences);
    EXPECT_GT(of_steps.model.flops, 0);
  }
  // The work of the logits of one token.
  Work row_work() const {
    const models::InferenceShape shape =
        bucket_shape(models::InferenceTask::kPrefill, 6, 64, 1, true,
                     cache_of(session_->options(), file_.config()));
    return model_work(
               models::build_inference_graph(file_.config(), ops::table(), shape, file_.lookup())
                   .graph)
        .rows;
  }

  models::ModelFile file_;
  text::Tokenizer tokenizer_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<Engine> engine_;
};

TEST_P(AccountingTest, OfRequestsThatLoseTheirBlocks) {
  open(3, 16, 8, 14);
  std::vector<Request> requests;
  for (int32_t i = 0; i < 5; ++i) requests.push_back(request(i, 30, 110 + 5 * i));
  const std::vector<RequestMetrics> metrics = ran(requests);
  expect_adds_up(metrics);
  if (!file_.config().has_full_layers()) return;
  EXPECT_GT(engine_->counts().preemptions, 0);
  // Lost positions are computed twice, and counted twice.
  int64_t more = 0;
  const std::vector<RequestMetrics> crowded = metrics;
  for (size_t i = 0; i < requests.size(); ++i) {
    open(1, 16, 8);
    const RequestMetrics alone = ran({requests[i]})[0];
    EXPECT_GE(crowded[i].cost.model.flops, alone.cost.model.flops) << i;
    more += crowded[i].cost.model.flops > alone.cost.model.flops;
  }
  EXPECT_GT(more, 0);
}

// While a token is handed out, the next step runs ahead. Its request then leaves.
TEST_P(AccountingTest, OfTokensThatAreDiscarded) {
  open(2, 16, 8);
  const auto gate = std::make_shared<Gate>();
  const auto leaves = ask(request(1, 12, 50), gate);
  leaves->await(1);
  engine_->cancel(leaves->handle().id);
  gate->open();
  const RequestMetrics left = *leaves->finished().metrics;
  expect_adds_up({left});
  const EngineCounts counts = engine_->counts();
  const bool is_discarded = GetParam().runs_ahead;
  EXPECT_EQ(counts.discarded_tokens, is_discarded ? 1 : 0);
  EXPECT_EQ(counts.discarded_cost != StepCost(), is_discarded);
  EXPECT_EQ(left.steps, 1);
}

TEST_P(AccountingTest, OfRequestsThatLeave) {
  open(2, 2, 2);
  const auto gate = std::make_shared<Gate>();
  const auto decoding = ask(request(1, 12, kCapacity), gate);
  decoding->await(1);
  const auto prefilling = ask(request(2, 100, 5)), queued = ask(request(3, 20, 5)),
             stays = ask(request(4, 20, 5));
  gate->allow(3);
  decoding->await(4);
  for (const auto* each : {&decoding, &prefilling, &queued}) engine_->cancel((*each)->handle().id);
  gate->open();
  std::vector<RequestMetrics> metrics;
  for (const auto* each : {&decoding, &prefilling, &queued, &stays})
    metrics.push_back(*(*each)->finished().metrics);
  expect_adds_up(metrics);
  EXPECT_EQ((decoding->finished().finish), Finish::kCancelled);
  EXPECT_GT(metrics[1].cost.model.flops, 0);  // A part of its prompt was computed.
  EXPECT_EQ(metrics[2].cost, StepCost());
}

// A hit saves what the prefix costs alone, but for the logits after it.
TEST_P(AccountingTest, OfSharedPrefixes) {
  open(2, 128, 128);
  const Request whole = request(1, 100, 4);
  const std::vector<RequestMetrics> metrics = ran({whole});
  const RequestMetrics again = ran({whole})[0];
  EXPECT_EQ(again.cached_tokens, 96);
  expect_adds_up({metrics[0], again});
  Request prefix = whole;
  prefix.prompt.resize(96);
  prefix.max_tokens = 1;
  open(2, 128, 128);
  const RequestMetrics of_prefix = ran({prefix})[0];
  EXPECT_EQ(again.cost.model + of_prefix.cost.model, metrics[0].cost.model + row_work());
}

// Each answer samples one token a step, and no prompt is cut, so that keys are read equally often.
// Apart from padding, company changes only what all read: the weights.
TEST_P(AccountingTest, OfCompany) {
  std::vector<Request> requests;
  for (int32_t i = 0; i < 4; ++i) requests.push_back(request(i, 12 + i, 9));
  std::vector<RequestMetrics> alone;
  int64_t weights = 0;
  for (const Request& each : requests) {
    open(4, 64, 64);
    alone.push_back(ran({each})[0]);
    weights = cost::parameter_bytes(*session_->runner().buckets().planned_run(8, 64));
  }
  open(4, 64, 64);
  const std::vector<RequestMetrics> together = ran(requests);
  const int64_t steps = engine_->counts().steps;
  expect_adds_up(together);
  int64_t keys_alone = 0, keys_together = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(together[i].cost.model, alone[i].cost.model) << i;
    keys_alone += alone[i].cost.needed_bytes - alone[i].steps * weights;
    keys_together += together[i].cost.needed_bytes;
  }
  keys_together -= steps * weights;
  // A table of embeddings that is not the head's too counts with the rows of the step's tokens
  // alone.
  if (file_.config().tied_head) {
    EXPECT_EQ(keys_together, keys_alone);
  }
}

// Pages are read through longer block tables, and cost nothing else.
TEST_P(AccountingTest, OfPages) {
  const Request asked = request(5, 40, 9);
  const auto table_bytes = [&] {
    const models::CacheShape cache = cache_of(session_->options(), file_.config());
    int64_t bytes = 0;
    for (int64_t layer = 0; layer < file_.config().layers; ++layer) {
      const bool is_window = file_.config().is_window(layer);
      bytes += 4 * cache.slots * (is_window ? cache.window : cache.full).blocks_per_slot;
    }
    return 2 * bytes;  // kv_append and cached_attention
  };
  open(2, 64, 64);
  RequestMetrics paged = ran({asked})[0];
  const int64_t of_pages = table_bytes();
  open(2, 64, 64, 0, false);
  const RequestMetrics contiguous = ran({asked})[0];
  paged.cost.read_bytes -= paged.steps * (of_pages - table_bytes());
  EXPECT_EQ(paged.cost, contiguous.cost);
}

// A bucket that is built ahead has the whole context, and a step is predicted by the keys that its
// tokens attend to.
TEST(PreparedAccounting, PredictsBetweenAShortAndTheWholeContext) {
  const models::ModelFile file = models::ModelFile::open(data_folder() + "llama3_bf16_sharded");
  SessionOptions options = at_level("compiled", 512);
  options.slots = 2;
  options.chunk = 4;
  Session session(file, options, cpu_backend());
  const auto ceilings =
      std::make_shared<cost::Ceilings>(cost::made_up_ceilings({{int64_t{1} << 30, 10, 10}}, 10));
  Accounting accounting(session, ceilings);
  const Bucket* pair = nullptr;
  session.prepare([&](const Bucket& bucket, int64_t, int64_t) {
    accounting.prepare(bucket);
    if (bucket.shape().tokens == 2) pair = &bucket;
  });
  ASSERT_NE(pair, nullptr);
  models::InferenceShape near = pair->shape();
  EXPECT_EQ(near.context, 512);
  const auto predicted = [&](int64_t position) {
    RequestMetrics one, other;
    RequestMetrics* const metrics[] = {&one, &other};
    const PartExtent part{position, 1, true};
    accounting.add(*pair, std::vector<PartExtent>{part, part}, 1, metrics);
    return one.predicted_prefill_ns;
  };
  const double whole = cost::predict_run_ns(*session.runner().buckets().planned(near), *ceilings);
  near.context = 256;
  const double least = cost::predict_run_ns(*session.runner().buckets().planned(near), *ceilings);
  EXPECT_GT(whole, least);
  EXPECT_DOUBLE_EQ(predicted(5), least);
  EXPECT_DOUBLE_EQ(predicted(255), least);
  EXPECT_DOUBLE_EQ(predicted(383), (least + whole) / 2);
  EXPECT_DOUBLE_EQ(predicted(511), whole);
}

INSTANTIATE_TEST_SUITE_P(All,
                         AccountingTest,
                         testing::Values(EngineCase{"llama_fp32"},
                                         EngineCase{"gemma3_bf16"},
                                         EngineCase{"llama_fp32", true},
                                         EngineCase{"gemma3_bf16", true}));

}  // namespace
}  // namespace ridge::serve
