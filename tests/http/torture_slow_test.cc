// SPDX-License-Identifier: Apache-2.0
// A minute of torture, or RIDGE_TORTURE_SECONDS, of SmolLM2 if this machine has it, else of a small
// model.
#include <cstdlib>

#include "http/torture.h"

namespace ridge::http {
namespace {

TEST(Torture, OfAPublishedModel) {
  const char* given = std::getenv("RIDGE_TORTURE_SECONDS");
  const double seconds = given == nullptr ? 60 : std::atof(given);
  const std::string published = serve::published_model("SmolLM2-135M-Instruct.Q4_1.gguf");
  const bool is_small = published.empty();
  serve::SessionOptions options = serve::at_level("compiled", 0);
  options.selection = passes::Selection("compiled", "-tune_gemm,+quantize_activations");
  const TorturedServer under(is_small ? serve::data_folder() + "llama_fp32" : published,
                             serve::cpu_backend(), options);
  // Sums of quantized products may differ in batches of other sizes.
  torture(under, seconds, is_small);
}

}  // namespace
}  // namespace ridge::http
