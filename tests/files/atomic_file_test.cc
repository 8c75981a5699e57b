// SPDX-License-Identifier: Apache-2.0
// Files that appear complete or not at all, and the old and new files after a failure.
#include "files/atomic_file.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>

#include "files/scratch.h"

namespace ridge::files {
namespace {

TEST(AtomicFile, AppearsOnlyAtCommit) {
  const ScratchFolder folder;
  write_plain(folder / "x", "old");
  {
    AtomicFile file(folder / "x");
    file.write("new");
    EXPECT_EQ(file.size(), 3);
    EXPECT_EQ(contents(folder / "x"), "old");
    file.commit();
  }
  EXPECT_EQ(contents(folder / "x"), "new");
  EXPECT_EQ(folder.count(), 1u);
}

TEST(AtomicFile, LeavesNothingWithoutCommit) {
  const ScratchFolder folder;
  {
    AtomicFile file(folder / "x");
    file.write(std::string(3 << 20, 'a'));
    EXPECT_EQ(folder.count(), 1u);
  }
  EXPECT_EQ(folder.count(), 0u);
  {
    AtomicFile file(folder / "x");
    file.write("finished, then given up");
    file.finish();
  }
  EXPECT_EQ(folder.count(), 0u);
}

TEST(AtomicFile, KeepsOrderAcrossBuffersAndPads) {
  const ScratchFolder folder;
  std::string expected;
  AtomicFile file(folder / "x");
  for (int i = 0; i < 40; ++i) {
    const std::string piece(static_cast<size_t>(i) * 40'000 + 1, static_cast<char>('a' + i % 26));
    file.write(piece);
    expected += piece;
    file.pad_to_multiple(512);
    expected.append((512 - expected.size() % 512) % 512, '\0');
    ASSERT_EQ(file.size(), static_cast<int64_t>(expected.size()));
  }
  file.commit();
  EXPECT_TRUE(contents(folder / "x") == expected);
}

TEST(AtomicFile, KeepsPermissionsAndFollowsLinks) {
  const ScratchFolder folder;
  write_plain(folder / "target", "old");
  ::chmod((folder / "target").c_str(), 0640);
  std::filesystem::create_symlink(folder / "target", folder / "link");
  write_file(folder / "link", "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(contents(folder / "target"), "new");
  struct stat status {};
  ASSERT_EQ(::stat((folder / "target").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0640u);
}

// A link in a cache or a run folder may have come from anybody.
TEST(AtomicFile, ReplacesLinksWhereItsNameIsOurs) {
  namespace fs = std::filesystem;
  const ScratchFolder folder;
  write_plain(folder / "theirs", "theirs");
  fs::create_symlink(folder / "theirs", folder / "link");
  fs::create_symlink(folder / "nothing", folder / "dangling");
  fs::create_symlink(folder / "circle", folder / "circle");
  fs::create_symlink("/dev/null", folder / "device");
  fs::create_directory_symlink(folder.path(), folder / "folder");
  for (const char* name : {"link", "dangling", "circle", "device", "folder"}) {
    write_file(folder / name, name, Links::kReplace);
    EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(folder / name))) << name;
    EXPECT_EQ(contents(folder / name), name);
  }
  EXPECT_EQ(contents(folder / "theirs"), "theirs");
  EXPECT_FALSE(fs::exists(folder / "nothing"));
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  expect_error([&] { AtomicFile(folder / "pipe", Links::kReplace); }, ExitCode::kRuntime,
               "regular");
}

TEST(AtomicFile, RefusesWhatIsNoFile) {
  const ScratchFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  expect_error([&] { AtomicFile(folder.path()); }, ExitCode::kRuntime, "folder");
  expect_error([&] { AtomicFile(folder / "pipe"); }, ExitCode::kRuntime, "regular");
  expect_error([&] { AtomicFile("/dev/null"); }, ExitCode::kRuntime, "regular");
  expect_error([&] { AtomicFile(folder / "no/such/x"); }, ExitCode::kRuntime, "No such file");
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST(AtomicFile, TakesTheLongestName) {
  const ScratchFolder folder;
  write_file(folder / std::string(255, 'n'), "x");
  EXPECT_EQ(folder.count(), 1u);
}

// A limit on the size of files stands for a full disk: one write is partial, the next one fails.
TEST(AtomicFile, AFullDiskIsAnErrorAndLeavesTheOldFile) {
  const ScratchFolder folder;
  write_plain(folder / "x", "old");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  auto* handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{100'000, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  expect_error([&] { write_file(folder / "x", std::string(300'000, 'a')); }, ExitCode::kRuntime,
               "after 100000 bytes: File too large");
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(contents(folder / "x"), "old");
  EXPECT_EQ(folder.count(), 1u);
}

}  // namespace
}  // namespace ridge::files
