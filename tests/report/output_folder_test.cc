// SPDX-License-Identifier: Apache-2.0
// Tests new and existing result folders, and their contents after a failure.
#include "report/output_folder.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "files/scratch.h"

namespace ridge::report {
namespace {

namespace fs = std::filesystem;

TEST(OutputFolderTest, ANewFolderAppearsWhole) {
  files::ScratchFolder scratch;
  OutputFolder folder(scratch / "new/", false);
  EXPECT_EQ(scratch.count(), 0u);
  folder.add("a", "1");
  folder.add("b", "2");
  folder.commit();
  EXPECT_EQ(scratch.count(), 1u);
  EXPECT_EQ(files::contents(scratch / "new" / "a"), "1");
  EXPECT_EQ(files::contents(scratch / "new" / "b"), "2");
}

// The second file cannot be written: its folder is a file.
TEST(OutputFolderTest, AFailureLeavesNothingNew) {
  files::ScratchFolder scratch;
  OutputFolder folder(scratch / "new", false);
  folder.add("a", "1");
  folder.add("a/b", "2");
  EXPECT_THROW(folder.commit(), Error);
  EXPECT_EQ(scratch.count(), 0u);
}

TEST(OutputFolderTest, AnEmptyFolderIsFilledInPlace) {
  files::ScratchFolder scratch;
  fs::create_directory(scratch / "empty");
  fs::create_directory_symlink("empty", scratch / "link");
  OutputFolder folder(scratch / "link", false);
  folder.add("a", "1");
  folder.commit();
  EXPECT_EQ(files::contents(scratch / "empty" / "a"), "1");
}

TEST(OutputFolderTest, ForceReplacesItsFilesAndNoOthers) {
  files::ScratchFolder scratch;
  fs::create_directory(scratch / "old");
  files::write_plain(scratch / "old" / "a", "old");
  files::write_plain(scratch / "old" / "mine", "mine");
  EXPECT_THROW(OutputFolder(scratch / "old", false), Error);
  OutputFolder failing(scratch / "old", true);
  failing.add("a", "1");
  failing.add("mine/b", "2");  // which is a file
  EXPECT_THROW(failing.commit(), Error);
  EXPECT_EQ(files::contents(scratch / "old" / "a"), "old");
  OutputFolder folder(scratch / "old", true);
  folder.add("a", "1");
  folder.commit();
  EXPECT_EQ(files::contents(scratch / "old" / "a"), "1");
  EXPECT_EQ(files::contents(scratch / "old" / "mine"), "mine");
}

// Names may have folders, in a new folder and in one that is there.
TEST(OutputFolderTest, FilesMayLieInFoldersInside) {
  files::ScratchFolder scratch;
  for (const bool is_there : {false, true}) {
    OutputFolder folder(scratch / "new", is_there);
    folder.add("a/b/c", is_there ? "2" : "1");
    folder.add("a/d", "3");
    folder.commit();
    EXPECT_EQ(files::contents(scratch / "new/a/b/c"), is_there ? "2" : "1");
    EXPECT_EQ(files::contents(scratch / "new/a/d"), "3");
  }
}

TEST(OutputFolderTest, ForceLeavesWhatLinksLinkTo) {
  files::ScratchFolder scratch;
  fs::create_directory(scratch / "old");
  files::write_plain(scratch / "theirs", "theirs");
  for (const char* name : {"a", "ridge-probe"})
    fs::create_symlink(scratch / "theirs", scratch / "old" / name);
  OutputFolder folder(scratch / "old", true);
  folder.add("a", "1");
  folder.commit();
  EXPECT_EQ(files::contents(scratch / "old" / "a"), "1");
  EXPECT_EQ(files::contents(scratch / "theirs"), "theirs");
}

// Another program creates the folder between the check and the end of a long run.
TEST(OutputFolderTest, WhatCameBetweenIsNotMixedIn) {
  files::ScratchFolder scratch;
  OutputFolder folder(scratch / "new", false);
  fs::create_directory(scratch / "new");
  files::write_plain(scratch / "new" / "theirs", "theirs");
  folder.add("a", "1");
  EXPECT_THROW(folder.commit(), Error);
  EXPECT_FALSE(fs::exists(scratch / "new" / "a"));
  EXPECT_EQ(scratch.count(), 1u);
}

}  // namespace
}  // namespace ridge::report
