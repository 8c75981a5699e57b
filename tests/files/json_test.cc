// SPDX-License-Identifier: Apache-2.0
// The strict JSON reader: valid input, errors and limits.
#include "files/json.h"

#include "files/scratch.h"

namespace ridge::files {
namespace {

TEST(Json, BuildsTheDocument) {
  const std::string text = R"({"a":[1,-2,2.5,"x",true,null,{"b":[]},[[1],[2,3]]],)"
                           R"("c":{"d":{}},"e":18446744073709551615})";
  EXPECT_EQ(parse_json(text, "test"), nlohmann::json::parse(text));
  EXPECT_EQ(parse_json("7", "test"), 7);
}

TEST(Json, RefusesDuplicateKeysAtAnyDepth) {
  for (const char* text :
       {R"({"a":1,"a":2})", R"([{"x":{"a":1,"b":2,"a":3}}])", R"({"a":1,"\u0061":2})"})
    expect_error([&] { parse_json(text, "test"); }, ExitCode::kBadFile, "twice");
  EXPECT_NO_THROW(parse_json(R"([{"a":1},{"a":1},{"b":{"a":1},"a":{"b":1}}])", "test"));
}

TEST(Json, RefusesWhatIsNotJson) {
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[1,]"), std::string("{\"a\":1}x"),
        std::string("NaN"), std::string("1e999"), std::string("\"\xff\""),
        std::string("{\"a\":1\0}", 8), std::string("// c\n1")})
    expect_error([&] { parse_json(text, "name.json"); }, ExitCode::kBadFile,
                 "[name.json] not valid JSON");
}

TEST(Json, HoldsItsLimits) {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  expect_error([&] { parse_json(deep, "test"); }, ExitCode::kBadFile, "32 levels");
  const std::string fits = std::string(32, '[') + std::string(32, ']');
  EXPECT_NO_THROW(parse_json(fits, "test"));
  expect_error([] { parse_json("[1,2,3]", "test", {.max_values = 3}); }, ExitCode::kBadFile,
               "3 JSON values");
  EXPECT_NO_THROW(parse_json("[1,2]", "test", {.max_values = 3}));
  expect_error([] { parse_json("[1,2]", "test", {.max_bytes = 4}); }, ExitCode::kBadFile,
               "4 bytes");
}

TEST(Json, ReadsAFile) {
  EXPECT_EQ(read_json(test_data("models/llama_fp32/config.json"))["model_type"], "llama");
}

}  // namespace
}  // namespace ridge::files
