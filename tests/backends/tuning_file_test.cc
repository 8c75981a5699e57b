// SPDX-License-Identifier: Apache-2.0
// Cached tuning choices: read back, ignored if they are from another machine or invalid, never
// torn.
#include "backends/tuning_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "files/damage.h"
#include "files/scratch.h"

namespace ridge::backends {
namespace {

using nlohmann::json;

TEST(TuningFile, ComesBackForItsIdentityAlone) {
  files::ScratchFolder folder;
  const std::string path = folder / "tuning.json";
  const json choices = {{"8x8", "plain"}, {"16x16", json::array({1, 2})}};
  EXPECT_TRUE(read_tuning(path, "here").empty());
  write_tuning(path, "here", choices);
  EXPECT_EQ(read_tuning(path, "here"), choices);
  EXPECT_TRUE(read_tuning(path, "elsewhere").empty());
  write_tuning(path, "elsewhere", json::object());
  EXPECT_TRUE(read_tuning(path, "here").empty());
  EXPECT_EQ(folder.count(), 1u);
}

TEST(TuningFile, LeavesWhatALinkInItsPlaceLinksTo) {
  files::ScratchFolder folder;
  files::write_plain(folder / "theirs", "theirs");
  std::filesystem::create_symlink(folder / "theirs", folder / "tuning.json");
  write_tuning(folder / "tuning.json", "here", {{"8x8", "plain"}});
  EXPECT_EQ(files::contents(folder / "theirs"), "theirs");
  EXPECT_EQ(read_tuning(folder / "tuning.json", "here"), json({{"8x8", "plain"}}));
}

TEST(TuningFile, WhatIsNoneCountsAsNone) {
  files::ScratchFolder folder;
  const std::string path = folder / "tuning.json";
  for (const char* text : {"", "not JSON", "[]", "{}", R"({"identity": 3, "choices": {}})",
                           R"({"identity": "here"})", R"({"identity": "here", "choices": 3})"}) {
    files::write_plain(path, text);
    EXPECT_TRUE(read_tuning(path, "here").empty()) << text;
    EXPECT_TRUE(read_tuning(path, "here").is_object()) << text;
  }
}

// A damaged file is an object of choices or counts as none; the reason why is one line.
TEST(TuningFile, DamagedFiles) {
  files::ScratchFolder folder;
  const std::string path = folder / "tuning.json";
  write_tuning(path, "here", {{"8x8 f32", "plain"}, {"16x16", json::array({1, 2})}});
  auto read = [&](const std::string& text) {
    files::write_plain(path, text);
    const json choices = read_tuning(path, "here");
    EXPECT_TRUE(choices.is_object());
    const std::string fault = tuning_fault(path);
    if (fault.empty()) return;
    EXPECT_TRUE(choices.empty());
    throw file_error("{}", fault);
  };
  constexpr int kRounds = 500;
  const files::Outcomes outcomes = files::read_damaged(files::contents(path), read, kRounds);
  EXPECT_GT(outcomes.refused, kRounds / 4);
  EXPECT_GT(outcomes.read, kRounds / 20);
}

TEST(TuningFile, FaultsAreNamed) {
  files::ScratchFolder folder;
  const std::string path = folder / "tuning.json";
  EXPECT_EQ(tuning_fault(path), "");
  write_tuning(path, "elsewhere", json::object());
  EXPECT_EQ(tuning_fault(path), "");
  files::write_plain(path, "{}");
  EXPECT_NE(tuning_fault(path).find("identity"), std::string::npos) << tuning_fault(path);
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  EXPECT_NE(tuning_fault(path).find("folder"), std::string::npos) << tuning_fault(path);
  std::filesystem::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_NE(tuning_fault(path), "");
}

TEST(TuningFile, AFailureToWriteIsNone) {
  write_tuning("", "here", json::object());
  write_tuning("/proc/no/such/folder/tuning.json", "here", json::object());
  EXPECT_TRUE(read_tuning("", "here").empty());
}

TEST(TuningFile, TiesGoToWhatIsListedFirst) {
  const auto first = [](std::vector<double> times) { return first_of_fastest(times, 0.03); };
  EXPECT_EQ(first({100, 98, 99}), 0u);  // all within 3% of the fastest
  EXPECT_EQ(first({100, 90, 89}), 1u);
  EXPECT_EQ(first({100, 0, 50}), 2u);  // 0: not measured
  EXPECT_EQ(first({0, 100, 100}), 1u);
  EXPECT_EQ(first({100}), 0u);
}

TEST(TuningFile, KeepsTimedChoicesForTheNextTuner) {
  files::ScratchFolder folder;
  const std::string path = folder / "tuning.json";
  const TunedChoice form = "sgemm", algorithm = std::vector<uint64_t>{66, 2};
  {
    KeptChoices kept(path, "here");
    EXPECT_EQ(kept.find("8x8"), nullptr);
    kept.keep("8x8", form, {50, 100});
    kept.keep("16x16", algorithm, {10, 10});
    kept.keep("4x4", form, {});  // the only candidate: nothing was measured
    EXPECT_EQ(*kept.find("4x4"), form);
  }
  {
    const KeptChoices kept(path, "here");
    ASSERT_NE(kept.find("8x8"), nullptr);
    EXPECT_EQ(*kept.find("8x8"), form);
    ASSERT_NE(kept.find("16x16"), nullptr);
    EXPECT_EQ(*kept.find("16x16"), algorithm);
    EXPECT_EQ(kept.find("4x4"), nullptr);
    EXPECT_EQ(KeptChoices(path, "elsewhere").find("8x8"), nullptr);
  }
  EXPECT_EQ(list_tuning(path).choices.size(), 2u);  // tuners that keep nothing new leave the file
}

// Ranks that measure at the same time find different forms the fastest, but compute alike.
TEST(TuningFile, TheFirstOfTwoTunersChoosesForBoth) {
  files::ScratchFolder folder;
  const std::string path = folder / "tuning.json";
  const TunedChoice sgemm = "sgemm", tiles = "tiles";
  KeptChoices one(path, "here"), other(path, "here");
  EXPECT_EQ(one.keep("8x8", sgemm, {50, 100}), sgemm);
  EXPECT_EQ(other.keep("8x8", tiles, {49, 100}), sgemm);
  EXPECT_EQ(*other.find("8x8"), sgemm);
  EXPECT_EQ(other.keep("4x4", tiles, {49, 100}), tiles);
  EXPECT_EQ(one.keep("4x4", sgemm, {}), sgemm) << "nothing was measured: there was no choice";
  EXPECT_EQ(list_tuning(path).choices.size(), 2u) << "no tuner removes what the other one wrote";
  // A tuner that measures again what the file had could not use that choice.
  KeptChoices third(path, "here");
  EXPECT_EQ(third.keep("8x8", tiles, {49, 100}), tiles);
  EXPECT_EQ(*KeptChoices(path, "here").find("8x8"), tiles);
}

TEST(TuningFile, SkipsChoicesThatAreNone) {
  files::ScratchFolder folder;
  const std::string path = folder / "tuning.json";
  write_tuning(path, "here",
               {{"mixed", tuned_json(json::array({66, "2"}), {10, 10})},
                {"negative", tuned_json(json::array({-1}), {10, 10})},
                {"number", tuned_json(3, {10, 10})},
                {"untimed", "sgemm"}});
  const KeptChoices kept(path, "here");
  for (const char* key : {"mixed", "negative", "number", "untimed"})
    EXPECT_EQ(kept.find(key), nullptr) << key;
}

TEST(TuningFile, ListsChoicesWithTheirGain) {
  files::ScratchFolder folder;
  const std::string path = folder / "tuning.json";
  EXPECT_TRUE(list_tuning(path).choices.empty());
  write_tuning(path, "here",
               {{"8x8", tuned_json("sgemm", {50, 100})},
                {"16x16", tuned_json(json::array({66, 2}), {10, 10})},
                {"old", "sgemm"},
                {"bad", {{"choice", "sgemm"}, {"ns", "fast"}, {"default_ns", 1}}},
                {"zero", tuned_json("sgemm", {0, 0})}});
  const record::TunedChoices list = list_tuning(path);
  ASSERT_EQ(list.choices.size(), 2u);
  EXPECT_EQ(list.machine, "here");
  EXPECT_EQ(list.choices[0].problem, "16x16");
  EXPECT_EQ(list.choices[0].choice, "0x42");
  EXPECT_EQ(list.choices[1].choice, "sgemm");
  EXPECT_DOUBLE_EQ(list.choices[1].gain(), 2);
  files::write_plain(path, "[]");
  EXPECT_THROW(list_tuning(path), Error);
}

// Two programs end at the same time: the file must be the one or the other.
TEST(TuningFile, WritersDoNotTearIt) {
  files::ScratchFolder folder;
  const std::string path = folder / "tuning.json";
  json large;
  for (int i = 0; i < 2000; ++i) large[std::to_string(i)] = "a form";
  auto write = [&] {
    for (int i = 0; i < 20; ++i) write_tuning(path, "here", large);
  };
  write_tuning(path, "here", large);
  std::thread one(write), other(write);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(read_tuning(path, "here").size(), large.size());
  one.join();
  other.join();
  EXPECT_EQ(folder.count(), 1u);
}

}  // namespace
}  // namespace ridge::backends
