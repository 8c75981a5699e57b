// SPDX-License-Identifier: Apache-2.0
// Reads arrays by DLPack or the buffer protocol, and lists element by element.
#include "python/arrays.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "base/error.h"

namespace ridge::python {
namespace nb = nanobind;
namespace {

bool has_numpy() {
  static const bool has = [] {
    try {
      nb::module_::import_("numpy");
      return true;
    } catch (const nb::python_error&) {
      return false;
    }
  }();
  return has;
}

Shape shape_of(const nb::ndarray<nb::ro, nb::device::cpu>& array, std::string_view what) {
  if (array.ndim() > static_cast<size_t>(kMaxRank))
    throw usage_error("[{}] expected at most {} axes, got {}", what, kMaxRank, array.ndim());
  std::vector<int64_t> extents;
  for (size_t i = 0; i < array.ndim(); ++i) extents.push_back(static_cast<int64_t>(array.shape(i)));
  return Shape(std::span<const int64_t>(extents));
}

template <typename From, typename To>
To converted(From value, std::string_view what) {
  if constexpr (std::is_same_v<To, int32_t> && !std::is_same_v<From, int32_t>)
    if (!std::in_range<int32_t>(value))
      throw usage_error("[{}] expected ints of 32 bits, got {}", what, value);
  return static_cast<To>(value);
}

// Copies an array of any strides, whose elements are `From`.
template <typename From, typename To>
void copy_strided(const nb::ndarray<nb::ro, nb::device::cpu>& array,
                  std::string_view what,
                  std::vector<To>& to) {
  const From* data = static_cast<const From*>(array.data());
  std::vector<size_t> index(array.ndim(), 0);
  for (size_t left = array.size(); left > 0; --left) {
    int64_t offset = 0;
    for (size_t axis = 0; axis < index.size(); ++axis)
      offset += static_cast<int64_t>(index[axis]) * array.stride(axis);
    to.push_back(converted<From, To>(data[offset], what));
    for (size_t axis = index.size(); axis-- > 0 && ++index[axis] == array.shape(axis);)
      index[axis] = 0;
  }
}

template <typename To, typename... From>
bool copy_as(const nb::ndarray<nb::ro, nb::device::cpu>& array,
             std::string_view what,
             std::vector<To>& to) {
  return ((array.dtype() == nb::dtype<From>() && (copy_strided<From>(array, what, to), true)) ||
          ...);
}

bool copy_elements(const nb::ndarray<nb::ro, nb::device::cpu>& array,
                   std::string_view what,
                   std::vector<float>& to) {
  return copy_as<float, float, double, int32_t, int64_t, uint8_t, bool>(array, what, to);
}

bool copy_elements(const nb::ndarray<nb::ro, nb::device::cpu>& array,
                   std::string_view what,
                   std::vector<int32_t>& to) {
  return copy_as<int32_t, int32_t, int64_t, uint8_t, int8_t, int16_t, uint16_t, uint32_t, uint64_t>(
      array, what, to);
}

// Flattens nested lists; all rows of an axis must be equally long.
template <typename To>
void flatten(nb::handle values,
             std::string_view what,
             size_t depth,
             std::vector<int64_t>& extents,
             std::vector<To>& to) {
  if (!nb::isinstance<nb::sequence>(values) || nb::isinstance<nb::str>(values) ||
      nb::isinstance<nb::bytes>(values)) {
    if (depth != extents.size()) throw usage_error("[{}] expected rows of equal length", what);
    using Read = std::conditional_t<std::is_same_v<To, float>, double, int64_t>;
    Read read{};
    if (!nb::try_cast(values, read, std::is_same_v<To, float>))
      throw usage_error("[{}] expected {} or an array of them on the CPU, got {}", what,
                        std::is_same_v<To, float> ? "numbers" : "ints", type_name_of(values));
    to.push_back(converted<Read, To>(read, what));
    return;
  }
  const auto length = static_cast<int64_t>(nb::len(values));
  if (to.empty() && depth == extents.size()) {
    if (depth == static_cast<size_t>(kMaxRank))
      throw usage_error("[{}] expected at most {} axes", what, kMaxRank);
    extents.push_back(length);
  }
  if (depth >= extents.size() || extents[depth] != length)
    throw usage_error("[{}] expected rows of equal length", what);
  for (nb::handle each : nb::borrow<nb::sequence>(values))
    flatten(each, what, depth + 1, extents, to);
}

template <typename To>
std::pair<Shape, std::vector<To>> read(nb::handle values, std::string_view what) {
  std::vector<To> to;
  nb::ndarray<nb::ro, nb::device::cpu> array;
  const bool is_list = nb::isinstance<nb::list>(values) || nb::isinstance<nb::tuple>(values) ||
                       nb::isinstance<nb::str>(values) || nb::isinstance<nb::bytes>(values);
  if (!is_list && nb::try_cast(values, array)) {
    const Shape shape = shape_of(array, what);
    to.reserve(array.size());
    if (!copy_elements(array, what, to))
      throw usage_error("[{}] expected an array of {}, got {}", what,
                        std::is_same_v<To, float> ? "float32, float64 or ints" : "ints",
                        type_name_of(values));
    return {shape, std::move(to)};
  }
  std::vector<int64_t> extents;
  flatten(values, what, 0, extents, to);
  return {Shape(std::span<const int64_t>(extents)), std::move(to)};
}

}  // namespace

std::string type_name_of(nb::handle value) {
  return nb::cast<std::string>(value.type().attr("__name__"));
}

std::string path_of(nb::handle path) {
  const nb::object text = nb::module_::import_("os").attr("fspath")(path);
  std::string value;
  if (!nb::try_cast(text, value))
    throw usage_error("[path] expected a text, got {}", type_name_of(text));
  return value;
}

nb::object array_of(std::vector<float> values, std::span<const int64_t> shape) {
  auto kept = std::make_unique<std::vector<float>>(std::move(values));
  float* data = kept->data();
  std::vector<size_t> extents(shape.begin(), shape.end());
  const nb::capsule owner(kept.get(),
                          [](void* p) noexcept { delete static_cast<std::vector<float>*>(p); });
  kept.release();
  if (has_numpy())
    return nb::ndarray<nb::numpy, float>(data, extents.size(), extents.data(), owner).cast();
  return nb::ndarray<nb::array_api, float>(data, extents.size(), extents.data(), owner).cast();
}

std::vector<int32_t> ids_of(nb::handle values, std::string_view what) {
  auto [shape, ids] = read<int32_t>(values, what);
  if (shape.rank() != 1)
    throw usage_error("[{}] expected a list of ids, got {}", what, shape.str());
  return std::move(ids);
}

Numbers numbers_of(nb::handle values, std::string_view what) {
  auto [shape, numbers] = read<float>(values, what);
  return {shape, std::move(numbers)};
}

Integers integers_of(nb::handle values, std::string_view what) {
  auto [shape, numbers] = read<int32_t>(values, what);
  return {shape, std::move(numbers)};
}

}  // namespace ridge::python
