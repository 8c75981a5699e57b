// SPDX-License-Identifier: Apache-2.0
// The names used in the error message when an index given to a kernel is out of range:
// "[embedding] expected ids from -1 to 7, token 3 has another".
// The kernels themselves check the indices.
#pragma once

namespace ridge::backends {

struct IndexNames {
  const char* op = nullptr;
  const char* noun = nullptr;
  const char* row = nullptr;                           // each index belongs to one
  bool operator==(const IndexNames&) const = default;  // names are literals: one address each
};

inline IndexNames labels_of(const char* op) { return {op, "labels", "row"}; }
inline IndexNames ids_of(const char* op) { return {op, "ids", "token"}; }

}  // namespace ridge::backends
