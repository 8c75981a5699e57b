// SPDX-License-Identifier: Apache-2.0
// Two ranks, threads here, that share their steps: the second computes what the first one does, and
// hears of it also while there is nothing to run.
#include "serve/shared_steps.h"

#include "backends/ranks_in_threads.h"
#include "serve/kept_sequence.h"
#include "serve/real_model.h"

namespace ridge::serve {
namespace {

// Counts a rank's exchanges.
class Exchanges : public backends::CollectiveListener {
 public:
  void begin(const plan::Collective&, bool) override { ++count; }
  void end() override {}
  void launched(std::span<const plan::Collective>) override {}
  void watch(const backends::DeviceExchange*) override {}

  int64_t count = 0;
};

struct Rank {
  std::vector<float> logits;
  int32_t token = -1;
  int64_t exchanges = 0;
};

class SharedStepsTest : public testing::Test {
 protected:
  // Runs `lead` on the first rank, with the second as its follower, and returns what each has made.
  std::vector<Rank> run(const std::function<void(Session&, StepLeader&)>& lead) {
    std::vector<Rank> made(2);
    const std::vector<std::string> errors = backends::run_in_threads(2, [&](int rank, int port) {
      backends::cpu::CpuOptions one;
      one.threads = 1;
      const auto backend = backends::cpu::make_cpu_backend(one);
      SessionOptions options = at_level("compiled", 16);
      options.slots = 2;
      Session session(file_, options, *backend);
      const auto ranks = backends::join_tcp({"127.0.0.1", port, rank, 2});
      Exchanges exchanges;
      ranks->tell(&exchanges, "all");
      if (rank == 0) {
        StepLeader leader(session.runner(), *ranks);
        lead(session, leader);
        leader.end();
      } else {
        follow_steps(session.runner(), *ranks);
      }
      session.sampling().read();
      const Bucket* last = session.runner().last_bucket();
      made[static_cast<size_t>(rank)] = {last == nullptr ? std::vector<float>() : last->output(),
                                         session.sampling().token(0), exchanges.count};
    });
    for (const std::string& each : errors) EXPECT_EQ(each, "");
    return made;
  }

  models::ModelFile file_ = models::ModelFile::open(data_folder() + "llama_fp32");
};

TEST_F(SharedStepsTest, AFollowerComputesWhatTheLeaderDoes) {
  const std::vector<int32_t> prompt{1, 2, 3, 4, 5};
  const std::vector<Rank> made = run([&](Session& session, StepLeader&) {
    const Prompt begin{0, prompt, {}};
    std::vector<int32_t> token = session.start({&begin, 1});
    const int64_t slot = 0;
    session.step({&slot, 1}, token);
  });
  ASSERT_FALSE(made[0].logits.empty());
  EXPECT_EQ(made[1].logits, made[0].logits);
  EXPECT_EQ(made[1].token, made[0].token);
  EXPECT_EQ(made[1].exchanges, 3);  // the prompt, a token, and the end
}

// A follower that hears nothing for too long takes the leader for gone.
TEST_F(SharedStepsTest, AFollowerHearsOfALeaderThatRunsNothing) {
  const std::vector<Rank> made = run([](Session&, StepLeader& leader) {
    for (int i = 0; i < 4; ++i) leader.beat();
  });
  EXPECT_EQ(made[1].exchanges, 5);
  EXPECT_TRUE(made[1].logits.empty());
}

// The last block of a sequence is copied, in its keys and values, and the other slot goes on.
TEST_F(SharedStepsTest, AFollowerCopiesWhatTheLeaderCopies) {
  const std::vector<Rank> made = run([&](Session& session, StepLeader&) {
    KeptSequence first(session);
    const KeptSequence::Progress on = [] {};
    first.feed(std::vector<int32_t>{1, 2, 3, 4, 5}, on);
    const auto second = first.fork();
    second->feed(std::vector<int32_t>{6}, on);
  });
  Session whole(file_, at_level("compiled", 16), cpu_backend());
  const std::vector<float> want = last_logits(whole, std::vector<int32_t>{1, 2, 3, 4, 5, 6});
  ASSERT_EQ(made[1].logits.size(), made[0].logits.size());
  ASSERT_GE(made[1].logits.size(), want.size());
  EXPECT_EQ(made[1].logits, made[0].logits);
  EXPECT_LE(largest_difference(std::vector<float>(made[1].logits.begin(),
                                                  made[1].logits.begin() + std::ssize(want)),
                               want),
            1e-4);
}

}  // namespace
}  // namespace ridge::serve
