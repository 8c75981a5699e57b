// SPDX-License-Identifier: Apache-2.0
// With batch_invariant, a sequence's logits have the same bits alone and in any company, however
// its prompt is cut, and when it is computed again.
#include "serve/company.h"

namespace ridge::serve {
namespace {

TEST(BatchInvariantTest, OfSmallModels) {
  for (const char* name : {"llama_fp32", "gemma3_bf16"})
    for (const char* more : {"", ",+store_f32"}) {
      SCOPED_TRACE(std::string(name) + more);
      const models::ModelFile file = models::ModelFile::open(data_folder() + name);
      BatchInvariant(file, more).compare(50);
    }
}

// Without it, some bits differ, so the comparison can fail.
TEST(BatchInvariantTest, IsNeeded) {
  const models::ModelFile file = models::ModelFile::open(data_folder() + "llama_fp32");
  BatchInvariant plain(file, ",-batch_invariant");
  EXPECT_GT(plain.differing(10), 0);
}

}  // namespace
}  // namespace ridge::serve
