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

#include "base/dtype.h"
#include "base/shape.h"

namespace ridge::python {

// The name of a value's type, for messages.
std::string type_name_of(nanobind::handle value);

// A path from a text or an os.PathLike. Throws a usage Error for bytes.
std::string path_of(nanobind::handle path);

// The values as a numpy array, or without numpy as an array that has DLPack's and Python's buffer
// protocols. The array owns the vector, which is not copied.
nanobind::object array_of(std::vector<float> values, std::span<const int64_t> shape);
// The same in a type of floats, rounded if it is a shorter one. bf16 is an array of
// ml_dtypes.bfloat16 if that is installed, else an array with DLPack's protocol, which torch reads.
nanobind::object array_of(std::vector<float> values, std::span<const int64_t> shape, DType dtype);

// Ids from a list of ints, or from an array of any integer type. Throws a usage Error that names
// `what`.
std::vector<int32_t> ids_of(nanobind::handle values, std::string_view what);

// The ids of one sequence, or of several: an array [B,T] or a list of lists, which may differ in
// length.
struct IdRows {
  std::vector<std::vector<int32_t>> rows;
  bool is_one = false;

  bool are_equally_long() const;
};
IdRows id_rows_of(nanobind::handle values, std::string_view what);

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
