// SPDX-License-Identifier: Apache-2.0
// Every op on a backend against its double reference: each of its cases, with each way of feeding
// its operands and each element type that it supports. Generated from the table of ops, without
// knowledge of any op.
#include <gtest/gtest.h>

#include <set>

#include "backends/op_check.h"
#include "backends/op_samples.h"

namespace ridge::backends {
namespace {

class OpConformance : public testing::TestWithParam<Sample> {};

TEST_P(OpConformance, ValuesMatchTheReference) {
  const auto& [op, sample] = GetParam();
  for (const Variant& form : forms(GetParam())) {
    std::vector<Variant> variants;
    for (OperandForm operands : kOperandForms)
      variants.push_back({operands, form.dtype, form.fused, false});
    variants.push_back({OperandForm::kPlain, form.dtype, form.fused, true});
    variants.push_back({OperandForm::kWiderRows, form.dtype, form.fused, true});
    for (const Variant& variant : variants) {
      SCOPED_TRACE(variant.str());
      std::string fault;
      EXPECT_NO_THROW(fault = check_values(*op, sample, ops::table(), variant, tested_backend(),
                                           precision_of(*op, sample, variant)));
      EXPECT_EQ("", fault);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, OpConformance, testing::ValuesIn(all_samples()), sample_name);

TEST(OpCases, EveryOpHasSome) {
  const std::set<std::string> without = {
      // Its o and lse must match its q, k and v, so the gradient of flash_attention tests it.
      "flash_attention_backward",
      // A pass generates its program; op_cluster_test.cc tests it.
      "generated_pointwise",
  };
  for (const Op* op : ops::table().all()) {
    bool has = op->cases != nullptr && !op->cases().empty();
    EXPECT_EQ(has, !without.contains(op->name)) << op->name;
    EXPECT_NE(op->reference, nullptr) << op->name;
  }
}

TEST(OpCases, TheBackendRunsEachOfThem) {
  for (const Sample& s : all_samples()) {
    if (s.op->kind == OpKind::kView || (s.op->kind == OpKind::kComposite && !has_fused_form(*s.op)))
      continue;
    Variant variant;
    variant.fused = has_fused_form(*s.op);
    SampleGraph built(*s.op, s.sample, ops::table(), variant);
    EXPECT_EQ("", tested_backend().unsupported(built.graph(), built.graph().nodes.back()))
        << s.op->name;
  }
}

}  // namespace
}  // namespace ridge::backends
