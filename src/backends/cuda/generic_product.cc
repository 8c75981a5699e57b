// SPDX-License-Identifier: Apache-2.0
// Computes the strides of dense matrices by form, and binds the product.
#include "backends/cuda/generic_product.h"

#include <memory>
#include <vector>

#include "base/error.h"

namespace ridge::backends::cuda {

using cost::ProductForm;

GemmShape generic_shape(const cost::ProductExtents& e, ProductForm form, DType dtype) {
  GemmShape g;
  bool a_transposed = form == ProductForm::kTN || form == ProductForm::kTT;
  bool b_transposed = form == ProductForm::kNT || form == ProductForm::kTT;
  if (e.batch > 1)
    g.batch = {e.batch}, g.a_batch = {e.m * e.k}, g.b_batch = {e.k * e.n}, g.c_batch = {e.m * e.n};
  g.m = e.m, g.n = e.n, g.k = e.k;
  g.a_m = a_transposed ? 1 : e.k, g.a_k = a_transposed ? e.m : 1;
  g.b_k = b_transposed ? 1 : e.n, g.b_n = b_transposed ? e.k : 1;
  g.c_m = e.n, g.c_n = 1;
  g.input = g.output = dtype;
  return g;
}

std::vector<Launch> generic_product(const Device& device,
                                    const GemmShape& shape,
                                    Fp32Products fp32,
                                    const ProductMemory& memory,
                                    int most) {
  constexpr int64_t kAlignment = 256;
  auto problem = std::make_shared<GemmProblem>(shape, fp32, kAlignment);
  std::vector<Launch> launches;
  for (const GemmAlgorithm& algorithm : problem->candidates(most))
    launches.push_back([&device, problem, algorithm, memory] {
      problem->launch(algorithm, memory.a, memory.b, memory.c, memory.workspace, device.stream());
    });
  if (launches.empty())
    throw Error("[cuda] cuBLASLt has no kernel for a plain product", ExitCode::kDevice);
  return launches;
}

}  // namespace ridge::backends::cuda
