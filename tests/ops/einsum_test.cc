// SPDX-License-Identifier: Apache-2.0
// einsum and rearrange: values against plain loops on random notations, the order of products
// against all orders, and what is refused. tests/passes/einsum_gradient_test.cc tests gradients.
#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"
#include "graph/verifier.h"
#include "ops/contraction.h"
#include "ops/einsum_trial.h"
#include "ops/rearrangement.h"

namespace ridge::ops {
namespace {

TEST(Einsum, HasTheValuesOfLoops) {
  Random random(11);
  for (int n = 0; n < 400; ++n) {
    const Trial trial = draw_trial(random, n < 380 ? 5 : 10);
    SCOPED_TRACE(trial.notation());
    Built built;
    for (const Tensor64& operand : trial.operands) built.add(operand);
    const ValueId got = built.expanded("einsum", {{"einsum", trial.notation()}});
    verify(built.graph);
    EXPECT_EQ(built.b.shape(got), trial.shape(trial.out));
    const std::vector<double> want = by_loops(trial);
    const ReferenceRun run(built.graph, built.named);
    ASSERT_EQ(run[got].size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(run[got][i], want[i], 1e-9);
    EXPECT_EQ(built.count("copy"), 0);
  }
}

// The fewest FLOPs of all binary trees, by trying every pair of values next.
double least_flops(const Trial& trial, std::vector<std::string> values) {
  if (values.size() == 1) return 0;
  double least = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < values.size(); ++i)
    for (size_t j = i + 1; j < values.size(); ++j) {
      std::vector<std::string> rest;
      std::string others = trial.out, kept, all;
      for (size_t k = 0; k < values.size(); ++k)
        if (k != i && k != j) {
          rest.push_back(values[k]);
          others += values[k];
        }
      double flops = 1;
      for (char letter : values[i] + values[j]) {
        if (all.find(letter) != std::string::npos) continue;
        all += letter;
        flops *= static_cast<double>(trial.extents.at(letter));
        if (others.find(letter) != std::string::npos) kept += letter;
      }
      if (kept.size() < all.size()) flops *= 2;
      rest.push_back(kept);
      least = std::min(least, flops + least_flops(trial, rest));
    }
  return least;
}

TEST(Einsum, FindsTheCheapestOrder) {
  Random random(13);
  for (int n = 0; n < 100; ++n) {
    const Trial trial = draw_trial(random, 5);
    std::vector<Type> types;
    for (const Tensor64& operand : trial.operands) types.push_back(operand.type);
    const Contraction c = parse_contraction(trial.notation(), types);
    const ContractionOrder order = order_of(c);
    double flops = static_cast<double>(work_of(c, order).flops);
    for (size_t i = 0; i < c.operands.size(); ++i)
      if (order.reduced[i] != c.operands[i])
        flops -= static_cast<double>(c.elements(c.operands[i]));
    EXPECT_EQ(flops, least_flops(trial, order.reduced)) << trial.notation();
  }
}

Work work_of_text(const std::string& notation, const std::vector<Shape>& shapes) {
  std::vector<Type> types;
  for (const Shape& shape : shapes) types.push_back({DType::kF32, shape});
  const Contraction c = parse_contraction(notation, types);
  return work_of(c, order_of(c));
}

// Cormen et al., Introduction to Algorithms, matrix-chain multiplication: 7,500 for three matrices,
// and 15,125 for the six of the section's figure.
TEST(Einsum, MultipliesMatrixChainsAsTheTextbookDoes) {
  EXPECT_EQ(work_of_text("ab,bc,cd->ad", {{10, 100}, {100, 5}, {5, 50}}).macs, 7500);
  EXPECT_EQ(work_of_text("ab,bc,cd,de,ef,fg->ag",
                         {{30, 35}, {35, 15}, {15, 5}, {5, 10}, {10, 20}, {20, 25}})
                .macs,
            15125);
}

TEST(Einsum, LowersToTheFewestNodes) {
  auto nodes = [](const std::string& notation, const std::vector<Shape>& shapes) {
    Built built;
    for (const Shape& shape : shapes)
      built.add(
          {{DType::kF32, shape}, std::vector<double>(static_cast<size_t>(shape.elements()), 1.0)});
    built.expanded("einsum", {{"einsum", notation}});
    std::string text;
    for (const Node& node : built.graph.nodes) text += (text.empty() ? "" : " ") + node.op->name;
    return text;
  };
  EXPECT_EQ(nodes("bhqd,bhkd->bhqk", {{2, 3, 4, 5}, {2, 3, 6, 5}}), "matmul");
  EXPECT_EQ(nodes("ij->ji", {{2, 3}}), "transpose");
  EXPECT_EQ(nodes("ij->ij", {{2, 3}}), "");
  EXPECT_EQ(nodes("ij->j", {{2, 3}}), "reduce_sum reshape");
  EXPECT_EQ(nodes("i,j->ij", {{2}, {3}}), "reshape broadcast reshape broadcast mul");
  EXPECT_EQ(nodes("ab,bc,cd->da", {{2, 3}, {3, 4}, {4, 5}}), "matmul matmul");
  // Batch letters that vary fastest: a view moves them to the front, and one moves them back.
  EXPECT_EQ(nodes("ib,jb->ijb", {{2, 3}, {4, 3}}).find("matmul"), std::string::npos);
  EXPECT_EQ(nodes("ikb,kjb->ijb", {{2, 5, 3}, {5, 4, 3}}), "transpose transpose matmul transpose");
  EXPECT_EQ(nodes("abcdi,abcdi->abcd", {{2, 2, 2, 2, 3}, {2, 2, 2, 2, 3}}),
            "reshape reshape matmul reshape");
}

TEST(Einsum, AlignsDotsAtTheirLastAxis) {
  EXPECT_EQ(work_of_text("...ij,...jk->...ik", {{7, 1, 2, 3}, {5, 3, 4}}).macs, 7 * 5 * 2 * 3 * 4);
  EXPECT_EQ(work_of_text("i...,i->...", {{3, 4, 5}, {3}}).macs, 60);
}

std::string einsum_refusal(const std::string& notation, const std::vector<Shape>& shapes) {
  try {
    work_of_text(notation, shapes);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Einsum, RefusesWhatItsHeaderExcludes) {
  const std::vector<std::pair<std::string, std::vector<Shape>>> all = {
      {"ii->i", {{3, 3}}},         {"ij,jk", {{2, 3}, {3, 4}}},
      {"ij->iij", {{2, 3}}},       {"ij,jk->ik", {{2, 3}}},
      {"ij->k", {{2, 3}}},         {"ij->i", {{2}}},
      {"i1->i", {{2, 3}}},         {"..i->i", {{2, 3}}},
      {"...i......->i", {{2, 3}}}, {"...i->i", {{2, 3}}},
      {"i,i->i", {{2}, {3}}},      {"...i,...i->...", {{2, 3}, {4, 3}}},
      {"i->i->i", {{2}}},          {"i,->i", {{2}}},
      {"\xff->i", {{2}}}};
  for (const auto& [notation, shapes] : all)
    EXPECT_EQ(einsum_refusal(notation, shapes).rfind("[einsum]", 0), 0u) << notation;
  const int64_t large = int64_t{1} << 31;
  EXPECT_NE(einsum_refusal("a,b,c->abc", {{large}, {large}, {large}}), "");
}

// einops' own rule, element by element, for patterns of single axes.
TEST(Rearrange, PermutesSplitsAndMerges) {
  Random random(14);
  const std::map<std::string, int64_t> sizes = {{"a", 2}, {"b", 3}, {"c", 4}, {"d", 5}};
  for (int n = 0; n < 100; ++n) {
    // A random order on each side, cut into random groups.
    std::vector<std::string> names = {"a", "b", "c", "d"};
    auto side = [&](std::vector<std::string>& order, std::vector<int64_t>& dims) {
      for (size_t i = order.size(); i > 1; --i)
        std::swap(order[i - 1], order[random.below(static_cast<uint32_t>(i))]);
      std::string text;
      for (size_t i = 0; i < order.size();) {
        const size_t end = std::min<size_t>(order.size(), i + 1 + random.below(2));
        text += text.empty() ? "(" : " (";
        dims.push_back(1);
        for (; i < end; ++i) {
          text += order[i] + " ";
          dims.back() *= sizes.at(order[i]);
        }
        text += ")";
      }
      return text;
    };
    std::vector<std::string> before = names, after = names;
    std::vector<int64_t> from, to;
    const std::string left = side(before, from), right = side(after, to);
    const std::string pattern = left + " -> " + right;
    SCOPED_TRACE(pattern);
    Built built;
    const Tensor64 x = draw({DType::kF32, Shape(from)}, {}, random);
    built.add(x);
    const ValueId got =
        built.expanded("rearrange", {{"pattern", pattern}, {"sizes", std::string("a=2,b=3,c=4")}});
    EXPECT_EQ(built.b.shape(got), Shape(to));
    const ReferenceRun run(built.graph, built.named);
    std::map<std::string, int64_t> at;
    auto flat = [&](const std::vector<std::string>& order) {
      int64_t place = 0;
      for (const std::string& name : order) place = place * sizes.at(name) + at[name];
      return static_cast<size_t>(place);
    };
    for (at["a"] = 0; at["a"] < 2; ++at["a"])
      for (at["b"] = 0; at["b"] < 3; ++at["b"])
        for (at["c"] = 0; at["c"] < 4; ++at["c"])
          for (at["d"] = 0; at["d"] < 5; ++at["d"])
            ASSERT_EQ(run[got][flat(after)], x.data[flat(before)]);
    EXPECT_EQ(built.count("copy"), 0);
  }
}

// Seven names move as three axes; a tensor has at most six.
TEST(Rearrange, MovesAdjacentAxesAsOne) {
  const Rearrangement r =
      parse_rearrangement("(a b) c (d e f) g -> g (d e) f a (b c)", "a=2,d=3,e=2", {4, 5, 12, 7});
  EXPECT_EQ(r.split, (Shape{20, 12, 7}));
  EXPECT_EQ(r.permutation, (std::vector<int64_t>{2, 1, 0}));
  EXPECT_EQ(r.merged, (Shape{7, 6, 2, 2, 10}));
}

TEST(Rearrange, RefusesWhatItsHeaderExcludes) {
  auto refusal = [](const char* pattern, const char* sizes, const Shape& shape) -> std::string {
    try {
      parse_rearrangement(pattern, sizes, shape);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const Shape shape{4, 6};
  for (const auto& [pattern, sizes] : std::vector<std::pair<const char*, const char*>>{
           {"a b", ""},
           {"a b -> a", ""},
           {"a b -> a b c", ""},
           {"a a -> a a", ""},
           {"a -> a", ""},
           {"a b c -> a b c", ""},
           {"(a b) c -> a b c", ""},
           {"(a b) c -> a b c", "a=3"},
           {"(a b) c -> a b c", "a=0"},
           {"(a b) c -> a b c", "x=2"},
           {"(a b) c -> a b c", "a=2,a=2"},
           {"(a b) c -> a b c", "a=99999999999999999999"},
           {"((a) b) c -> a b c", "a=2"},
           {"(a b c -> a b c", "a=2"},
           {"a) b -> a b", ""},
           {"a 2 -> a 2", ""},
           {"a 1 -> a", ""},
           {"... a ... -> a ...", ""},
           {"(... a) -> a ...", ""},
           {"a! b -> a! b", ""}})
    EXPECT_EQ(refusal(pattern, sizes, shape).rfind("[rearrange]", 0), 0u)
        << pattern << " " << sizes;
  EXPECT_EQ(refusal("a b -> b a 1 1 1 1", "", shape), "");
  EXPECT_NE(refusal("a b -> b a 1 1 1 1 1", "", shape), "");
}

}  // namespace
}  // namespace ridge::ops
