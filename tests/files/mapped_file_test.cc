// SPDX-License-Identifier: Apache-2.0
// Files mapped into memory: their bytes, and the Errors of what cannot be mapped.
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
  file.prefetch(part);
  file.release(file.bytes());
  const MappedFile moved = std::move(file);
  EXPECT_EQ(moved.text(), "hello, bytes");
}

// Sizes around pages and around what is settled at once.
TEST(MappedFile, SettlesInPlace) {
  const ScratchFolder folder;
  for (size_t size :
       {size_t{1}, size_t{4096}, size_t{4097}, size_t{9} << 20, (size_t{4} << 20) + 5}) {
    std::string want(size, 'x');
    for (size_t i = 0; i < size; i += 61) want[i] = static_cast<char>(i % 251);
    write_plain(folder / "x", want);
    const MappedFile file(folder / "x");
    const auto* before = file.bytes().data();
    const std::span<const std::byte> all[] = {file.bytes()};
    file.settle(all);
    file.settle(all);
    EXPECT_EQ(file.bytes().data(), before);
    EXPECT_TRUE(file.text() == want) << size;
    file.release(file.bytes());
    EXPECT_TRUE(file.text() == want) << size << " bytes released";
  }
}

// Of three pieces of 4 MiB the first is needed whole, the second by a byte less than half, the last
// from its middle on.
TEST(MappedFile, SettlesWhatIsNeeded) {
  const ScratchFolder folder;
  const size_t piece = size_t{4} << 20;
  std::string want(3 * piece, 'x');
  for (size_t i = 0; i < want.size(); i += 61) want[i] = static_cast<char>(i % 251);
  write_plain(folder / "x", want);
  const MappedFile file(folder / "x");
  const auto bytes = file.bytes();
  const std::span<const std::byte> needed[] = {bytes.first(piece + piece / 2 - 1),
                                               bytes.subspan(2 * piece + piece / 2),
                                               std::as_bytes(std::span(want)).first(piece)};
  file.settle(needed);
  EXPECT_TRUE(file.text() == want);
  write_plain(folder / "x", std::string(3 * piece, 'y'));
  EXPECT_EQ(file.text()[piece - 1], want[piece - 1]);
  EXPECT_EQ(file.text()[piece], 'y') << "stays the file's";
  EXPECT_EQ(file.text()[2 * piece], want[2 * piece]);
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

}  // namespace
}  // namespace ridge::files
