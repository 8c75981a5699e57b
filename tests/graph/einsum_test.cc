// SPDX-License-Identifier: Apache-2.0
// Einsum notation: the classes of letters, and errors.
#include "graph/einsum.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace ridge {
namespace {

std::string refusal(std::string_view text) {
  try {
    parse_einsum(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    return error.what();
  }
  return "";
}

TEST(Einsum, SortsLettersIntoClasses) {
  Einsum e = parse_einsum("btkge,bske->bkgts");
  EXPECT_EQ(e.batch, "bk");
  EXPECT_EQ(e.m, "gt");
  EXPECT_EQ(e.n, "s");
  EXPECT_EQ(e.k, "e");
  EXPECT_EQ(e.str(), "btkge,bske->bkgts");
}

TEST(Einsum, TakesOuterAndInnerProducts) {
  Einsum outer = parse_einsum("a,b->ab");
  EXPECT_EQ(outer.m + "|" + outer.n + "|" + outer.k, "a|b|");
  Einsum inner = parse_einsum("ab,ab->");
  EXPECT_EQ(inner.k, "ab");
  EXPECT_EQ(inner.out, "");
  Einsum scalar = parse_einsum(",->");
  EXPECT_EQ(scalar.str(), ",->");
}

TEST(Einsum, RefusesWhatItsHeaderExcludes) {
  for (const char* text :
       {"", "ab", "ab,bc", "ab->ba", "ab->a,b", "ab,bc->ac,", "aB,bc->ac", "a b,bc->ac", "1,1->1"})
    EXPECT_NE(refusal(text), "") << text;
  EXPECT_EQ(refusal("aab,bc->ac"),
            "[einsum] the letter 'a' stands twice in one operand of 'aab,bc->ac'");
  EXPECT_EQ(refusal("ab,bc->aac"),
            "[einsum] the letter 'a' stands twice in one operand of 'ab,bc->aac'");
  EXPECT_EQ(refusal("ab,bc->acd"), "[einsum] 'd' of 'ab,bc->acd' is in no operand");
  EXPECT_EQ(refusal("abd,bc->ac"), "[einsum] 'd' of 'abd,bc->ac' is in one operand only");
  EXPECT_EQ(refusal("ab,bcd->ac"), "[einsum] 'd' of 'ab,bcd->ac' is in one operand only");
}

TEST(Einsum, ChecksExtents) {
  Einsum e = parse_einsum("nd,fd->nf");
  EinsumExtents extents(e, {5, 3}, {7, 3});
  EXPECT_EQ(extents['n'], 5);
  EXPECT_EQ(extents.product("nf"), 35);
  EXPECT_EQ(extents.product(""), 1);
  EXPECT_EQ(extents.shape("nf"), (Shape{5, 7}));
  EXPECT_THROW(EinsumExtents(e, {5, 3}, {7, 4}), Error);
  EXPECT_THROW(EinsumExtents(e, {5}, {7, 3}), Error);
  EXPECT_THROW(EinsumExtents(e, {5, 3}, {7, 3, 1}), Error);
}

TEST(Einsum, RefusesProductsThatOverflow) {
  EinsumExtents extents(parse_einsum("a,b->ab"), {int64_t{1} << 40}, {int64_t{1} << 40});
  EXPECT_THROW(extents.product("ab"), Error);
  EXPECT_THROW(extents.shape("ab"), Error);
}

}  // namespace
}  // namespace ridge
