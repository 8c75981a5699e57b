// SPDX-License-Identifier: Apache-2.0
// A saved model: it has the files that transformers' loader expects, with the trained numbers.
#include "train/trained_model.h"

#include <gtest/gtest.h>

#include "base/block_formats.h"
#include "files/scratch.h"
#include "models/model_file.h"
#include "models/parameter_list.h"
#include "train/small_run.h"

namespace ridge::train {
namespace {

// Merged projections and fused updates are tested too: the inverse of the load graph splits them.
TEST(TrainedModel, IsReadBackParameterByParameter) {
  for (const char* level : {"baseline", "compiled"}) {
    auto backend = cpu_backend(1);
    Trainer trainer({small_config(), small_step(), passes::Selection(level, "-tune_gemm")},
                    *backend);
    losses(trainer, 3);
    files::ScratchFolder folder;
    save_model(trainer, folder / "model");
    models::ModelFile file = models::ModelFile::open(folder / "model");
    EXPECT_FALSE(file.config().rope_interleaved);
    EXPECT_EQ(file.config().parameters(), trainer.config().parameters());
    EXPECT_EQ(file.config().norm_eps, trainer.config().norm_eps);
    EXPECT_EQ(file.tensors().all().size(), models::parameters_of(file.config()).size());
    int compared = 0;
    auto compare = [&](const std::string& name, const Type& type, const std::vector<float>& kept) {
      const files::FileTensor& tensor = file.tensors().at(name, type.shape);
      std::vector<float> saved(kept.size());
      dequantize(tensor.dtype, tensor.bytes, saved);
      ++compared;
      EXPECT_TRUE(models::is_rotated(name) || saved == kept) << name;
      if (!models::is_rotated(name)) return;
      // Row 2i + j of a head in training is row i + 4 j of eight in the file.
      for (size_t row = 0; row < kept.size() / 32; ++row) {
        size_t to = row / 8 * 8 + row % 8 / 2 + row % 2 * 4;
        for (size_t i = 0; i < 32; ++i) ASSERT_EQ(saved[to * 32 + i], kept[row * 32 + i]) << name;
      }
    };
    runtime::save_parameters(trainer.graphs().load, trainer.store(), compare);
    EXPECT_EQ(compared, 2 * 9 + 2);
    files::expect_error([&] { save_model(trainer, folder / "model"); }, ExitCode::kUsage,
                        "one with files in it");
  }
}

// A step that is far too large: afterwards, the parameters from layer 0 to the head are not finite.
TEST(TrainedModel, IsNotSavedWhereTrainingDiverged) {
  auto backend = cpu_backend(1);
  StepOptions options = small_step(1e30);
  Trainer trainer({small_config(), options, passes::Selection("compiled", "-tune_gemm")}, *backend);
  files::expect_error(
      [&] { losses(trainer, 5); }, ExitCode::kRuntime,
      "has nan; the first parameter that is not finite is model.embed_tokens.weight");
  const auto poison = [&] {
    trainer.store().write("model.norm.weight", std::vector<float>(32, NAN).data(), 32 * 4);
  };
  poison();
  files::ScratchFolder folder;
  files::expect_error([&] { save_model(trainer, folder / "model"); }, ExitCode::kRuntime,
                      "values that are not finite");
  EXPECT_EQ(folder.count(), 0u);
}

}  // namespace
}  // namespace ridge::train
