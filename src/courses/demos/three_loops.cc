// SPDX-License-Identifier: Apache-2.0
// The demo three-loops: the product as its formula reads, of matrices and of a matrix with a
// vector, against the library by size. Other steps of the way to a library: gemm_ladder.cc.
#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "base/random.h"
#include "courses/demos/demos.h"

namespace ridge::courses {
namespace {

// a[n,k] b[k,m] = c[n,m], row-major.
struct Product {
  int64_t n, k, m;
  std::vector<float> a, b, c;
  Product(int64_t rows, int64_t summed, int64_t columns)
      : n(rows),
        k(summed),
        m(columns),
        a(static_cast<size_t>(n * k)),
        b(static_cast<size_t>(k * m)),
        c(static_cast<size_t>(n * m)) {
    Random random(1);
    random.fill_normal(a, 1);
    random.fill_normal(b, 1);
  }
  int64_t macs() const { return n * k * m; }
  int64_t bytes() const { return 4 * (n * k + k * m + n * m); }

  // The sum is of type Sum: float as a student writes it, double as a reference.
  template <typename Sum>
  Sum element(int64_t i, int64_t j) const {
    Sum sum = 0;
    for (int64_t l = 0; l < k; ++l)
      sum += Sum{a[static_cast<size_t>(i * k + l)]} * Sum{b[static_cast<size_t>(l * m + j)]};
    return sum;
  }
  void multiply() {
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < m; ++j) c[static_cast<size_t>(i * m + j)] = element<float>(i, j);
  }
  double largest_error() const {
    double error = 0;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < m; ++j)
        error =
            std::max(error, std::abs(element<double>(i, j) - c[static_cast<size_t>(i * m + j)]));
    return error;
  }
};

void add_loops(Fixture& fixture, const char* form, Product product) {
  // Each addition waits four cycles for the one before it.
  constexpr double kAddCycles = 4, kUsualClock = 3;
  const double clock = fixture.ceilings().machine.clock_ghz;
  const double ns = static_cast<double>(product.macs()) * kAddCycles;
  fixture.add_loop(form, {{"n", product.n}},
                   {products(product.macs()), product.bytes(),
                    ns / (clock > 0 ? clock : kUsualClock), [&] { product.multiply(); }});
}

// Shapes of which none divides another, as tests of a product have them.
double error_of_rectangles() {
  constexpr int64_t kShapes[][3] = {{3, 4, 2}, {2, 5, 3}, {64, 96, 33}, {37, 64, 51}, {78, 56, 49}};
  double error = 0;
  for (const auto& [n, k, m] : kShapes) {
    Product product(n, k, m);
    product.multiply();
    error = std::max(error, product.largest_error());
  }
  return error;
}

void run(Fixture& fixture) {
  for (int64_t n : {64, 128, 256, 512}) {
    add_loops(fixture, "three loops", {n, n, n});
    fixture.add("library", {{"n", n}}, product_graph(n, n, n));
  }
  for (int64_t n : {64, 128, 256, 512}) {
    add_loops(fixture, "loops, one column", {n, n, 1});
    fixture.add("library, one column", {{"n", n}}, product_graph(n, n, 1));
  }
  const record::BenchPoint *loops = fixture.find("three loops", 512),
                           *library = fixture.find("library", 512),
                           *column = fixture.find("loops, one column", 64),
                           *square = fixture.find("three loops", 64);
  fixture.record.prediction =
      fmt::format("at 512 three loops take {:.0f} times the time of the library.",
                  times_predicted(loops, library));
  fixture.record.finding = fmt::format(
      "at 512 three loops take {} that of the library, at 64 a matrix {} that of one column; five "
      "rectangular products differ from their sums in double precision by at most {:.1e}.",
      times_text(loops, library), times_text(square, column), error_of_rectangles());
}

}  // namespace

Demo three_loops_demo() {
  return {
      "three-loops",
      "Three loops have the FLOPs of a library's product and many times its time.",
      {"The loops' time grows with the cube of the size, and faster where a column of B leaves a cache.",
       "The library's rate grows with the size until it is that of the arithmetic units.",
       "One column has a sum of products for each row: no operand but the vector is used twice.",
       "Sums in another order differ in the last bits; a tolerance grows with the length of the sum."},
      "n: rows and columns",
      run};
}

}  // namespace ridge::courses
