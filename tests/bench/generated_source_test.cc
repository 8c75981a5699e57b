// SPDX-License-Identifier: Apache-2.0
// The source of a generated kernel is shown without a GPU.
#include "bench/generated_source.h"

#include <gtest/gtest.h>

#include "bench/graph_file.h"
#include "graph/text_form.h"
#include "ops/registry.h"
#include "train/small_run.h"

namespace ridge::bench {
namespace {

TEST(GeneratedSource, HasTheArithmeticOfTheGraph) {
  const auto backend = train::cpu_backend(1);
  const TrialGraph trial =
      trial_of(parse_graph("%0 = input f32[1000] \"x\"\n"
                           "%1 : f32[1000] = tanh(%0) #forward\n"
                           "%2 : f32[1000] = add_scalar(%1) {parameter=1.0} #forward\n"
                           "return %2\n",
                           ops::table()));
  TrialSetting setting;
  setting.selection = passes::Selection("compiled", "");
  const std::string source = generated_source(trial, setting, *backend);
  EXPECT_NE(source.find("2 operations, a thread for each of 250 vectors"), source.npos) << source;
  EXPECT_NE(source.find("launched with 1 block of 256 threads"), source.npos) << source;
  EXPECT_NE(source.find("tanhf(r0)"), source.npos) << source;
  EXPECT_NE(source.find("r1 + 1.0f"), source.npos) << source;
  EXPECT_EQ(source.find("gelu_tanh"), source.npos) << source;
  setting.selection = passes::Selection("baseline", "");
  EXPECT_EQ(generated_source(trial, setting, *backend),
            "No kernel is generated at level baseline.\n");
}

}  // namespace
}  // namespace ridge::bench
