// SPDX-License-Identifier: Apache-2.0
// Ceilings and links in a cache of the test's own: which file has them, and what a file that cannot
// be used leads to. Nothing is measured.
#include "measure/machine_ceilings.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cost/made_up_ceilings.h"
#include "files/own_cache.h"

namespace ridge::measure {
namespace {

namespace fs = std::filesystem;

class MachineCeilings : public testing::Test {
 protected:
  // Those of this machine, at a made-up rate.
  static cost::Ceilings made_up() {
    cost::Ceilings c = cost::made_up_ceilings({{1 << 20, 90, 80}, {1 << 30, 9, 8}}, 50);
    c.machine = this_machine(false);
    c.arithmetic_flops_per_ns = c.fused_flops_per_ns = c.transcendentals_per_ns = 3;
    c.measured_at = "2026-01-02T03:04:05Z";
    return c;
  }
  static cost::LinkCurves link(int64_t ranks, double ns) {
    return {"test", ranks, {{"all_reduce", {{4096, 4096, ns}}}}, "2026-01-02T03:04:05Z"};
  }
  std::optional<cost::Ceilings> known() { return known_ceilings(false, false, note_); }
  cost::Ceilings wanted(bool has_inference) {
    CeilingsRequest request;
    request.has_inference = has_inference;
    return machine_ceilings(
        request, [](double, std::string_view step) { ADD_FAILURE() << step; }, note_);
  }
  // The notes since the last call.
  std::vector<std::string> notes() { return std::exchange(notes_, {}); }
  void expect_note(const std::string& begin, const std::string& end) {
    const std::vector<std::string> got = notes();
    ASSERT_EQ(got.size(), 1u) << begin;
    EXPECT_TRUE(got[0].starts_with(begin)) << got[0];
    EXPECT_TRUE(got[0].ends_with(end)) << got[0];
  }
  void write(const std::string& text) {
    fs::create_directories(path_.parent_path());
    files::write_plain(path_, text);
  }
  // The file of links.
  fs::path links() const {
    for (const auto& each : fs::directory_iterator(path_.parent_path()))
      if (each.path().filename().string().starts_with("links-")) return each.path();
    return {};
  }

