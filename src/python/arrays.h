// SPDX-License-Identifier: Apache-2.0
// Arrays from and to Python. They cross without a copy where types and layouts allow.
#pragma once

#include <nanobind/nanobind.h>
// Casts of a type must see the same header in each file.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/shape.h"

namespace ridge::python {

// The name of a value's type, for messages.
std::string type_name_of(nanobind::handle value);

// A path from a text or an os.PathLike. Throws a usage Error for bytes.
std::string path_of(nanobind::handle path);

// The values as a numpy array, or without numpy as an array that has DLPack's and Python's buffer
// protocols. The array owns the vector, which is not copied.
nanobind::object array_of(std::vector<float> values, std::span<const int64_t> shape);

// Ids from a list of ints, or from an array of any integer type. Throws a usage Error that names
// `what`.
std::vector<int32_t> ids_of(nanobind::handle values, std::string_view what);

// The values of an array of floats or ints, or of nested lists, in row-major order.
struct Numbers {
  Shape shape;
  std::vector<float> values;
};
Numbers numbers_of(nanobind::handle values, std::string_view what);
// The same for ints.
struct Integers {
  Shape shape;
  std::vector<int32_t> values;
};
Integers integers_of(nanobind::handle values, std::string_view what);

}  // namespace ridge::python
