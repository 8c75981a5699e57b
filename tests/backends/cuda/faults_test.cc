// SPDX-License-Identifier: Apache-2.0
// Messages and exit codes of errors around a GPU. CudaFaults need no GPU; GpuFaults break one, each
// in a separate process.
#include <gtest/gtest.h>

#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/device.h"
#include "backends/cuda/device_error.h"
#include "backends/cuda/kernels/copy/fill.h"
#include "base/error.h"
#include "graph/builder.h"
#include "ops/registry.h"
#include "runtime/program.h"
#include "runtime/store.h"

namespace ridge::backends::cuda {
namespace {

Error error_of(cudaError_t status) {
  try {
    check(status, "doing something");
  } catch (const Error& error) {
    return error;
  }
  return Error("nothing was thrown", ExitCode::kFine);
}

bool says(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

TEST(CudaFaults, WhatTheDriverLacks) {
  EXPECT_EQ(missing_device({13000, 13000, cudaSuccess, 1}), "");
  EXPECT_TRUE(
      says(missing_device({0, 13000, cudaSuccess, 0}), "this machine has no NVIDIA driver"));
  EXPECT_EQ(missing_device({12040, 13000, cudaErrorInsufficientDriver, 0}),
            "the NVIDIA driver is too old: it supports CUDA 12.4, but this program needs 13.0");
  for (cudaError_t status : {cudaErrorNoDevice, cudaSuccess})
    EXPECT_TRUE(says(missing_device({13000, 13000, status, 0}), "finds no GPU"));
  EXPECT_TRUE(says(missing_device({13000, 13000, cudaErrorSystemDriverMismatch, 0}),
                   "the NVIDIA driver cannot be started"));
}

TEST(CudaFaults, StatusesBecomeErrorsWithTheirExitCodes) {
  EXPECT_EQ(error_of(cudaSuccess).code(), ExitCode::kFine);
  EXPECT_EQ(error_of(cudaErrorMemoryAllocation).code(), ExitCode::kOutOfMemory);
  EXPECT_TRUE(says(error_of(cudaErrorMemoryAllocation).what(), "doing something"));
  for (cudaError_t lost : {cudaErrorIllegalAddress, cudaErrorECCUncorrectable,
                           cudaErrorLaunchFailure, cudaErrorDevicesUnavailable}) {
    Error error = error_of(lost);
    EXPECT_EQ(error.code(), ExitCode::kDevice);
    EXPECT_TRUE(says(error.what(), cudaGetErrorName(lost))) << error.what();
    EXPECT_TRUE(says(error.what(), "the GPU is lost")) << error.what();
  }
  EXPECT_EQ(error_of(cudaErrorInvalidValue).code(), ExitCode::kDevice);
  EXPECT_FALSE(says(error_of(cudaErrorInvalidValue).what(), "lost"));
}

class GpuFaults : public testing::Test {
 protected:
  void SetUp() override { testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

// Ends the process like the program.
[[noreturn]] void end(const Error& error) {
  fmt::print(stderr, "{}\n", error.what());
  std::exit(static_cast<int>(error.code()));
}

TEST_F(GpuFaults, MoreMemoryThanThereIs) {
  auto ask = [] {
    try {
      make_cuda_backend({})->allocate(int64_t{1} << 50, "arena of temporaries");
    } catch (const Error& error) {
      end(error);
    }
    std::exit(0);
  };
  EXPECT_EXIT(ask(), testing::ExitedWithCode(4),
              "cannot allocate 1.00 PiB for 'arena of temporaries': .* are free");
}

// Every later call fails too, but the process still ends.
TEST_F(GpuFaults, AKernelThatLosesTheGpu) {
  auto lose = [] {
    try {
      Device device;
      float* nowhere = reinterpret_cast<float*>(uintptr_t{1} << 46);
      check(launch_fill(Fill<float>{1, 1024, {nowhere, 1024}, 1}, device.stream()), "fill");
      device.synchronize();
    } catch (const Error& error) {
      end(error);
    }
    std::exit(0);
  };
  EXPECT_EXIT(lose(), testing::ExitedWithCode(5), "the GPU is lost to this process");
}

TEST_F(GpuFaults, AHeadSizeThatNoKernelTakes) {
  auto backend = make_cuda_backend({});
  for (int64_t head_size : {12, 264}) {
    Graph graph;
    Builder b(graph, ops::table());
    Type type{DType::kBF16, {64, 2, head_size}};
    b.call_all(
        "flash_attention", {b.input("q", type), b.input("k", type), b.input("v", type)},
        {{"sequence", int64_t{64}}, {"causal", true}, {"window", int64_t{0}}, {"scale", 0.1}});
    EXPECT_TRUE(says(backend->unsupported(graph, graph.nodes.back()), "head size"))
        << backend->unsupported(graph, graph.nodes.back());
  }
}

// Two layers that append the tokens of one run. A run checks positions, slots and blocks once.
TEST_F(GpuFaults, APositionASlotOrABlockOutOfRange) {
  if (const std::string why = why_no_gpu(); !why.empty()) GTEST_SKIP() << why;
  constexpr int64_t kTokens = 300, kSlots = 70, kBlocks = 3;
  auto backend = make_cuda_backend({});
  runtime::Store store(*backend);
  runtime::Program program(*backend, store);
  Graph graph;
  Builder b(graph, ops::table());
  const Type cache{DType::kF32, {kSlots * kBlocks, 16, 1, 8}}, tokens{DType::kF32, {kTokens, 1, 8}},
      ids{DType::kI32, {kTokens}};
  const ValueId positions = b.input("positions", ids), slots = b.input("slots", ids),
                table = b.input("table", {DType::kI32, {kSlots, kBlocks}});
  for (const char* layer : {"0", "1"}) {
    const auto name = [&](const char* what) { return std::string(what) + layer; };
    b.call_all("kv_append",
               {b.state(name("keys"), cache), b.state(name("values"), cache),
                b.input(name("k"), tokens), b.input(name("v"), tokens), positions, slots, table});
  }
  program.add("append", graph);
  program.bind();
  const auto run = [&](const char* input, size_t entry, int32_t wrong) -> std::string {
    const auto write = [&](const char* name, int64_t count, int32_t value) {
      std::vector<int32_t> values(static_cast<size_t>(count), value);
      if (name == std::string_view(input)) values[entry] = wrong;
      store.write(name, values.data(), count * 4);
    };
    write("positions", kTokens, 5);
    write("slots", kTokens, 1);
    write("table", kSlots * kBlocks, 7);
    program.run(0);
    try {
      program.wait();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(run("positions", 0, -1), "");
  EXPECT_TRUE(says(run("positions", 299, -2), "positions from -1 to")) << "the last token";
  EXPECT_TRUE(says(run("slots", 290, 70), "slots from 0 to 69, token 290 has another"));
  EXPECT_TRUE(says(run("table", 209, 210), "blocks from 0 to 209, entry of the block table 209"));
  EXPECT_EQ(run("table", 209, 209), "");
}

}  // namespace
}  // namespace ridge::backends::cuda
