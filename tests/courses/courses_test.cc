// SPDX-License-Identifier: Apache-2.0
// The rows that courses add to the engine's lists.
#include "courses/courses.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "bench/module_trial.h"
#include "courses/ladder_gemm.h"
#include "ops/registry.h"
#include "report/output_files.h"

namespace ridge::courses {
namespace {

// As the program does, before anything reads the lists.
class AddedCourses : public testing::Environment {
  void SetUp() override {
    EXPECT_THROW(bench::check_bytes_name("notebook"), Error);
    add_to_program();
  }
};
const auto* const kCourses = testing::AddGlobalTestEnvironment(new AddedCourses);

TEST(Courses, AddTheirRows) {
  ASSERT_NE(kCourses, nullptr);
  EXPECT_NE(ops::table().find("ladder_gemm"), nullptr);
  EXPECT_THROW(ops::add_op(ladder_gemm_op()), InternalError) << "the table is made";
  EXPECT_NO_THROW(bench::check_bytes_name("notebook"));
  ASSERT_EQ(report::file_formats().size(), 1u);
  EXPECT_EQ(report::file_formats()[0].name, "workshop");
  using bench::published_ns;
  const auto blog = published_ns("llama-2-7b", "eager", "prefill", 16, 2048);
  EXPECT_EQ(blog, (std::map<std::string, double>{{"MI210, PyTorch fp16", 7810e6}}));
  EXPECT_EQ(published_ns("llama-2-7b", "tuned", "decode", 8, 2048).at("MI210, PyTorch fp16"), 15e6);
  EXPECT_EQ(published_ns("llama-2-7b", "compiled", "decode", 1, 2048).size(), 2u);
  EXPECT_TRUE(published_ns("llama-2-7b", "eager", "prefill", 1, 1024).empty());
}

}  // namespace
}  // namespace ridge::courses
