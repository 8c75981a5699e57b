// SPDX-License-Identifier: Apache-2.0
// The keyword arguments of a call. Each is taken once, and one that is left is unknown.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "base/error.h"
#include "python/arrays.h"

namespace ridge::python {

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
      throw usage_error("[{}] expected another type than {}", name, type_name_of(given));
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
