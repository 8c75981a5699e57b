// SPDX-License-Identifier: Apache-2.0
// Finds the traces that others recorded, which lie beside the project. No tests.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>

#include "test_paths.h"

namespace ridge::record {

// The folder, or "" if it is not there.
inline std::filesystem::path foreign_traces() {
  for (const char* folder : {"../shared", "../../shared"}) {
    const std::filesystem::path path = source_file(folder) / "reference/traces";
    if (std::filesystem::exists(path)) return path;
  }
  return "";
}

#define SKIP_WITHOUT_TRACES() \
  if (foreign_traces().empty()) GTEST_SKIP() << "no traces beside the project"

}  // namespace ridge::record
