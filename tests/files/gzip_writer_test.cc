// SPDX-License-Identifier: Apache-2.0
// Compressed texts, unpacked by zlib's own reader of .gz files.
#include "files/gzip_writer.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>

#include "files/scratch.h"

namespace ridge::files {
namespace {

std::string unpacked(const std::filesystem::path& path) {
  gzFile file = gzopen(path.c_str(), "rb");
  std::string text;
  std::array<char, 4096> part;
  for (int size = 1; size > 0;) {
    size = gzread(file, part.data(), static_cast<unsigned>(part.size()));
    text.append(part.data(), static_cast<size_t>(std::max(size, 0)));
  }
  EXPECT_EQ(gzclose(file), Z_OK);
  return text;
}

TEST(Gzip, TextsComeBackWhole) {
  ScratchFolder folder;
  std::mt19937 random(1);
  // Around the size of the parts that it feeds to zlib, and bytes that do not compress.
  for (size_t size : {0u, 1u, 1000u, (1u << 20) - 1, 1u << 20, (1u << 20) + 1, 3u << 20}) {
    std::string text(size, 'a');
    if (size > 1000)
      for (char& c : text) c = static_cast<char>(random());
    write_plain(folder / "text.gz", gzip(text));
    EXPECT_EQ(unpacked(folder / "text.gz"), text) << size;
  }
}

TEST(Gzip, RepeatedTextIsSmallAndTheSameEachTime) {
  const std::string text(1 << 20, 'a');
  EXPECT_LT(gzip(text).size(), 10'000u);
  EXPECT_EQ(gzip(text), gzip(text));
  EXPECT_EQ(gzip(text).substr(4, 4), std::string(4, '\0')) << "the time in the header";
}

}  // namespace
}  // namespace ridge::files
