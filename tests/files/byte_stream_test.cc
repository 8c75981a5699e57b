// SPDX-License-Identifier: Apache-2.0
// Streams of plain and packed files, and damaged ones.
#include "files/byte_stream.h"

#include <zlib.h>
#include <zstd.h>

#include <filesystem>

#include "files/scratch.h"

namespace ridge::files {
namespace {

std::string gzip(const std::string& text) {
  z_stream state{};
  ::deflateInit2(&state, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(::deflateBound(&state, text.size()), '\0');
  state.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  state.avail_in = static_cast<uInt>(text.size());
  state.next_out = reinterpret_cast<Bytef*>(out.data());
  state.avail_out = static_cast<uInt>(out.size());
  ::deflate(&state, Z_FINISH);
  out.resize(state.total_out);
  ::deflateEnd(&state);
  return out;
}

std::string zstd(const std::string& text) {
  std::string out(::ZSTD_compressBound(text.size()), '\0');
  out.resize(::ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

std::string some_text() {
  std::string text;
  for (int64_t i = 0; text.size() < 3'000'000; ++i) text += std::to_string(i * 7919) + "\n";
  return text;
}

// Reads in parts of an odd size.
std::string read_all(ByteStream& stream) {
  std::string all, part(70'001, '\0');
  for (size_t count = part.size(); count == part.size();) {
    count = stream.read(part);
    all.append(part, 0, count);
  }
  return all;
}

class ByteStreamTest : public ::testing::Test {
 protected:
  std::filesystem::path file(const std::string& bytes) const {
    write_plain(folder_ / "f", bytes);
    return folder_ / "f";
  }
  void expect_fault(const std::filesystem::path& path, const std::string& part) const {
    expect_error(
        [&] {
          ByteStream stream(path);
          read_all(stream);
        },
        ExitCode::kBadFile, part);
  }
  ScratchFolder folder_;
};

TEST_F(ByteStreamTest, UnpacksWhatTheFirstBytesSay) {
  const std::string text = some_text();
  for (const std::string& bytes : {text, gzip(text), zstd(text)}) {
    ByteStream stream(file(bytes));
    EXPECT_TRUE(read_all(stream) == text);
    EXPECT_EQ(stream.place(), static_cast<int64_t>(text.size()));
    EXPECT_EQ(stream.packed_bytes(), static_cast<int64_t>(bytes.size()));
    EXPECT_EQ(read_all(stream), "");
  }
}

TEST_F(ByteStreamTest, PartsOfAPackedFileFollowEachOther) {
  const std::string text = some_text();
  for (const std::string& bytes : {gzip(text) + gzip("end"), zstd(text) + zstd("end")}) {
    ByteStream stream(file(bytes));
    EXPECT_TRUE(read_all(stream) == text + "end");
  }
}

TEST_F(ByteStreamTest, SkipsToAPlace) {
  const std::string text = some_text();
  for (const std::string& bytes : {text, gzip(text), zstd(text)}) {
    ByteStream stream(file(bytes));
    stream.skip(1'234'567);
    EXPECT_TRUE(read_all(stream) == text.substr(1'234'567));
    ByteStream other(folder_ / "f");
    expect_error([&] { other.skip(std::ssize(text) + 1); }, ExitCode::kBadFile, "the file ends");
  }
}

TEST_F(ByteStreamTest, DamagedFilesAreNamed) {
  const std::string text = some_text();
  for (std::string bytes : {gzip(text), zstd(text)}) {
    expect_fault(file(bytes.substr(0, bytes.size() / 2)), "the packed data end early");
    expect_fault(file(bytes.substr(0, bytes.size() - 1)), "the packed data end early");
    for (size_t i = 0; i < 100; ++i) bytes[bytes.size() / 2 + i] ^= 0x55;
    expect_fault(file(bytes), "damaged");
  }
}

TEST_F(ByteStreamTest, PathsThatAreNoTexts) {
  expect_fault(folder_ / "missing", "No such file");
  expect_fault(folder_.path(), "found a folder");
  expect_fault("/dev/zero", "found a device");
  expect_fault(file(""), "the file is empty");
  std::filesystem::create_symlink(folder_ / "b", folder_ / "a");
  std::filesystem::create_symlink(folder_ / "a", folder_ / "b");
  expect_fault(folder_ / "a", "symbolic links");
}

}  // namespace
}  // namespace ridge::files
