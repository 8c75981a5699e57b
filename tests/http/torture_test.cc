// SPDX-License-Identifier: Apache-2.0
// A few seconds of torture: with kernels, and without, where all that runs is the server's threads.
#include "http/torture.h"

#include "backends/null/null_backend.h"

namespace ridge::http {
namespace {

constexpr double kSeconds = 5;

TEST(Torture, OfASmallModel) {
  const TorturedServer under(serve::data_folder() + "llama_fp32", serve::cpu_backend(),
                             serve::at_level("compiled", 0));
  torture(under, kSeconds, true);
}

TEST(Torture, OfAModelThatTakesNoTime) {
  const auto backend = backends::null::make_null_backend();
  const TorturedServer under(serve::data_folder() + "llama_fp32", *backend,
                             serve::at_level("compiled", 0));
  torture(under, kSeconds, true);
}

}  // namespace
}  // namespace ridge::http
