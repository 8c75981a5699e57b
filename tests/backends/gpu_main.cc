// SPDX-License-Identifier: Apache-2.0
// Runs the GPU tests if there is a GPU. Otherwise one test represents them all and is skipped with
// the reason, and only the tests that need no GPU run.
#include <gtest/gtest.h>

#include <string>

#include "backends/cuda/cuda_backend.h"
#ifdef RIDGE_COURSES
#include "courses/courses.h"
#endif

namespace {

class NeedsGpu : public testing::Test {
 public:
  explicit NeedsGpu(std::string why) : why_(std::move(why)) {}
  void TestBody() override { GTEST_SKIP() << why_; }

 private:
  std::string why_;
};

}  // namespace

int main(int argc, char** argv) {
#ifdef RIDGE_COURSES
  ridge::courses::add_to_program();
#endif
  testing::InitGoogleTest(&argc, argv);
  std::string why = ridge::backends::cuda::why_no_gpu();
  if (!why.empty()) {
    testing::RegisterTest("Gpu", "IsThere", nullptr, nullptr, __FILE__, __LINE__,
                          [why]() -> testing::Test* { return new NeedsGpu(why); });
    testing::GTEST_FLAG(filter) = "Gpu.IsThere:CudaFaults.*";
  }
  return RUN_ALL_TESTS();
}
