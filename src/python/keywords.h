// SPDX-License-Identifier: Apache-2.0
// The keyword arguments of a call. Each is taken once, and one that is left is unknown.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <type_traits>

#include "base/error.h"
#include "python/arrays.h"

namespace ridge::python {

// The name of the type in a message.
template <typename T>
constexpr const char* kind_of() {
  if constexpr (requires { typename T::value_type; } && !std::is_same_v<T, std::string>)
    return kind_of<typename T::value_type>();  // an optional one
  else if constexpr (std::is_same_v<T, bool>)
    return "True or False";
  else if constexpr (std::is_integral_v<T>)
    return sizeof(T) == 8 ? "an int of 64 bits" : "an int of 32 bits";
  else if constexpr (std::is_floating_point_v<T>)
    return "a number";
  else
    return "a text";
}

class Keywords {
 public:
  explicit Keywords(const nanobind::kwargs& given)
      : left_(nanobind::steal<nanobind::dict>(PyDict_Copy(given.ptr()))) {}

  // Leaves the value as it is if the argument is missing or None. Throws a usage Error for another
  // type. The type's header of nanobind/stl must be included where it is called.
  template <typename T>
  void take(const char* name, T& value) {
    if (!left_.contains(name)) return;
    const nanobind::object given = left_[name];
    nanobind::del(left_[name]);
    if (given.is_none()) return;
    if (!nanobind::try_cast(given, value))
      throw usage_error("[{}] expected {}, got {}", name, kind_of<T>(), type_name_of(given));
  }
  // The same for a path, which is a text or an os.PathLike.
  void take_path(const char* name, std::string& path) {
    nanobind::object given;
    take(name, given);
    if (given.is_valid()) path = path_of(given);
  }
  // Whether it is given, and not None.
  bool has(const char* name) const {
    return left_.contains(name) && !nanobind::object(left_[name]).is_none();
  }
  void expect_none_left() const {
    for (auto [name, value] : left_)
      throw nanobind::type_error(
          ("unexpected keyword argument " + std::string(nanobind::repr(name).c_str())).c_str());
  }
  // The arguments that were not taken.
  const nanobind::dict& left() const { return left_; }

 private:
  nanobind::dict left_;
};

}  // namespace ridge::python
