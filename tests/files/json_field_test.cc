// SPDX-License-Identifier: Apache-2.0
// Fields of a JSON document: read by type, with errors that include their place.
#include "files/json_field.h"

#include "files/json.h"
#include "files/scratch.h"

namespace ridge::files {
namespace {

const char* kText = R"({"name": "x", "sizes": [1, 2.5, -3, 18446744073709551615], "nothing": null,
                        "inner": {"on": true}})";

class JsonFieldTest : public ::testing::Test {
 protected:
  void expect_fault(const std::function<void()>& act, const std::string& part) const {
    expect_error(act, ExitCode::kBadFile, part);
  }

  const nlohmann::json document_ = parse_json(kText, "test");
  const JsonField file_{document_, "a/test.json"};
};

TEST_F(JsonFieldTest, ReadsEachType) {
  EXPECT_EQ(file_.at("name").text(), "x");
  EXPECT_TRUE(file_.at("inner").at("on").flag());
  std::vector<JsonField> sizes = file_.at("sizes").items();
  ASSERT_EQ(sizes.size(), 4u);
  EXPECT_EQ(sizes[0].integer(), 1);
  EXPECT_EQ(sizes[0].real(), 1);
  EXPECT_EQ(sizes[1].real(), 2.5);
  EXPECT_EQ(sizes[2].integer(-3, 0), -3);
}

TEST_F(JsonFieldTest, NullIsAbsent) {
  EXPECT_FALSE(file_.has("nothing"));
  EXPECT_EQ(file_.integer_or("nothing", 7), 7);
  EXPECT_EQ(file_.real_or("missing", 0.5), 0.5);
  EXPECT_EQ(file_.text_or("name", "y"), "x");
  EXPECT_FALSE(file_.flag_or("missing", false));
}

TEST_F(JsonFieldTest, FaultsNameThePlace) {
  expect_fault([&] { file_.at("missing"); }, "[a/test.json] the key \"missing\" is missing");
  expect_fault([&] { file_.at("nothing"); }, "the key \"nothing\" is missing");
  expect_fault([&] { file_.at("inner").at("on").text(); },
               "[a/test.json: inner.on] expected a string, found");
  expect_fault([&] { file_.at("inner").items(); }, "[a/test.json: inner] expected a list");
  expect_fault([&] { file_.at("name").object(); }, "expected an object");
  expect_fault([&] { file_.at("name").real(); }, "expected a number");
}

TEST_F(JsonFieldTest, IntegersHoldTheirBounds) {
  std::vector<JsonField> sizes = file_.at("sizes").items();
  expect_fault([&] { sizes[0].integer(2); }, "[a/test.json: sizes[0]] expected an integer >= 2");
  expect_fault([&] { sizes[0].integer(-5, 0); }, "expected an integer from -5 to 0");
  expect_fault([&] { sizes[1].integer(); }, "expected an integer of 64 bits");
  expect_fault([&] { sizes[3].integer(); }, "expected an integer of 64 bits");
}

}  // namespace
}  // namespace ridge::files
