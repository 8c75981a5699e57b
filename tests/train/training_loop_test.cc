// SPDX-License-Identifier: Apache-2.0
// The driver of training calls its observers at the right moments, in their order.
#include "train/training_loop.h"

#include <algorithm>

#include "train/small_run.h"
#include "train/spike_guard.h"
#include "train/validation.h"

namespace ridge::train {
namespace {

// Writes down what it is told.
class Witness final : public Observer {
 public:
  Witness(std::string name, std::vector<std::string>& told) : name_(std::move(name)), told_(told) {}
  bool is_due(int64_t next) override { return std::ranges::find(due, next) != due.end(); }
  void at_boundary(int64_t next) override { tell("boundary", next); }
  void before_step(int64_t step, bool instrumented) override {
    tell(instrumented ? "instrument" : "begin", step);
  }
  void after_step(const StepEvent& event) override { tell("after", event.index); }
  void end(int64_t steps) override { tell("end", steps); }
  std::vector<int64_t> due;

 private:
  void tell(const char* what, int64_t step) {
    told_.push_back(name_ + what + " " + std::to_string(step));
  }
  std::string name_;
  std::vector<std::string>& told_;
};

using Told = std::vector<std::string>;

// A trainer with its data.
struct Training {
  explicit Training(const StepOptions& options = small_step(), const char* level = "baseline")
      : backend(cpu_backend(1)),
        trainer({small_config(), options, passes::Selection(level, "")}, *backend),
        data(synthetic_data(trainer)) {}
  std::unique_ptr<backends::Backend> backend;
  Trainer trainer;
  SyntheticData data;
};

TEST(TrainingLoop, AStepBeginsBeforeThePreviousOneIsDone) {
  Training training;
  Told told;
  Witness witness("", told);
  TrainingLoop loop(training.trainer, training.data, -1);
  loop.observe(witness);
  loop.run(2);
  loop.end();
  EXPECT_EQ(told,
            (Told{"begin -1", "begin 0", "after -1", "begin 1", "after 0", "after 1", "end 2"}));
  EXPECT_EQ(loop.finished(), 2);
}

TEST(TrainingLoop, AllPauseWhenOneHasWorkAndNoStepIsUnderWay) {
  Training training;
  Told told;
  Witness first("a ", told), second("b ", told);
  second.due = {2};
  TrainingLoop loop(training.trainer, training.data, 0);
  loop.observe(first);
  loop.observe(second);
  loop.run(3);
  EXPECT_EQ(told, (Told{"a begin 0", "b begin 0", "a begin 1", "b begin 1", "a after 0",
                        "b after 0", "a after 1", "b after 1", "a boundary 2", "b boundary 2",
                        "a begin 2", "b begin 2", "a after 2", "b after 2"}));
}

TEST(TrainingLoop, AStepThatRunsAloneOverlapsNoOther) {
  Training training;
  Told told;
  Witness witness("", told);
  TrainingLoop loop(
      training.trainer, training.data, 0,
      {[](int64_t step) { return step == 1; }, [](int64_t step) { return step == 1; }});
  loop.observe(witness);
  loop.run(4);
  EXPECT_EQ(told, (Told{"begin 0", "after 0", "instrument 1", "after 1", "begin 2", "begin 3",
                        "after 2", "after 3"}));
}

TEST(TrainingLoop, EndsAfterTheStepsThatHaveBegun) {
  Training training;
  Told told;
  Witness witness("", told);
  TrainingLoop loop(training.trainer, training.data, 0);
  loop.observe(witness);
  int asked = 0;
  loop.run(9, [&] { return ++asked >= 3; });  // asked once before each step
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(told, (Told{"begin 0", "begin 1", "after 0", "after 1"}));
  loop.run(3);  // goes on
  EXPECT_EQ(told.back(), "after 2");
}

// Observers that only look change no loss.
TEST(TrainingLoop, ObserversChangeNoLoss) {
  const auto losses_of = [](bool observed) {
    StepOptions options = small_step(kLearningByHeart);
    options.evaluates = true;
    Training training(options);
    std::vector<double> losses;
    std::vector<record::ValidationMetrics> validations;
    SyntheticData other(small_config().vocabulary, options.sequence, 5);
    const std::vector<Batch> batches{other.next(2)};
    StepListener listener([&](const StepEvent& event) { losses.push_back(event.result.loss); });
    Validation validation(training.trainer, batches, 2, 0,
                          [&](const auto& each) { validations.push_back(each); });
    NumericsInspection inspection(training.trainer, 3, 8);
    TrainingLoop loop(training.trainer, training.data, 0);
    loop.observe(listener);
    if (observed) {
      loop.observe(validation);
      loop.observe(inspection);
    }
    loop.run(8);
    loop.end();
    EXPECT_EQ(validations.size(), observed ? 4u : 0u);
    return losses;
  };
  EXPECT_EQ(losses_of(true), losses_of(false));  // bit for bit
}

TEST(Validation, IsDueEachSoManyStepsAndAtTheEndOnce) {
  StepOptions options = small_step();
  options.evaluates = true;
  Training training(options);
  const std::vector<Batch> batches{training.data.next(2)};
  std::vector<int64_t> validated;
  Validation validation(training.trainer, batches, 2, 4,
                        [&](const auto& each) { validated.push_back(each.step); });
  EXPECT_FALSE(validation.is_due(4));  // done by the run before
  EXPECT_FALSE(validation.is_due(5));
  EXPECT_TRUE(validation.is_due(6));
  validation.at_boundary(5);
  validation.at_boundary(6);
  EXPECT_EQ(validation.loss_after(6), training.trainer.evaluate(batches));
  EXPECT_FALSE(validation.loss_after(5));
  validation.end(6);
  validation.end(7);
  EXPECT_EQ(validated, (std::vector<int64_t>{6, 7}));
}

TEST(NumericsInspection, ChoosesTheLastOfEachSoManySteps) {
  Training training;
  const auto chosen = [&](int64_t every) {
    std::vector<int64_t> steps;
    NumericsInspection inspection(training.trainer, every, 8);
    for (int64_t step = -2; step < 8; ++step)
      if (inspection.is_due(step)) steps.push_back(step);
    return steps;
  };
  EXPECT_EQ(chosen(3), (std::vector<int64_t>{2, 5, 7}));
  EXPECT_EQ(chosen(0), std::vector<int64_t>{7});
  NumericsInspection inspection(training.trainer, 3, 8);
  inspection.at_boundary(1);
  EXPECT_FALSE(training.trainer.inspects_next());
  inspection.at_boundary(2);
  EXPECT_TRUE(training.trainer.inspects_next());
}

// Leaves all updates out but the first two.
class Refusal final : public Observer {
 public:
  bool skips_update(double) override { return ++asked > 2; }
  int asked = 0;
};

TEST(TrainingLoop, AnObserverLeavesUpdatesOut) {
  StepOptions options = small_step(kLearningByHeart);
  options.separates_update = true;
  Training training(options);
  std::string fates;
  StepListener listener([&](const StepEvent& event) { fates += event.result.skipped ? 's' : 'u'; });
  Refusal refusal;
  {
    TrainingLoop loop(training.trainer, training.data, 0);
    loop.observe(listener);
    loop.observe(refusal);
    loop.run(4);
  }
  EXPECT_EQ(fates, "uuss");
  const std::vector<Batch> batches = read_step(training.data, options);
  EXPECT_FALSE(training.trainer.step(batches).skipped);  // without the loop nobody is asked
  EXPECT_EQ(refusal.asked, 4);
}

}  // namespace
}  // namespace ridge::train
