// SPDX-License-Identifier: Apache-2.0
// Models cut into stages, ranks of threads here: every rank has the tokens and the output that the
// whole model has.
#include "serve/model_stage.h"

#include <gtest/gtest.h>

#include "backends/machine.h"
#include "backends/ranks_in_threads.h"
#include "models/inference_names.h"
#include "plan/rank_layout.h"
#include "serve/engine.h"
#include "serve/real_model.h"
#include "serve/shared_steps.h"

namespace ridge::serve {
namespace {

struct Ran {
  std::vector<int32_t> tokens;
  std::vector<float> output;
  int64_t layers = 0;  // with keys in the store
};

class ModelStageTest : public testing::Test {
 protected:
  SessionOptions options(const ModelStage& stage) const {
    SessionOptions made = at_level("compiled", 32);
    made.stage = stage;
    return made;
  }
  std::vector<int32_t> tokens(Session& session) const {
    const Prompt prompt{0, prompt_, {}};
    std::vector<int32_t> made = session.start({&prompt, 1});
    const int64_t slot = 0;
    while (made.size() < 4) {
      made.push_back(-1);
      session.step({&slot, 1}, {&made.back(), 1});
    }
    return made;
  }
  Ran ran(Session& session, const std::vector<int32_t>& tokens) const {
    Ran made;
    made.tokens = tokens;
    made.output = session.runner().last_bucket()->output();
    for (int64_t layer = 0; layer < file_.config().layers; ++layer)
      made.layers += session.runner().store().has(models::cache_state(layer, "keys")) ? 1 : 0;
    return made;
  }
  Ran whole() const {
    Session session(file_, options({}), cpu_backend());
    return ran(session, tokens(session));
  }
  // The group of all stages, and those of two that follow each other.
  static backends::Groups groups_of(int stages, int rank, backends::RankWorld& world) {
    backends::Groups groups;
    groups[plan::kPipelineGroup] = world.split(0);
    for (int from = 0; from < (stages == 2 ? 1 : stages); ++from) {
      const int to = (from + 1) % stages;
      const bool is_inside = rank == from || rank == to;
      auto pair = world.split(is_inside ? 0 : 1 + rank);
      if (is_inside) groups[plan::stage_pair(from, to, stages)] = std::move(pair);
    }
    return groups;
  }
  std::vector<Ran> in_stages(int count) const {
    std::vector<Ran> made(static_cast<size_t>(count));
    const auto errors =
        backends::run_ranks_in_threads(count, [&](int rank, backends::RankWorld& world) {
          const auto all = world.split(0);
          const backends::Groups groups = groups_of(count, rank, world);
          backends::MachineOptions machine;
          machine.device = "cpu";
          machine.threads = 1;
          machine.groups = &groups;
          const SessionOptions of = options(model_stage(file_, rank, count));
          const auto backend = backends::make_backend(machine, of.selection);
          Session session(file_, of, *backend);
          warm_up(session, {});  // loads the weights of the stage
          std::vector<int32_t> sampled;
          if (rank == 0) {
            StepLeader leader(session.runner(), *all);
            sampled = tokens(session);
            leader.end();
          } else {
            follow_steps(session.runner(), *all);
            session.sampling().read();
            sampled.push_back(session.sampling().token(0));
          }
          made[static_cast<size_t>(rank)] = ran(session, sampled);
        });
    EXPECT_EQ(errors, std::vector<std::string>(static_cast<size_t>(count)));
    return made;
  }
  void expect_all_have_the_results(const std::vector<Ran>& made) const {
    const Ran want = whole();
    EXPECT_EQ(want.layers, 3);
    EXPECT_EQ(made[0].tokens, want.tokens);
    for (size_t rank = 0; rank < made.size(); ++rank) {
      EXPECT_EQ(made[rank].tokens.back(), want.tokens.back()) << rank;
      EXPECT_LE(largest_difference(made[rank].output, want.output), 1e-4) << rank;
    }
  }

  models::ModelFile file_ = models::ModelFile::open(data_folder() + "llama_fp32");
  const std::vector<int32_t> prompt_{1, 2, 3, 4, 5};
};

TEST_F(ModelStageTest, HasSomeOfTheLayers) {
  const ModelStage whole = model_stage(file_, 0, 1);
  EXPECT_TRUE(whole.is_whole());
  EXPECT_TRUE(whole.is_last());
  EXPECT_TRUE(whole.first_layers.empty());
  for (int64_t index : {0, 1, 2}) {
    const ModelStage stage = model_stage(file_, index, 3);
    EXPECT_EQ(stage.index, index);
    EXPECT_EQ(stage.count, 3);
    EXPECT_FALSE(stage.is_whole());
    EXPECT_EQ(stage.is_last(), index == 2);
    EXPECT_EQ(stage.first_layers, (std::vector<int64_t>{0, 1, 2, 3}));
  }
  files::expect_error([&] { model_stage(file_, 0, 4); }, ExitCode::kUsage,
                      "[pipeline-parallel] expected at most 3 parts, one for each layer, got 4");
}

TEST_F(ModelStageTest, TwoHaveTheResultsOfTheWholeModel) {
  const std::vector<Ran> made = in_stages(2);
  expect_all_have_the_results(made);
  EXPECT_EQ(made[0].layers + made[1].layers, 3);
  EXPECT_GT(made[0].layers, 0);
  EXPECT_GT(made[1].layers, 0);
}

// The middle one passes results on, to the stage that does not.
TEST_F(ModelStageTest, ThreeHaveTheResultsOfTheWholeModel) {
  const std::vector<Ran> made = in_stages(3);
  expect_all_have_the_results(made);
  for (const Ran& each : made) EXPECT_EQ(each.layers, 1);
}

}  // namespace
}  // namespace ridge::serve
