// SPDX-License-Identifier: Apache-2.0
// GEMMs by oneDNN. Their values are tested with the ops.
#include "backends/cpu/gemm.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace ridge::backends::cpu {
namespace {

// Bytes of code that the process generated. Linux lists the mappings of a process, those of files
// with their names.
int64_t generated_bytes() {
  std::ifstream maps("/proc/self/maps");
  int64_t bytes = 0;
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0;
    char access[5] = "";
    const int fields = std::sscanf(line.c_str(), "%lx-%lx %4s", &begin, &end, access);
    if (fields == 3 && access[2] == 'x' && line.find_first_of("/[") == std::string::npos)
      bytes += static_cast<int64_t>(end - begin);
  }
  return bytes;
}

// A dense product, in which `b_is_transposed` says how B lies.
GemmShape dense(int64_t m, int64_t n, int64_t k, bool b_is_transposed) {
  GemmShape g;
  g.m = m, g.n = n, g.k = k;
  g.a_m = k, g.a_k = 1;
  g.b_k = b_is_transposed ? 1 : n, g.b_n = b_is_transposed ? k : 1;
  g.c_m = n, g.c_n = 1;
  return g;
}

// The library has no answer to a lack of memory while it generates a kernel. So all kernels of a
// form are there once it is bound, where the memory for them is asked for, and a run makes none.
[[noreturn]] void run_all(GemmForm form) {
  constexpr int64_t kMost = 320;
  std::vector<float> a(kMost * kMost), b(kMost * kMost), c(kMost * kMost);
  auto bytes = [](std::vector<float>& v) { return reinterpret_cast<std::byte*>(v.data()); };
  for (const int64_t m : {1, 160})
    for (const int64_t n : {1, 3, 320})
      for (const bool transposed : {false, true})
        for (const bool adds : {false, true}) {
          GemmShape g = dense(m, n, 64, transposed);
          g.accumulate = adds;
          const GemmLaunch launch = bind_gemm(form, g, {bytes(a), bytes(b), bytes(c)});
          const int64_t before = generated_bytes();
          launch();
          if (generated_bytes() == before) continue;
          std::fprintf(stderr, "a run of %s made code\n", g.key().c_str());
          std::exit(1);
        }
  std::exit(generated_bytes() > 0 ? 0 : 2);
}

// In a process of its own, since any other test may have generated the kernels.
TEST(CpuGemm, ARunGeneratesNoKernels) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  for (const GemmForm form : {GemmForm::kSgemm, GemmForm::kMatmul})
    EXPECT_EXIT(run_all(form), testing::ExitedWithCode(0), "") << name(form);
}

}  // namespace
}  // namespace ridge::backends::cpu
