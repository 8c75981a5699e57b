// SPDX-License-Identifier: Apache-2.0
// A list of the files of a folder with their sizes and hashes, which is written last: a folder
// whose list agrees is whole.
#pragma once

#include <filesystem>

namespace ridge::files {

inline constexpr const char* kManifest = "manifest.json";

// Writes manifest.json about the other files of the folder, which are on disk. `format` says what
// the folder is.
void write_manifest(const std::filesystem::path& folder, const char* format);

// Throws a bad-file Error if the list is missing or of another format, if a file is missing or has
// another size or hash, or if the list leaves a file of the folder out.
void check_manifest(const std::filesystem::path& folder, const char* format);

}  // namespace ridge::files
