// SPDX-License-Identifier: Apache-2.0
// Whether several documents may share a row of a training batch.
#pragma once

#include <cstdint>

namespace ridge::models {

enum class Packing : uint8_t {
  kNone,       // a row is one sequence
  kDocuments,  // positions begin at 0 in each document, and attention stays inside it
};

}  // namespace ridge::models
