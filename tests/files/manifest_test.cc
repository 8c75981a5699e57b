// SPDX-License-Identifier: Apache-2.0
// Hashes by published values, and folders whose manifest does or does not agree.
#include "files/manifest.h"

#include <nlohmann/json.hpp>

#include "files/hash.h"
#include "files/scratch.h"

namespace ridge::files {
namespace {

// Values of xxhsum 0.8.1 -H2 and -H3.
TEST(Hash, AgreesWithXxhsum) {
  EXPECT_EQ(hash128({}), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(hash64({}), 0x2d06800538d394c2u);
  const std::string text(300'000, 'x');
  Hash128 parts;
  for (size_t at = 0; at < text.size(); at += 7'777)
    parts.update(bytes_of(std::string_view(text).substr(at, 7'777)));
  EXPECT_EQ(parts.hex(), hash128(bytes_of(std::string_view(text))));
}

TEST(Manifest, NoticesEachChange) {
  const auto made = [](const ScratchFolder& folder) {
    write_plain(folder / "a", "some bytes");
    write_plain(folder / "b", "others");
    write_manifest(folder.path(), "test");
  };
  const auto expect_fault = [](const ScratchFolder& folder, const std::string& part) {
    expect_error([&] { check_manifest(folder.path(), "test"); }, ExitCode::kBadFile, part);
  };
  {
    ScratchFolder folder;
    made(folder);
    check_manifest(folder.path(), "test");
    write_plain(folder / "c", "");
    expect_fault(folder, "expected all files of the folder, \"c\" is missing");
    std::filesystem::remove(folder / "c");
    expect_error([&] { check_manifest(folder.path(), "other"); }, ExitCode::kBadFile, "format");
    write_plain(folder / "a", "some byteS");
    expect_fault(folder, "a] expected the hash");
    write_plain(folder / "a", "some byte");
    expect_fault(folder, "a] expected 10 bytes, found 9");
    std::filesystem::remove(folder / "a");
    expect_fault(folder, "No such file");
  }
  ScratchFolder folder;
  made(folder);
  nlohmann::json manifest = nlohmann::json::parse(contents(folder / kManifest));
  manifest["files"][0]["name"] = "../a";
  write_plain(folder / kManifest, manifest.dump());
  expect_fault(folder, "the name of a file");
  std::filesystem::remove(folder / kManifest);
  expect_fault(folder, "manifest.json");
}

}  // namespace
}  // namespace ridge::files
