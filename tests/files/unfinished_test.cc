// SPDX-License-Identifier: Apache-2.0
// An interrupted program removes all files that are not committed, and nothing else.
#include "files/unfinished.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "files/atomic_file.h"
#include "files/atomic_folder.h"
#include "files/scratch.h"

namespace ridge::files {
namespace {

TEST(Unfinished, GoesAndLeavesWhatIsCommitted) {
  ScratchFolder scratch;
  AtomicFile done(scratch / "done"), file(scratch / "file");
  AtomicFolder folder(scratch / "folder");
  write_file(folder.inside() / "inside", "text");
  done.write("text");
  done.commit();
  file.write("text");
  EXPECT_EQ(scratch.count(), 3u);
  remove_unfinished();
  EXPECT_EQ(scratch.count(), 1u);
  EXPECT_EQ(contents(scratch / "done"), "text");
}

TEST(Unfinished, FollowsAFileThatMoves) {
  ScratchFolder scratch;
  std::vector<AtomicFile> files;
  for (int i = 0; i < 3; ++i) files.emplace_back(scratch / std::to_string(i));
  files[0].commit();
  remove_unfinished();
  EXPECT_EQ(scratch.count(), 1u);
}

TEST(Unfinished, IsForgottenWhenItIsGone) {
  ScratchFolder scratch;
  { AtomicFile file(scratch / "file"); }
  write_file(scratch / "file", "another");
  remove_unfinished();
  EXPECT_EQ(contents(scratch / "file"), "another");
}

// Whenever the program ends, no other thread's temporary stays, however fast it makes them.
TEST(Unfinished, NoneIsMadeWhileTheProgramEnds) {
  ScratchFolder scratch;
  for (int round = 0; round < 100; ++round) {
    std::atomic<bool> is_done = false;
    std::thread maker([&] {
      std::vector<Unfinished> made;
      while (!is_done) made.push_back(Unfinished::file(scratch / "."));
    });
    while (scratch.count() < 3) std::this_thread::yield();
    {
      const auto nothing_is_made = remove_unfinished();
      EXPECT_EQ(scratch.count(), 0u);
    }
    is_done = true;
    maker.join();
    remove_unfinished();
    for (const auto& each : std::filesystem::directory_iterator(scratch / "."))
      std::filesystem::remove(each.path());
  }
}

// A killed program leaves files that no process has locked.
TEST(Unfinished, OfAKilledProgramGoesAtTheNextWrite) {
  ScratchFolder scratch;
  write_plain(scratch / ".ridge-tmp-1-0", "half");
  std::filesystem::create_directory(scratch / ".ridge-tmp-1-1");
  write_plain(scratch / ".ridge-tmp-1-1" / "inside", "half");
  std::filesystem::create_symlink("/", scratch / ".ridge-tmp-1-2");
  write_plain(scratch / ".ridge-other", "somebody's");
  write_file(scratch / "file", "text");
  EXPECT_FALSE(std::filesystem::exists(scratch / ".ridge-tmp-1-0"));
  EXPECT_FALSE(std::filesystem::exists(scratch / ".ridge-tmp-1-1"));
  EXPECT_TRUE(std::filesystem::is_symlink(scratch / ".ridge-tmp-1-2"));
  EXPECT_EQ(contents(scratch / ".ridge-other"), "somebody's");
}

TEST(Unfinished, OfAProgramThatRunsStays) {
  ScratchFolder scratch;
  AtomicFile file(scratch / "file"), moved = std::move(file);
  AtomicFolder folder(scratch / "folder");
  moved.write("text");
  moved.finish();
  remove_abandoned(scratch.path());
  EXPECT_EQ(scratch.count(), 2u);
  moved.commit();
  folder.commit();
  EXPECT_EQ(contents(scratch / "file"), "text");
}

}  // namespace
}  // namespace ridge::files
