// SPDX-License-Identifier: Apache-2.0
// An inspected step has the results of any other, and its numbers are those of the tensors.
#include "train/numerics.h"

#include "train/small_run.h"

namespace ridge::train {
namespace {

using record::NumericsRow;

struct Session {
  Session(const char* level, const char* switches, int64_t micro_batches)
      : backend(cpu_backend(1)) {
    StepOptions options = small_step();
    options.micro_batches = micro_batches;
    trainer = std::make_unique<Trainer>(
        StepSetup{small_config(), options, passes::Selection(level, switches)}, *backend);
    data.emplace(synthetic_data(*trainer));
  }
  StepResult step() { return trainer->step(read_step(*data, trainer->options())); }

  std::unique_ptr<backends::Backend> backend;
  std::unique_ptr<Trainer> trainer;
  std::optional<SyntheticData> data;
};

const NumericsRow& row(const record::NumericsRecord& record,
                       const std::string& kind,
                       const std::string& scope,
                       const std::string& dtype) {
  for (const NumericsRow& each : record.rows)
    if (each.kind == kind && each.scope == scope && each.dtype == dtype) return each;
  throw InternalError("no row " + kind + " " + scope + " " + dtype);
}

class NumericsTest : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, NumericsTest, every_level(), level_name<const char*>);

TEST_P(NumericsTest, InspectingChangesNothing) {
  for (const char* switches :
       {"-tune_gemm", "-tune_gemm,+autocast_bf16", "-tune_gemm,+autocast_f16"})
    for (const int64_t micro_batches : {1, 2}) {
      Session plain(GetParam(), switches, micro_batches),
          inspected(GetParam(), switches, micro_batches);
      for (int i = 0; i < 4; ++i) {
        if (i % 2 == 1) inspected.trainer->inspect_next();
        const StepResult want = plain.step(), got = inspected.step();
        EXPECT_EQ(got.loss, want.loss) << switches << " step " << i;
        EXPECT_EQ(got.numerics.has_value(), i % 2 == 1);
      }
    }
}

TEST_P(NumericsTest, CountsEachTensorOnce) {
  Session run(GetParam(), "-tune_gemm,+autocast_f16", 1);
  run.step();
  run.trainer->inspect_next();
  const StepResult result = run.step();
  const record::NumericsRecord& numerics = *result.numerics;
  EXPECT_EQ(numerics.step, 1);
  EXPECT_EQ(numerics.loss_scale, 65536);
  // Tied: the head has no parameter of its own.
  int64_t parameters = 0;
  for (const NumericsRow& each : numerics.rows)
    if (each.kind == "weights" && each.dtype == "f32") parameters += each.range.count;
  EXPECT_EQ(parameters, small_config().parameters());
  for (const char* kind : {"gradients", "first moments", "second moments"}) {
    int64_t count = 0;
    for (const NumericsRow& each : numerics.rows)
      if (each.kind == kind) count += each.range.count;
    EXPECT_EQ(count, parameters) << kind;
  }
  // The largest weight of the norms, from the store.
  double greatest = 0;
  for (const std::string& name : run.trainer->store().names())
    if (name.ends_with("norm.weight"))
      for (const float each : run.trainer->store().read_floats(name))
        greatest = std::max(greatest, std::abs(static_cast<double>(each)));
  EXPECT_EQ(row(numerics, "weights", "norms", "f32").range.greatest, greatest);
  EXPECT_GT(row(numerics, "activations", "mlp", "f16").range.count, 0);
  // No gradient of a weight is among those of activations. Only ops that are not fused have others
  // in fp32.
  const bool fuses =
      std::string_view(GetParam()) == "kernels" || std::string_view(GetParam()) == "compiled";
  for (const NumericsRow& each : numerics.rows)
    EXPECT_FALSE(fuses && each.kind == "activation gradients" && each.dtype == "f32" &&
                 each.scope != "head")
        << each.scope;
  EXPECT_GT(row(numerics, "activation gradients", "attention", "f16").range.count, 0);
}

// With the scale, fewer gradients of activations are 0 in fp16.
TEST(Numerics, ShowTheEffectOfTheLossScale) {
  auto zeros = [](double scale) {
    auto backend = cpu_backend(1);
    StepOptions options = small_step();
    options.loss_scaling.initial = scale;
    Trainer trainer({small_config(), options, passes::Selection("kernels", "+autocast_f16")},
                    *backend);
    SyntheticData data = synthetic_data(trainer);
    trainer.inspect_next();
    const StepResult result = trainer.step(read_step(data, trainer.options()));
    const record::NumberRange& range =
        row(*result.numerics, "activation gradients", "attention", "f16").range;
    return range.share(range.zeros + range.subnormals);
  };
  EXPECT_LT(zeros(65536), zeros(1) / 2);
}

}  // namespace
}  // namespace ridge::train
