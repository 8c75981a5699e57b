// SPDX-License-Identifier: Apache-2.0
// Files mapped into memory: their bytes, and the Errors for files that cannot be mapped.
#include "files/mapped_file.h"

#include <sys/stat.h>

#include "files/scratch.h"

namespace ridge::files {
namespace {

TEST(MappedFile, ShowsTheBytes) {
  const ScratchFolder folder;
  write_plain(folder / "x", "hello, bytes");
  MappedFile file(folder / "x");
  EXPECT_EQ(file.text(), "hello, bytes");
  const auto part = file.part(7, 5, "word");
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(part.data()), part.size()), "bytes");
  EXPECT_EQ(file.part(12, 0, "end").size(), 0u);
  file.expect(file.bytes().subspan(3));
  file.release(file.bytes());
  EXPECT_EQ(file.text(), "hello, bytes");
  const MappedFile moved = std::move(file);
  EXPECT_EQ(moved.text(), "hello, bytes");
}

TEST(MappedFile, RefusesPartsOutside) {
  const ScratchFolder folder;
  write_plain(folder / "x", "0123456789");
  const MappedFile file(folder / "x");
  for (const auto& [offset, size] : std::vector<std::pair<uint64_t, uint64_t>>{
           {0, 11}, {10, 1}, {11, 0}, {5, UINT64_MAX}, {UINT64_MAX, 1}, {UINT64_MAX, UINT64_MAX}})
    expect_error([&] { file.part(offset, size, "the field"); }, ExitCode::kBadFile, "the field");
}

TEST(MappedFile, SaysWhyItCannotOpen) {
  const ScratchFolder folder;
  write_plain(folder / "empty", "");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  expect_error([&] { MappedFile(folder / "missing"); }, ExitCode::kBadFile, "No such file");
  expect_error([&] { MappedFile(folder / "empty"); }, ExitCode::kBadFile, "empty");
  expect_error([&] { MappedFile(folder.path()); }, ExitCode::kBadFile, "folder");
  expect_error([&] { MappedFile(folder / "pipe"); }, ExitCode::kBadFile, "regular");
  expect_error([&] { MappedFile("/dev/null"); }, ExitCode::kBadFile, "regular");
}

TEST(MappedFile, SaysThatAFileIsUnreadable) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read every file";
  const ScratchFolder folder;
  write_plain(folder / "x", "secret");
  ::chmod((folder / "x").c_str(), 0);
  expect_error([&] { MappedFile(folder / "x"); }, ExitCode::kBadFile, "denied");
}

TEST(MappedFile, IsNamedByItsAddresses) {
  const ScratchFolder folder;
  write_plain(folder / "x", std::string(10'000, 'x'));
  const std::byte* begin = nullptr;
  {
    const MappedFile file(folder / "x");
    begin = file.bytes().data();
    EXPECT_TRUE(is_mapped(begin));
    EXPECT_TRUE(is_mapped(begin + 9'999));
    EXPECT_FALSE(is_mapped(begin + 10'000));
    EXPECT_NE(unreadable_file(begin + 5'000).find("x] the file cannot be read at byte 5000"),
              std::string::npos);
    std::filesystem::resize_file(folder / "x", 7);
    EXPECT_NE(unreadable_file(begin).find("shrank from 10000 to 7 bytes"), std::string::npos);
  }
  EXPECT_FALSE(is_mapped(begin));
  EXPECT_FALSE(is_mapped(folder.path().c_str()));
}

}  // namespace
}  // namespace ridge::files
