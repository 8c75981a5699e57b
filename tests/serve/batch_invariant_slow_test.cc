// SPDX-License-Identifier: Apache-2.0
// batch_invariant of published models, with quantized weights: in codes and exactly.
#include "serve/company.h"

namespace ridge::serve {
namespace {

class BatchInvariantPublished : public PublishedModelTest {};

TEST_P(BatchInvariantPublished, InCodesAndExactly) {
  BatchInvariant(*file_, ",+quantize_activations").compare(50);
  BatchInvariant(*file_, "").compare(5);
}

INSTANTIATE_TEST_SUITE_P(All,
                         BatchInvariantPublished,
                         testing::ValuesIn(kPublished),
                         PublishedModelTest::name);

}  // namespace
}  // namespace ridge::serve