  files::OwnCache cache_;
  const fs::path path_ = ceilings_path(this_machine(false));
  std::vector<std::string> notes_;
  const CeilingsNote note_ = [this](const std::string& note) { notes_.push_back(note); };
};

constexpr const char* kRunMachine = "; run `ridge machine` to measure them again";

TEST_F(MachineCeilings, AreInAFileOfTheirMachine) {
  EXPECT_EQ(path_.filename(), fmt::format("machine-{}.json", this_machine(false).hash()));
  EXPECT_EQ(path_.parent_path(), fs::path(std::getenv("XDG_CACHE_HOME")) / "ridge");
  EXPECT_FALSE(known());
  keep_ceilings(made_up(), note_);
  EXPECT_TRUE(fs::exists(path_));
  const auto found = known();
  ASSERT_TRUE(found);
  EXPECT_EQ(cost::to_json(*found), cost::to_json(made_up()));
  EXPECT_EQ(notes(), std::vector<std::string>());
}

TEST_F(MachineCeilings, OfAnotherMachineAreNotUsed) {
  cost::Ceilings other = made_up();
  other.machine.device = "another one";
  write(cost::to_json(other));
  EXPECT_FALSE(known());
  EXPECT_EQ(notes(), std::vector<std::string>{
                         fmt::format("warning: [{}] these are the ceilings of {}{}", path_.string(),
                                     other.machine.str(), kRunMachine)});
}

TEST_F(MachineCeilings, SayWhyAFileCannotBeUsed) {
  const std::string begin = fmt::format("warning: [{}]", path_.string());
  write("{");
  EXPECT_FALSE(known());
  expect_note(begin, kRunMachine);
  // The largest file is read, and holds no ceilings; a byte more is too many.
  fs::resize_file(path_, 16 << 20);
  EXPECT_FALSE(known());
  EXPECT_EQ(notes().at(0).find("expected at most"), std::string::npos);
  fs::resize_file(path_, (16 << 20) + 1);
  EXPECT_FALSE(known());
  expect_note(begin + " expected at most 16777216 bytes, found 16777217", kRunMachine);
  // A link to nothing is no missing file.
  fs::remove(path_);
  fs::create_symlink("nothing", path_);
  EXPECT_FALSE(known());
  expect_note(begin, kRunMachine);
}

TEST_F(MachineCeilings, AreNotMeasuredAgainIfTheyAreComplete) {
  cost::Ceilings c = made_up();
  c.others_share = cost::kDisturbingShare;  // not more than that
  keep_ceilings(c, note_);
  for (const bool has_inference : {true, false})
    EXPECT_EQ(cost::to_json(wanted(has_inference)), cost::to_json(c));
  c.has_inference = false;
  keep_ceilings(c, note_);
  EXPECT_FALSE(wanted(false).has_inference);
  EXPECT_EQ(notes(), std::vector<std::string>());
}

// A run keeps its ceilings in place of those of the file.
TEST_F(MachineCeilings, ReplaceThoseBefore) {
  keep_ceilings(made_up(), note_);
  cost::Ceilings faster = made_up();
  faster.products[0].peak_flops_per_ns = 70;
  keep_ceilings(faster, note_);
  EXPECT_EQ(known()->products[0].peak_flops_per_ns, 70);
}

TEST_F(MachineCeilings, HaveTheLinksOfTheirHost) {
  keep_link(this_machine(false), link(4, 400), note_);
  cost::Ceilings c = made_up();
  c.links = {{"of a run", 8, 1, 1}};
  keep_ceilings(c, note_);
  EXPECT_TRUE(cost::ceilings_from_json(files::contents(path_), "kept").links.empty());
  for (const cost::Ceilings& got : {*known(), wanted(true)}) {
    ASSERT_EQ(got.links.size(), 1u);
    EXPECT_EQ(got.links[0].ranks, 4);
    EXPECT_EQ(got.links[0].link, "test");
    EXPECT_EQ(got.links[0].ns(4096), link(4, 400).rates().ns(4096));
  }
}

TEST_F(MachineCeilings, KeepOneLinkForEachNumberOfRanks) {
  const cost::Machine machine = this_machine(false);
  EXPECT_TRUE(known_links(machine, note_).empty());
  for (const auto& [ranks, ns] : {std::pair{4, 400.0}, {2, 200}, {8, 800}, {4, 300}})
    keep_link(machine, link(ranks, ns), note_);
  const std::vector<cost::LinkCurves> got = known_links(machine, note_);
  ASSERT_EQ(got.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(got[i].ranks, 2 << i);
  EXPECT_EQ(got[0].curves.at(0).samples.at(0).ns, 200);
  EXPECT_EQ(got[1].curves.at(0).samples.at(0).ns, 300);
  EXPECT_EQ(got[2].curves.at(0).samples.at(0).ns, 800);
  EXPECT_EQ(notes(), std::vector<std::string>());
}

// The links of a host are the same for any number of its cores.
TEST_F(MachineCeilings, ShareLinksAmongCoresThreadsAndInstructions) {
  const cost::Machine machine = this_machine(false);
  keep_link(machine, link(2, 200), note_);
  cost::Machine other = machine;
  other.cores += 3, other.threads += 5, other.isa += " and more";
  EXPECT_EQ(known_links(other, note_).size(), 1u);
  other.device += " II";
  EXPECT_TRUE(known_links(other, note_).empty());
  other = machine;
  other.libraries.emplace_back("another 1.0");
  EXPECT_TRUE(known_links(other, note_).empty());
}

TEST_F(MachineCeilings, SayThatLinksCannotBeUsed) {
  const cost::Machine machine = this_machine(false);
  keep_link(machine, link(2, 200), note_);
  files::write_plain(links(), "[");
  EXPECT_TRUE(known_links(machine, note_).empty());
  expect_note(fmt::format("warning: [{}]", links().string()), "` measures the links again");
  // The next measurement replaces them.
  keep_link(machine, link(4, 400), note_);
  EXPECT_EQ(notes().size(), 1u);
  EXPECT_EQ(known_links(machine, note_).at(0).ranks, 4);
  fs::resize_file(links(), (16 << 20) + 1);
  EXPECT_TRUE(known_links(machine, note_).empty());
  expect_note(fmt::format("warning: [{}] expected at most 16777216 bytes", links().string()),
              "` measures the links again");
}

// A file lies where the folder should be.
TEST_F(MachineCeilings, GoOnWithoutAFolder) {
  files::write_plain(path_.parent_path(), "");
  keep_ceilings(made_up(), note_);
  expect_note("warning: ", "; the next run measures the ceilings again");
  EXPECT_EQ(files::contents(path_.parent_path()), "");
}

// Without a home there is no cache, and nothing to say.
TEST_F(MachineCeilings, AreNotKeptWithoutAHome) {
  const char* home = std::getenv("HOME");
  const std::string before = home ? home : "", cache = std::getenv("XDG_CACHE_HOME");
  ::unsetenv("HOME"), ::unsetenv("XDG_CACHE_HOME");
  EXPECT_EQ(ceilings_path(this_machine(false)), fs::path());
  keep_ceilings(made_up(), note_);
  keep_link(this_machine(false), link(2, 200), note_);
  EXPECT_FALSE(known());
  EXPECT_TRUE(known_links(this_machine(false), note_).empty());
  EXPECT_EQ(notes(), std::vector<std::string>());
  if (home) ::setenv("HOME", before.c_str(), 1);
  ::setenv("XDG_CACHE_HOME", cache.c_str(), 1);
}

}  // namespace
}  // namespace ridge::measure
