// SPDX-License-Identifier: Apache-2.0
// What an interrupted program takes away: all that is not committed, and nothing else.
#include "files/unfinished.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace ridge::files
