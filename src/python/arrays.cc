// SPDX-License-Identifier: Apache-2.0
// Reads arrays by DLPack or the buffer protocol, and lists element by element.
#include "python/arrays.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "base/bf16.h"
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

// Elements of two bytes that C++ has no type for.
struct Half {
  uint16_t bits;
  explicit operator float() const { return f16_to_float(bits); }
};
struct Brain {
  uint16_t bits;
  explicit operator float() const { return bf16_to_float(bits); }
};

constexpr nb::dlpack::dtype kHalf = {static_cast<uint8_t>(nb::dlpack::dtype_code::Float), 16, 1};
constexpr nb::dlpack::dtype kBrain = {static_cast<uint8_t>(nb::dlpack::dtype_code::Bfloat), 16, 1};

template <typename From>
nb::dlpack::dtype dtype_of_elements() {
  if constexpr (std::is_same_v<From, Half>)
    return kHalf;
  else if constexpr (std::is_same_v<From, Brain>)
    return kBrain;
  else
    return nb::dtype<From>();
}

template <typename To, typename... From>
bool copy_as(const nb::ndarray<nb::ro, nb::device::cpu>& array,
             std::string_view what,
             std::vector<To>& to) {
  return (
      (array.dtype() == dtype_of_elements<From>() && (copy_strided<From>(array, what, to), true)) ||
      ...);
}

bool copy_elements(const nb::ndarray<nb::ro, nb::device::cpu>& array,
                   std::string_view what,
                   std::vector<float>& to) {
  return copy_as<float, float, double, Half, Brain, int32_t, int64_t, uint8_t, bool, int8_t,
                 int16_t, uint16_t, uint32_t, uint64_t>(array, what, to);
}

bool copy_elements(const nb::ndarray<nb::ro, nb::device::cpu>& array,
                   std::string_view what,
                   std::vector<int32_t>& to) {
  return copy_as<int32_t, int32_t, int64_t, uint8_t, int8_t, int16_t, uint16_t, uint32_t, uint64_t>(
      array, what, to);
}

