// SPDX-License-Identifier: Apache-2.0
// Shared code of the fuzz targets: the allowed exceptions, and the checks that end the program.
#pragma once

#include "base/error.h"

namespace ridge::fuzz {

// Any exception except an Error with this code ends the program.
template <typename Act>
void allow_refusal(Act act, ExitCode code = ExitCode::kBadFile) {
  try {
    act();
  } catch (const Error& error) {
    if (error.code() != code) throw;
  }
}

inline void expect(bool condition) {
  if (!condition) __builtin_trap();
}

// Reads every byte of a file's tensors.
template <typename File>
void read_tensors(const File& file) {
  volatile unsigned sink = 0;  // prevents that the reads are optimized away
  for (const auto& tensor : file.tensors().all())
    for (const std::byte byte : tensor.bytes) sink = sink + static_cast<unsigned>(byte);
}

}  // namespace ridge::fuzz
