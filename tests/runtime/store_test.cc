// SPDX-License-Identifier: Apache-2.0
// The store: named values in the backend's memory.
#include "runtime/store.h"

#include <gtest/gtest.h>

#include <cstring>

#include "backends/cpu/cpu_backend.h"
#include "base/arena.h"
#include "base/error.h"

namespace ridge::runtime {
namespace {

class StoreTest : public testing::Test {
 protected:
  std::unique_ptr<backends::Backend> backend = backends::cpu::make_cpu_backend({});
  Store store{*backend};
};

TEST_F(StoreTest, ValuesStartAsZeros) {
  store.require("w", {DType::kF32, {3, 5}});
  EXPECT_EQ(store.read_floats("w"), std::vector<float>(15, 0.0f));
}

TEST_F(StoreTest, GivesBackWhatWasWritten) {
  store.require("w", {DType::kF32, {2}});
  store.require("step", {DType::kF32, {}});
  const float data[] = {1.5f, -2.0f};
  store.write("w", data, sizeof data);
  store.write_scalar("step", 7);
  EXPECT_EQ(store.read_floats("w"), (std::vector<float>{1.5f, -2.0f}));
  EXPECT_EQ(store.read_floats("step"), std::vector<float>{7});
}

TEST_F(StoreTest, SendsAnInputAgainOnlyWhenItChanges) {
  std::byte* w = store.require("w", {DType::kF32, {1}});
  float value = 1, elsewhere = 5;
  store.write_input("w", &value, sizeof value);
  EXPECT_EQ(store.read_floats("w"), std::vector<float>{1});
  std::memcpy(w, &elsewhere, sizeof elsewhere);
  store.write_input("w", &value, sizeof value);
  EXPECT_EQ(store.read_floats("w"), std::vector<float>{5});
  value = 2;
  store.write_input("w", &value, sizeof value);
  EXPECT_EQ(store.read_floats("w"), std::vector<float>{2});
}

TEST_F(StoreTest, OneNameIsOnePlaceOfOneType) {
  std::byte* first = store.require("w", {DType::kF32, {4}});
  EXPECT_EQ(store.require("w", {DType::kF32, {4}}), first);
  EXPECT_NE(store.require("v", {DType::kF32, {4}}), first);
  EXPECT_THROW(store.require("w", {DType::kF32, {5}}), InternalError);
  EXPECT_THROW(store.require("w", {DType::kBF16, {4}}), InternalError);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % kAlignmentBytes, 0u);
}

TEST_F(StoreTest, ChecksNamesAndSizes) {
  store.require("w", {DType::kF32, {4}});
  store.require("narrow", {DType::kBF16, {4}});
  float data[5] = {};
  EXPECT_THROW(store.write("w", data, 20), InternalError);
  EXPECT_THROW(store.write("w", data, 12), InternalError);
  EXPECT_THROW(store.read("w", data, 20), InternalError);
  EXPECT_THROW(store.write("x", data, 16), InternalError);
  EXPECT_THROW(store.type("x"), InternalError);
  EXPECT_THROW(store.read_floats("narrow"), InternalError);
}

TEST_F(StoreTest, ListsAndSumsWhatItHolds) {
  EXPECT_FALSE(store.has("b"));
  EXPECT_EQ(store.bytes(), 0);
  store.require("b", {DType::kF32, {16}});
  store.require("a", {DType::kBF16, {33}});
  EXPECT_TRUE(store.has("b"));
  EXPECT_EQ(store.names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(store.bytes(), 64 + 128);  // rounded up to lines of 64 bytes
  EXPECT_EQ(store.type("a"), (Type{DType::kBF16, {33}}));
}

TEST_F(StoreTest, HoldsEmptyValuesAndRefusesImpossibleOnes) {
  store.require("empty", {DType::kF32, {0, 7}});
  EXPECT_TRUE(store.read_floats("empty").empty());
  EXPECT_THROW(store.require("huge", {DType::kF32, {int64_t{1} << 50}}), Error);
}

}  // namespace
}  // namespace ridge::runtime