// "ndarray of complex128"
std::string element_name_of(nb::handle values) {
  std::string name = type_name_of(values), element;
  if (nb::hasattr(values, "dtype") && nb::try_cast(nb::str(values.attr("dtype")), element))
    name += " of " + element;
  return name;
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

// numpy has no bfloat16 of its own, so that arrays of ml_dtypes.bfloat16 have no protocol. Their
// bits do.
bool is_brain_of_numpy(nb::handle values) {
  if (!nb::hasattr(values, "dtype") || !nb::hasattr(values, "view") ||
      nb::hasattr(values, "__torch_function__"))
    return false;
  std::string name;
  return nb::try_cast(nb::str(values.attr("dtype")), name) && name == "bfloat16";
}

std::pair<Shape, std::vector<float>> read_brain(nb::handle values, std::string_view what) {
  nb::ndarray<uint16_t, nb::ro, nb::device::cpu> bits;
  if (!nb::try_cast(values.attr("view")("uint16"), bits))
    throw usage_error("[{}] expected an array of bfloat16 on the CPU, got {}", what,
                      type_name_of(values));
  const nb::ndarray<nb::ro, nb::device::cpu> array(bits);
  std::vector<float> to;
  copy_strided<Brain>(array, what, to);
  return {shape_of(array, what), std::move(to)};
}

template <typename To>
std::pair<Shape, std::vector<To>> read(nb::handle values, std::string_view what) {
  if constexpr (std::is_same_v<To, float>)
    if (is_brain_of_numpy(values)) return read_brain(values, what);
  std::vector<To> to;
  nb::ndarray<nb::ro, nb::device::cpu> array;
  const bool is_list = nb::isinstance<nb::list>(values) || nb::isinstance<nb::tuple>(values) ||
                       nb::isinstance<nb::str>(values) || nb::isinstance<nb::bytes>(values);
  if (!is_list && nb::try_cast(values, array)) {
    const Shape shape = shape_of(array, what);
    to.reserve(array.size());
    if (!copy_elements(array, what, to))
      throw usage_error("[{}] expected an array of {}, got {}", what,
                        std::is_same_v<To, float> ? "floats or ints" : "ints",
                        element_name_of(values));
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

namespace {

enum class Form { kNumpy, kDlpack };

// An array that owns the values.
template <typename T>
nb::object owning_array(std::vector<T> values,
                        std::span<const int64_t> shape,
                        nb::dlpack::dtype dtype,
                        Form form) {
  auto kept = std::make_unique<std::vector<T>>(std::move(values));
  T* data = kept->data();
  std::vector<size_t> extents(shape.begin(), shape.end());
  const nb::capsule owner(kept.get(),
                          [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  kept.release();
  if (form == Form::kNumpy)
    return nb::ndarray<nb::numpy>(data, extents.size(), extents.data(), owner, nullptr, dtype)
        .cast();
  return nb::ndarray<nb::array_api>(data, extents.size(), extents.data(), owner, nullptr, dtype)
      .cast();
}

// ml_dtypes.bfloat16; none if it is not installed.
nb::object brain_of_numpy() {
  try {
    return nb::module_::import_("ml_dtypes").attr("bfloat16");
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_ImportError)) throw;
    return nb::none();
  }
}

nb::object brain_array(std::vector<uint16_t> bits, std::span<const int64_t> shape) {
  const nb::object type = has_numpy() ? brain_of_numpy() : nb::none();
  if (type.is_none()) return owning_array(std::move(bits), shape, kBrain, Form::kDlpack);
  return owning_array(std::move(bits), shape, nb::dtype<uint16_t>(), Form::kNumpy)
      .attr("view")(type);
}

}  // namespace

nb::object array_of(std::vector<float> values, std::span<const int64_t> shape) {
  return owning_array(std::move(values), shape, nb::dtype<float>(),
                      has_numpy() ? Form::kNumpy : Form::kDlpack);
}

nb::object array_of(std::vector<float> values, std::span<const int64_t> shape, DType dtype) {
  const Form form = has_numpy() ? Form::kNumpy : Form::kDlpack;
  if (dtype == DType::kF64)
    return owning_array(std::vector<double>(values.begin(), values.end()), shape,
                        nb::dtype<double>(), form);
  if (dtype != DType::kF16 && dtype != DType::kBF16) return array_of(std::move(values), shape);
  std::vector<uint16_t> bits(values.size());
  std::ranges::transform(values, bits.begin(), dtype == DType::kF16 ? float_to_f16 : float_to_bf16);
  if (dtype == DType::kBF16) return brain_array(std::move(bits), shape);
  return owning_array(std::move(bits), shape, kHalf, form);
}

std::vector<int32_t> ids_of(nb::handle values, std::string_view what) {
  auto [shape, ids] = read<int32_t>(values, what);
  if (shape.rank() != 1)
    throw usage_error("[{}] expected a list of ids, one axis, got an array of the shape {}", what,
                      shape.str());
  return std::move(ids);
}

bool IdRows::are_equally_long() const {
  return std::ranges::all_of(rows, [&](const auto& row) { return row.size() == rows[0].size(); });
}

IdRows id_rows_of(nb::handle values, std::string_view what) {
  const bool is_list = nb::isinstance<nb::list>(values) || nb::isinstance<nb::tuple>(values);
  if (is_list && nb::len(values) > 0 && !nb::isinstance<nb::int_>(values[0]) &&
      nb::hasattr(values[0], "__len__")) {
    IdRows made;
    for (nb::handle each : values) made.rows.push_back(ids_of(each, what));
    return made;
  }
  const auto [shape, ids] = read<int32_t>(values, what);
  if (shape.rank() == 1) return {{ids}, true};
  if (shape.rank() != 2 || shape.elements() == 0)
    throw usage_error("[{}] expected ids of one sequence [T] or of several [B,T], got {}", what,
                      shape.str());
  IdRows made;
  for (auto at = ids.begin(); at != ids.end(); at += shape[1])
    made.rows.emplace_back(at, at + shape[1]);
  return made;
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
