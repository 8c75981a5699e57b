// SPDX-License-Identifier: Apache-2.0
// The op ladder_gemm against matmul: results in double precision and counts.
#include "courses/ladder_gemm.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/random.h"
#include "graph/builder.h"
#include "ops/registry.h"

namespace ridge::courses {
namespace {

std::vector<double> results(const Op& op, const Attrs& attrs, const std::vector<Tensor64>& inputs) {
  const std::vector<Type> types = {inputs[0].type, inputs[1].type};
  const std::vector<Type> made = op.infer({types, {}, attrs});
  std::vector<Tensor64> outputs = {{made[0], std::vector<double>(made[0].shape.elements())}};
  op.reference({types, made, attrs}, std::vector{&inputs[0], &inputs[1]}, outputs);
  return outputs[0].data;
}

TEST(LadderGemm, IsTheMatrixProduct) {
  const Op &ladder = ladder_gemm_op(), &matmul = ops::table().at("matmul");
  const Attrs equation = complete_attrs(matmul, {{"einsum", std::string("nk,km->nm")}});
  for (const Case& sample : ladder.cases()) {
    std::vector<Tensor64> inputs;
    std::vector<Type> types;
    for (const CaseInput& each : sample.inputs) {
      std::vector<float> drawn(each.type.shape.elements());
      Random(types.size() + 1).fill_normal(drawn, 1);
      inputs.push_back({each.type, {drawn.begin(), drawn.end()}});
      types.push_back(each.type);
    }
    const std::vector<double> found = results(ladder, sample.attrs, inputs),
                              want = results(matmul, equation, inputs);
    ASSERT_EQ(found.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(found[i], want[i], 1e-12) << i;
    const std::vector<Type> made = ladder.infer({types, {}, sample.attrs});
    EXPECT_EQ(ladder.work({types, made, sample.attrs}), matmul.work({types, made, equation}));
  }
}

TEST(LadderGemm, RefusesOtherKernelsAndShapes) {
  const std::vector<Type> fit = {{DType::kF32, {4, 8}}, {DType::kF32, {8, 2}}},
                          unfit = {{DType::kF32, {4, 8}}, {DType::kF32, {7, 2}}};
  const Attrs naive{{"kernel", std::string("naive")}}, other{{"kernel", std::string("best")}};
  EXPECT_NO_THROW(ladder_gemm_op().infer({fit, {}, naive}));
  EXPECT_THROW(ladder_gemm_op().infer({fit, {}, other}), Error);
  EXPECT_THROW(ladder_gemm_op().infer({unfit, {}, naive}), Error);
}

}  // namespace
}  // namespace ridge::courses
