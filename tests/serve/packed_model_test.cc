// SPDX-License-Identifier: Apache-2.0
// Models that GPTQ, AWQ and compressed-tensors quantized have the logits of the models into which
// they are unpacked: in fp32 up to the order of sums, else within the rounding of activations.
#include <gtest/gtest.h>

#include "backends/cpu/isa.h"
#include "files/scratch.h"
#include "models/convert.h"
#include "serve/real_model.h"

namespace ridge::serve {
namespace {

class PackedModel : public testing::TestWithParam<const char*> {
 protected:
  PackedModel() : packed_(models::ModelFile::open(data_folder() + "quantized/" + GetParam())) {
    models::convert_to_folder(packed_, folder_ / "f32", {.type = DType::kF32});
    whole_ = std::make_unique<models::ModelFile>(models::ModelFile::open(folder_ / "f32"));
  }
  double distance(const std::string& switches) {
    SessionOptions options = at_level("compiled", 128);
    options.selection = passes::Selection("compiled", "-tune_gemm" + switches);
    Session packed(packed_, options, cpu_backend()),
        whole(*whole_, at_level("compiled", 128), cpu_backend());
    double most = largest_difference(last_logits(packed, ids_), last_logits(whole, ids_));
    for (int32_t id : {3, 50, 21}) {
      int64_t slot = 0;
      packed.step({&slot, 1}, {&id, 1});
      whole.step({&slot, 1}, {&id, 1});
      most = std::max(most, largest_difference(packed.logits(0), whole.logits(0)));
    }
    return most;
  }

  files::ScratchFolder folder_;
  models::ModelFile packed_;
  std::unique_ptr<models::ModelFile> whole_;
  std::vector<int32_t> ids_{5, 9, 60, 33, 2, 17, 48};
};

TEST_P(PackedModel, HasTheLogitsOfItsUnpackedWeights) {
  EXPECT_LE(distance(""), 5e-5);
  EXPECT_LE(distance(",+store_f32"), 5e-5);
}

// Activations of 16 bits have 2^-15 of the largest in a row as their step; with AMX they have 8
// bits, whose step is 256 times as large.
TEST_P(PackedModel, HasThemWithRoundedActivations) {
  constexpr double kOf16Bits = 2e-3;
  const double allowed = backends::cpu::quantized_isa() == backends::cpu::QuantizedIsa::kAmx
                             ? 256 * kOf16Bits
                             : kOf16Bits;
  EXPECT_LE(distance(",+quantize_activations,+pack_weights"), allowed);
  EXPECT_LE(distance(",+quantize_activations,-pack_weights"), allowed);
}

INSTANTIATE_TEST_SUITE_P(
    All,
    PackedModel,
    testing::Values("gptq_g128", "gptq_g32", "gptq_g32_act_order", "awq_g128", "compressed_g64"));

}  // namespace
}  // namespace ridge::serve
