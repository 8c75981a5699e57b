// SPDX-License-Identifier: Apache-2.0
// Binds the values of graphs, and Python's operators on them. Shapes broadcast as numpy's.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/shape.h"
#include "ops/build.h"
#include "python/arrays.h"
#include "python/binding.h"
#include "python/graph.h"

namespace ridge::python {
namespace nb = nanobind;
namespace {

using Extents = std::vector<int64_t>;

PythonValue call(const PythonValue& x, const char* op, Attrs attrs = {}) {
  return {x.graph, x.graph->builder.call(op, {x.id}, std::move(attrs))};
}

PythonValue call(const char* op, const PythonValue& a, const PythonValue& b, Attrs attrs = {}) {
  return {a.graph, a.graph->builder.call(op, {a.id, b.id}, std::move(attrs))};
}

Shape shape_of(const PythonValue& x) { return x.value().type.shape; }

Shape shape_from(const Extents& extents) { return Shape(std::span<const int64_t>(extents)); }

PythonValue reshaped(const PythonValue& x, const Extents& extents) {
  return {x.graph, ops::reshape(x.graph->builder, x.id, shape_from(extents))};
}

// The shape to which both broadcast: axes are aligned at the last one, and an axis of 1 repeats.
Extents common(const char* op, const Extents& a, const Extents& b, const std::string& found) {
  Extents made(std::max(a.size(), b.size()));
  for (size_t i = 1; i <= made.size(); ++i) {
    const int64_t m = i <= a.size() ? a[a.size() - i] : 1, n = i <= b.size() ? b[b.size() - i] : 1;
    if (m != n && m != 1 && n != 1)
      throw usage_error("[{}] expected shapes that broadcast, got {}", op, found);
    made[made.size() - i] = m == 1 ? n : m;
  }
  return made;
}

PythonValue repeated(const PythonValue& x, const Extents& to) {
  return {x.graph, ops::broadcast_rows(x.graph->builder, x.id, shape_from(to))};
}

std::string types(const PythonValue& a, const PythonValue& b) {
  return a.value().type.str() + " and " + b.value().type.str();
}

// Before any node is appended: what nothing reads would be an output. A product may have a weight
// in the type of its file.
void expect_fit(const char* op, const PythonValue& a, const PythonValue& b, bool is_product) {
  if (a.graph != b.graph)
    throw usage_error("[{}] expected values of one graph, got two graphs", op);
  const DType left = a.value().type.dtype, right = b.value().type.dtype;
  const bool is_weight =
      is_product && left == DType::kF32 && is_float(right) && right != DType::kF64;
  if (!is_float(left) || (left != right && !is_weight))
    throw usage_error(
        "[{}] expected two values of one type of floats, got {} (Graph.cast converts)", op,
        types(a, b));
}

PythonValue of_two(const char* op, const PythonValue& a, const PythonValue& b) {
  expect_fit(op, a, b, false);
  const Extents to = common(op, shape_of(a).to_vector(), shape_of(b).to_vector(), types(a, b));
  return call(op, repeated(a, to), repeated(b, to));
}

// Batches of matrices; a vector is a matrix of one row, or of one column on the right.
PythonValue product(const PythonValue& a, const PythonValue& b) {
  expect_fit("matmul", a, b, true);
  Extents left = shape_of(a).to_vector(), right = shape_of(b).to_vector();
  if (left.empty() || right.empty())
    throw usage_error("[matmul] expected values with at least one axis, got {}", types(a, b));
  const bool is_row = left.size() == 1, is_column = right.size() == 1;
  if (is_row) left.insert(left.begin(), 1);
  if (is_column) right.push_back(1);
  if (left.back() != right[right.size() - 2])
    throw usage_error(
        "[matmul] expected as many columns on the left as rows on the right, got {}; .T swaps the "
        "axes of a matrix",
        types(a, b));
  Extents batch_a(left.begin(), left.end() - 2), batch_b(right.begin(), right.end() - 2);
  PythonValue x = reshaped(a, left), w = reshaped(b, right);
  const Extents batch = common("matmul", batch_a, batch_b, types(a, b));
  const auto whole = [&](const Extents& matrix) {
    Extents made = batch;
    made.insert(made.end(), matrix.end() - 2, matrix.end());
    return made;
  };
  const std::string letters = std::string("abcdefgh").substr(0, batch.size());
  x = repeated(x, whole(left));
  // One matrix for all rows needs no copies.
  const bool is_shared = batch_b.empty();
  if (!is_shared) w = repeated(w, whole(right));
  PythonValue made =
      call("matmul", x, w,
           {{"einsum", letters + "nk," + (is_shared ? "" : letters) + "km->" + letters + "nm"}});
  Extents shape = shape_of(made).to_vector();
  if (is_column) shape.pop_back();
  if (is_row) shape.erase(is_column ? shape.end() - 1 : shape.end() - 2);
  return reshaped(made, shape);
}

double expect_finite(double number) {
  if (!std::isfinite(number)) throw usage_error("[value] expected a finite number, got {}", number);
  return number;
}

PythonValue plus(const PythonValue& x, double number) {
  return call(x, "add_scalar", {{"parameter", number}});
}
PythonValue minus(const PythonValue& x, double number) { return plus(x, -number); }
PythonValue times(const PythonValue& x, double number) {
  return call(x, "scale", {{"parameter", expect_finite(number)}});
}
PythonValue divided(const PythonValue& x, double number) {
  if (number == 0) throw usage_error("[div] expected a divisor other than 0, got 0");
  return times(x, 1 / number);
}
PythonValue negative(const PythonValue& x) { return call(x, "neg"); }
PythonValue subtracted(const PythonValue& x, double number) { return plus(negative(x), number); }
PythonValue inverse(const PythonValue& x, double number) {
  const PythonValue made = call(x, "reciprocal");
  return number == 1 ? made : times(made, number);
}

PythonValue power(const PythonValue& x, double exponent) {
  if (exponent == 1) return x;
  if (exponent == 2) return call(x, "square");
  if (exponent == 3) return call("mul", call(x, "square"), x);
  if (exponent == 0.5) return call(x, "sqrt");
  if (exponent == -0.5) return call(x, "rsqrt");
  if (exponent == -1) return call(x, "reciprocal");
  throw usage_error("[pow] expected an exponent of -1, -0.5, 0.5, 1, 2 or 3, got {}", exponent);
}

PythonValue transposed(const PythonValue& x) {
  const int rank = shape_of(x).rank();
  if (rank != 2) throw usage_error("[T] expected a matrix, got {}", x.value().type.str());
  return call(x, "transpose", {{"permutation", Extents{1, 0}}});
}

// The sum of all elements, of shape [].
PythonValue sum(const PythonValue& x) {
  Extents axes(static_cast<size_t>(shape_of(x).rank()));
  std::iota(axes.begin(), axes.end(), int64_t{0});
  return reshaped(axes.empty() ? x : call(x, "reduce_sum", {{"axes", axes}}), {});
}

PythonValue mean(const PythonValue& x) {
  if (shape_of(x).elements() == 0)
    throw usage_error("[mean] expected at least one element, got {}", x.value().type.str());
  return divided(sum(x), static_cast<double>(shape_of(x).elements()));
}

// Python asks the other operand, and then says in a TypeError which types it was given.
nb::object not_implemented() { return nb::borrow(Py_NotImplemented); }

// numpy's scalars are numbers, an array of one element is none.
std::optional<double> number_of(nb::handle given) {
  double number = 0;
  if (nb::hasattr(given, "__len__") || !nb::try_cast(given, number)) return std::nullopt;
  return number;
}

using ValueClass = nb::class_<PythonValue>;
using WithNumber = PythonValue (*)(const PythonValue& x, double number);

struct Operator {
  const char *method, *op;
  WithNumber with_number;
  bool is_reflected = false;  // the value stands on the right
};
constexpr Operator kOperators[] = {
    {"__add__", "add", plus},        {"__radd__", "add", plus, true},
    {"__sub__", "sub", minus},       {"__rsub__", "sub", subtracted, true},
    {"__mul__", "mul", times},       {"__rmul__", "mul", times, true},
    {"__truediv__", "div", divided}, {"__rtruediv__", "div", inverse, true},
};

void bind_operator(ValueClass& bound, const Operator& o) {
  bound.def(
      o.method,
      [&o](const PythonValue& self, nb::handle other) {
        if (PythonValue value; nb::try_cast(other, value))
          return nb::cast(o.is_reflected ? of_two(o.op, value, self) : of_two(o.op, self, value));
        // Before any node is appended, as in expect_fit.
        if (const std::optional<double> number = number_of(other))
          return nb::cast(o.with_number(self, expect_finite(*number)));
        return not_implemented();
      },
      nb::sig(fmt::format("def {}(self, other: Value | float) -> Value", o.method).c_str()));
}

void bind_operators(ValueClass& bound) {
  for (const Operator& each : kOperators) bind_operator(bound, each);
  bound
      .def(
          "__matmul__",
          [](const PythonValue& self, nb::handle other) {
            PythonValue value;
            return nb::try_cast(other, value) ? nb::cast(product(self, value)) : not_implemented();
          },
          nb::sig("def __matmul__(self, other: Value) -> Value"))
      .def(
          "__pow__",
          [](const PythonValue& self, nb::handle exponent) {
            const std::optional<double> number = number_of(exponent);
            return number ? nb::cast(power(self, *number)) : not_implemented();
          },
          nb::sig("def __pow__(self, exponent: float) -> Value"))
      .def("__neg__", &negative)
      .def("__pos__", [](const PythonValue& self) { return self; })
      .def("__abs__", [](const PythonValue& self) { return call(self, "abs"); });
  // numpy leaves operators between an array and a value to the value.
  bound.attr("__array_ufunc__") = nb::none();
}

}  // namespace

void bind_value(nb::module_& m) {
  ValueClass bound(
      m, "Value",
      "A value of a graph. +, -, * and / take values and numbers, shapes broadcast as numpy's; @ "
      "multiplies matrices, or batches of them; ** takes -1, -0.5, 0.5, 1, 2 and 3. `x / 3` is x * "
      "(1 / 3).");
  bound
      .def_prop_ro(
          "shape",
          [](const PythonValue& v) { return nb::tuple(nb::cast(shape_of(v).to_vector())); },
          nb::sig("def shape(self) -> tuple[int, ...]"))
      .def_prop_ro("ndim", [](const PythonValue& v) { return shape_of(v).rank(); })
      .def_prop_ro("dtype",
                   [](const PythonValue& v) { return std::string(name(v.value().type.dtype)); })
      .def_prop_ro("name", [](const PythonValue& v) { return v.value().name; })
      .def_prop_ro("T", &transposed, "a matrix with its axes swapped")
      .def("sum", &sum, "The sum of all elements, of shape ().")
      .def("mean", &mean, "The mean of all elements, of shape ().")
      .def("__repr__", [](const PythonValue& v) {
        const std::string& name = v.value().name;
        return fmt::format("<ridge.Value %{}{}: {}>", v.id, name.empty() ? "" : " " + name,
                           v.value().type.str());
      });
  bind_operators(bound);
}

}  // namespace ridge::python
