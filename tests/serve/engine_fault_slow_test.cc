// SPDX-License-Identifier: Apache-2.0
// Each call of the engine's thread that allocates throws once, and many in a row.
#include "serve/engine_fault_case.h"

namespace ridge::serve {
namespace {

using EngineFaultSlowTest = EngineFaultCase;

TEST_P(EngineFaultSlowTest, EachEndsAtMostOneRequest) {
  try_each(file_.config().has_window_layers() ? 3 : 1);
}
TEST_P(EngineFaultSlowTest, ManyInARowEndRequestsAndNothingElse) { try_many_in_a_row(7); }

INSTANTIATE_TEST_SUITE_P(All, EngineFaultSlowTest, testing::ValuesIn(kEngineCases));

}  // namespace
}  // namespace ridge::serve
