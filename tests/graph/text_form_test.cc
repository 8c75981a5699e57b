// SPDX-License-Identifier: Apache-2.0
// The text form: printed graphs parse back to the same text, and for any text the parser returns a
// graph or throws an Error with the position.
#include "graph/text_form.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"
#include "graph/random_graph.h"
#include "graph/verifier.h"

namespace ridge {
namespace {

Graph parse(std::string_view text) { return parse_graph(text, ops::table()); }

// The message of the Error for a text, or "" if it parses.
std::string refusal(std::string_view text) {
  try {
    parse(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(TextForm, PrintsWhatItsHeaderShows) {
  Graph graph;
  Builder b(graph, ops::table());
  ValueId table = b.parameter("embedding.weight", {DType::kF32, {1000, 512}});
  ValueId ids = b.input("ids", {DType::kI32, {1024}});
  {
    auto scope = b.scope("embedding");
    graph.outputs = {b.call("embedding", {table, ids}, {{"dtype", std::string("bf16")}})};
  }
  EXPECT_EQ(
      print(graph),
      "origin 0 embedding \"embedding\" #forward (0,0,0) (0,524288,0)\n"
      "%0 = parameter f32[1000,512] \"embedding.weight\"\n"
      "%1 = input i32[1024] \"ids\"\n"
      "%2 : bf16[1024,512] = embedding(%0, %1) {dtype=\"bf16\"} @ \"embedding\" #forward <0f>\n"
      "return %2\n");
}

TEST(TextForm, FrozenParametersComeBack) {
  const std::string text = "%0 = frozen f32[2] \"w\"\n%1 = parameter f32[2] \"v\"\nreturn %0, %1\n";
  const Graph graph = parse(text);
  EXPECT_TRUE(graph.values[0].frozen);
  EXPECT_EQ(graph.values[0].storage, Storage::kParameter);
  EXPECT_FALSE(graph.values[1].frozen);
  EXPECT_EQ(print(graph), text);
}

TEST(TextForm, ReadsTheFormerNamesOfOps) {
  const std::string text =
      "origin 0 quantized_matmul \"\" #forward (6,12,0) (0,0,0)\n"
      "%0 = input f32[1,2] \"x\"\n"
      "%1 = parameter bf16[3,2] \"w\"\n"
      "%2 : f32[1,3] = quantized_matmul(%0, %1) @ \"\" #forward <0f>\n"
      "return %2\n";
  std::string former = text;
  former.replace(former.rfind("quantized_matmul"), 16, "matmul_group");
  EXPECT_EQ(print(parse(former)), text);
  const OpTable& ops = ops::table();
  EXPECT_EQ(ops.find("row_product"), ops.find("skinny_gemm"));
}

TEST(TextForm, RandomGraphsComeBack) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    RandomGraph random(seed, {.nodes = 20, .bf16 = true, .updates = true, .scopes = true});
    std::string text = print(random.graph());
    Graph back = parse(text);
    ASSERT_EQ(text, print(back)) << seed;
    verify(back);
    // Ids in the text may differ from ids in the graph, but its results are the same.
    std::vector<Tensor64> want = ops::ReferenceRun(random.graph(), random.named()).outputs();
    std::vector<Tensor64> got = ops::ReferenceRun(back, random.named()).outputs();
    for (size_t o = 0; o < want.size(); ++o) ASSERT_EQ(want[o].data, got[o].data) << seed;
  }
}

TEST(TextForm, AttributesOfEveryTypeComeBack) {
  std::string text =
      "%0 = input f32[4] \"a \\\"quoted\\\" name\\nand a line, \\\\ too\"\n"
      "%1 : f32[4] = generated_pointwise(%0) {program=graph {\n"
      "%0 = input f32[4] \"0\"\n"
      "%1 : f32[4] = scale(%0) {parameter=-1e-300} @ \"\" #forward\n"
      "return %1\n"
      "}} @ \"\" #backward\n"
      "%2 : f32[2,2] = reshape(%1) {shape=[2,2]} @ \"a/b c\" #load\n"
      "%3 : f32[2,2] = causal_mask(%2) {value=1e-300, window=3} @ \"\" #optimizer\n"
      "return %3, %0\n";
  EXPECT_EQ(text, print(parse(text)));
}

// Defaults are not printed, however they were written in the text. A value that differs from the
// default only in the sign of zero is printed.
TEST(TextForm, DefaultsAreLeftOut) {
  auto text = [](const std::string& attrs) {
    return "%0 = input f32[2,3] \"x\"\n%1 = parameter f32[3] \"w\"\n"
           "%2 : f32[2,3], %3 : f32[2,1] = rms_norm(%0, %1) {eps=0.001" +
           attrs + "} @ \"\" #forward\nreturn %2\n";
  };
  for (const char* attrs : {"", ", fused=false", ", fused=false, offset=0.0"}) {
    Graph graph = parse(text(attrs));
    EXPECT_EQ(print(graph), text("")) << attrs;
    EXPECT_FALSE(graph.nodes[0].attrs.flag("fused"));
    EXPECT_EQ(graph.nodes[0].attrs.real("offset"), 0);
  }
  for (const char* attrs : {", fused=true", ", offset=-0.0", ", fused=true, offset=1.0"})
    EXPECT_EQ(print(parse(text(attrs))), text(attrs));
}

TEST(TextForm, RealsComeBackBitByBit) {
  for (double value :
       {0.1, 1.0 / 3, 1e300, 5e-324, -0.0, 3.0, 123456789.0,
        std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()}) {
    Graph graph;
    Builder b(graph, ops::table());
    graph.outputs = {ops::scale(b, b.input("x", {DType::kF32, {1}}), value)};
    double back = parse(print(graph)).nodes[0].attrs.real("parameter");
    EXPECT_EQ(std::bit_cast<uint64_t>(value), std::bit_cast<uint64_t>(back)) << value;
  }
}

TEST(TextForm, EveryTruncationIsRefused) {
  RandomGraph random(4, {.nodes = 12, .bf16 = true, .updates = true, .scopes = true});
  std::string text = print(random.graph());
  ASSERT_EQ(refusal(text), "");
  // Up to the position from which only optional ids of outputs are missing.
  size_t end = text.rfind("return") + 6;
  for (size_t size = 0; size < end; ++size)
    ASSERT_NE(refusal(text.substr(0, size)), "") << text.substr(0, size);
  for (size_t size = end; size <= text.size(); ++size) refusal(text.substr(0, size));
}

// For any change of a text, parsing ends with a graph or an Error, and a graph that passes the
// verifier can be printed.
TEST(TextForm, DamagedTextNeverCrashes) {
  Random random(3);
  int refused = 0, parsed = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    RandomGraph graph(seed, {.nodes = 8, .bf16 = true, .updates = true, .scopes = true});
    const std::string text = print(graph.graph());
    for (int trial = 0; trial < 40; ++trial) {
      std::string damaged = text;
      for (uint32_t i = 0; i <= random.below(3); ++i) {
        size_t at = random.below(static_cast<uint32_t>(damaged.size()));
        size_t other = random.below(static_cast<uint32_t>(damaged.size()));
        constexpr std::string_view kBytes = "%0123456789[]{}(),=:<>\"\\#@-.ef \n\xff\x00";
        switch (random.below(5)) {
          case 0:
            damaged.erase(at, 1 + random.below(8));
            break;
          case 1:
            damaged[at] = kBytes[random.below(static_cast<uint32_t>(kBytes.size()))];
            break;
          case 2:
            damaged.insert(at, damaged.substr(other, random.below(40)));
            break;
          case 3:
            damaged.insert(at, 1, static_cast<char>('0' + random.below(10)));
            break;
          default:
            std::swap(damaged[at], damaged[other]);
            break;
        }
      }
      std::string what;
      ASSERT_NO_THROW(what = refusal(damaged)) << damaged;
      ++(what.empty() ? parsed : refused);
      if (what.empty()) {
        ASSERT_NO_THROW(print(parse(damaged)));
      }
    }
  }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(parsed, 10);
}

struct Refused {
  const char* text;
  const char* what;  // a part of the message
};

TEST(TextForm, RefusalsSayWhereAndWhat) {
  const Refused cases[] = {
      {"", "1:1: expected '%', found 'the end'"},
      {"return %0", "expected a value that is defined above"},
      {"%0 = input f32[1] \"x\"\n%0 = input f32[1] \"y\"\nreturn",
       "2:22: expected a new value, %0 is defined"},
      {"%0 = input f32[1] \"x\"\n%1 = input f32[1] \"x\"\nreturn", "a new name, 'x' is taken"},
      {"%0 = tensor f32[1] \"x\"\nreturn", "expected parameter, frozen, input or state"},
      {"%0 = input f33[1] \"x\"\nreturn", "an element type"},
      {"%0 = input f32[-1] \"x\"\nreturn", "extents >= 0"},
      {"%0 = input f32[1,1,1,1,1,1,1] \"x\"\nreturn", "at most 6 axes"},
      {"%0 = input f32[9223372036854775807,2] \"x\"\nreturn", "does not fit in 63 bits"},
      {"%0 = input f32[4611686018427387904] \"x\"\nreturn", "at most 4503599627370496 elements"},
      {"%0 = input f32[99999999999999999999] \"x\"\nreturn", "expected an integer"},
      {"%0 = input f32[1] \"x\"\n%1 : f32[1] = tahn(%0) @ \"\" #forward\nreturn",
       "unknown op \"tahn\" (did you mean tanh?)"},
      {"%0 = input f32[1] \"x\"\n%1 : f32[2] = tanh(%0) @ \"\" #forward\nreturn",
       "f32[1] as output 0 of tanh"},
      {"%0 = input f32[1] \"x\"\n%1 : f32[1], %2 : f32[1] = tanh(%0) @ \"\" #forward\nreturn",
       "1 outputs of tanh"},
      {"%0 = input f32[1] \"x\"\n%1 : f32[1] = tanh(%0) @ \"\" #sideward\nreturn",
       "expected a phase"},
      {"%0 = input f32[1] \"x\"\n%1 : f32[1] = tanh(%0) @ \"\" #forward <0f>\nreturn",
       "the id of an origin above"},
      {"origin 1 tanh \"\" #forward (0,0,0) (0,0,0)\nreturn", "origins in order"},
      {"origin 0 tanh \"\" #forward (0,0,0) (0,0,0)\n%0 = input f32[1] \"x\"\n"
       "%1 : f32[1] = tanh(%0) @ \"\" #forward <0f,0f>\nreturn",
       "ascending origins"},
      {"%0 = input f32[1] \"x\"\n%1 : f32[1] = scale(%0) {parameter=2} @ \"\" #forward\nreturn",
       "wrong type"},
      {"%0 = input f32[1] \"x\"\n%1 : f32[1] = scale(%0) @ \"\" #forward\nreturn",
       "'parameter' is missing"},
      {"%0 = input f32[1] \"x\"\n%1 : f32[1] = tanh(%0, %0) @ \"\" #forward\nreturn",
       "expected 1 inputs, got 2"},
      {"%0 = input f32[2,3] \"x\"\n%1 : f32[2,1] = slice(%0) {axis=-1, begin=0, end=1} @ \"\" "
       "#forward\nreturn",
       "[slice] expected an axis"},
      {"%0 = input f32[2,3] \"x\"\n%1 : f32[2,1] = slice(%0) {axis=4294967297, begin=0, end=1} @ "
       "\"\" #forward\nreturn",
       "[slice] expected an axis"},
      {"return\nmore", "expected the end of the text"},
      {"%0 = input f32[1] \"unfinished", "found 'the end'"},
  };
  for (const Refused& each : cases)
    EXPECT_NE(refusal(each.text).find(each.what), std::string::npos) << each.text << "\n"
                                                                     << refusal(each.text);
}

std::string with_program(std::string program) {
  return "%0 = input f32[4] \"x\"\n%1 : f32[4] = generated_pointwise(%0) {program=" + program +
         "} @ \"\" #forward\nreturn %1\n";
}

TEST(TextForm, RefusesProgramsThatAreNone) {
  const Refused cases[] = {
      {"graph {}", "a program with a result"},
      {"graph {return}", "a program with a result"},
      {"graph {%0 = input f32[4] \"zero\" return %0}", "named 0 to 0, got 'zero'"},
      {"graph {%0 = input f32[4] \"7\" return %0}", "named 0 to 0, got '7'"},
      {"graph {%0 = input f32[5] \"0\" return %0}", "program input 0"},
      {"graph {%0 = input f32[4] \"0\" %1 = input f32[4] \"00\" return %0}",
       "expected 1 program inputs, got 2"},
      {"graph {%0 = input f32[4] \"0\" %1 : f32[4] = softmax(%0) {convention=\"\"} @ \"\" #forward "
       "return %1}",
       "expected pointwise ops, got 'softmax'"},
      {"7", "wrong type"},
  };
  for (const Refused& each : cases)
    EXPECT_NE(refusal(with_program(each.text)).find(each.what), std::string::npos)
        << each.text << "\n"
        << refusal(with_program(each.text));
}

TEST(TextForm, RefusesGraphsInGraphsWithoutEnd) {
  std::string text = "graph {}";
  for (int depth = 0; depth < 100000; ++depth)
    text = "graph {%0 = input f32[4] \"0\" %1 : f32[4] = generated_pointwise(%0) {program=";
  EXPECT_NE(refusal(with_program(text)), "");
  std::string deep = "%0 = input f32[4] \"x\"\n";
  for (int depth = 0; depth < 50000; ++depth)
    deep += "%1 : f32[4] = generated_pointwise(%0) {program=graph {%0 = input f32[4] \"0\" ";
  EXPECT_NE(refusal(deep).find("less deeply nested graphs"), std::string::npos);
}

}  // namespace
}  // namespace ridge
