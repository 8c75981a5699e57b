// SPDX-License-Identifier: Apache-2.0
// Warpgroup matrix products of Hopper (wgmma, bf16 or fp16 in, fp32 out) and the shared-memory
// layouts that they read here. Contains no scheduling: callers commit and wait. sm_90a only.
//
// A 64xN accumulator: thread t of the warpgroup (warp w = t / 32, lane l = t % 32) holds in d[4 j +
// c] the element of row 16 w + l / 4 + 8 (c / 2) and column 8 j + 2 (l % 4) + c % 2. Packed to bf16
// in pairs, it is the register operand of the next product, four registers per 16 columns, without
// any exchange between threads.
//
// Tiles in shared memory are [columns / 64][rows][64] bf16 with the copy engine's 128-byte swizzle,
// so 64 columns of a row are 128 bytes, and eight rows form an atom of 1024 bytes.
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/hopper_instructions.cuh"

namespace ridge::backends::cuda::hopper {

constexpr int kChunkColumns = 64;
constexpr int kRowBytes = 128;    // one row of one chunk
constexpr int kAtomBytes = 1024;  // eight rows

__device__ __forceinline__ uint64_t descriptor(uint32_t address,
                                               uint32_t leading_bytes,
                                               uint32_t stride_bytes,
                                               uint32_t swizzle) {
  return static_cast<uint64_t>((address & 0x3ffff) >> 4) |
         (static_cast<uint64_t>(leading_bytes >> 4) << 16) |
         (static_cast<uint64_t>(stride_bytes >> 4) << 32) | (static_cast<uint64_t>(swizzle) << 62);
}

// The product's depth runs along the columns (row-major operand): queries and keys of a score
// product.
__device__ __forceinline__ uint64_t by_columns(uint32_t tile) {
  return descriptor(tile, 16, kAtomBytes, 1);
}

// The depth runs along the rows (transposed operand): values of an output product.
__device__ __forceinline__ uint64_t by_rows(uint32_t tile, int rows) {
  return descriptor(tile, static_cast<uint32_t>(rows) * kRowBytes, kAtomBytes, 1);
}

// Offsets to add to a descriptor to advance by 16 of the depth.
template <int kRows>
__device__ __forceinline__ constexpr uint64_t column_step(int step) {
  return static_cast<uint64_t>(((step / 4) * kRows * kRowBytes + (step % 4) * 32) >> 4);
}
__device__ __forceinline__ constexpr uint64_t row_step(int step) {
  return static_cast<uint64_t>((step * 2 * kAtomBytes) >> 4);
}

// Needed before a product whose register operands were written by other instructions.
__device__ __forceinline__ void product_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void product_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Waits until at most kPending committed groups are in flight.
template <int kPending>
__device__ __forceinline__ void product_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Pins registers at this point of the program, so that the compiler does not move a use of an
// accumulator across a wait.
template <int kCount>
__device__ __forceinline__ void pin(float (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(values[i])::"memory");
}
template <int kCount>
__device__ __forceinline__ void pin(uint32_t (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+r"(values[i])::"memory");
}

// Product<N>: d[64, N] (+)= A[64, 16] B[16, N]. `shared` reads A from shared memory, `registers`
// from registers, `registers_f16` fp16 instead of bf16; transposed operands (kTranspose 1) are
// those of `by_rows`. d is overwritten if accumulate is 0.
template <int kColumns>
struct Product;

// clang-format off
#define RIDGE_D8(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), \
  "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define RIDGE_D32(i) RIDGE_D8(i), RIDGE_D8(i + 8), RIDGE_D8(i + 16), RIDGE_D8(i + 24)

// The operands' numbers follow the N / 2 accumulators: I0 to I6.
#define RIDGE_PRODUCT(N, D, ACCUMULATORS, I0, I1, I2, I3, I4, I5, I6)                                      \
  template <>                                                                                              \
  struct Product<N> {                                                                                      \
    template <int kTransposeA, int kTransposeB>                                                            \
    static __device__ __forceinline__ void shared(float (&d)[N / 2], uint64_t a, uint64_t b, int accumulate) { \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " I2 ", 0;\n"                                         \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.bf16.bf16 {" D "}, "                    \
                   I0 ", " I1 ", p, 1, 1, " I3 ", " I4 ";\n}"                                              \
                   : ACCUMULATORS                                                                          \
                   : "l"(a), "l"(b), "r"(accumulate), "n"(kTransposeA), "n"(kTransposeB));                 \
    }                                                                                                      \
    template <int kTransposeB>                                                                             \
    static __device__ __forceinline__ void registers(float (&d)[N / 2], const uint32_t* a, uint64_t b,     \
                                                     int accumulate) {                                     \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " I5 ", 0;\n"                                         \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.bf16.bf16 {" D "}, "                    \
                   "{" I0 ", " I1 ", " I2 ", " I3 "}, " I4 ", p, 1, 1, " I6 ";\n}"                         \
                   : ACCUMULATORS                                                                          \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "n"(kTransposeB)); \
    }                                                                                                      \
    static __device__ __forceinline__ void registers_f16(float (&d)[N / 2], const uint32_t* a, uint64_t b, \
                                                         int accumulate) {                                 \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " I5 ", 0;\n"                                         \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.f16.f16 {" D "}, "                      \
                   "{" I0 ", " I1 ", " I2 ", " I3 "}, " I4 ", p, 1, 1, 0;\n}"                              \
                   : ACCUMULATORS                                                                          \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));                 \
    }                                                                                                      \
  };

#define RIDGE_REGISTERS_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define RIDGE_ACCUMULATORS_16 RIDGE_D8(0), RIDGE_D8(8)
RIDGE_PRODUCT(32, RIDGE_REGISTERS_16, RIDGE_ACCUMULATORS_16, "%16", "%17", "%18", "%19", "%20", "%21", "%22")

#define RIDGE_REGISTERS_32 \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define RIDGE_ACCUMULATORS_32 RIDGE_D32(0)
RIDGE_PRODUCT(64, RIDGE_REGISTERS_32, RIDGE_ACCUMULATORS_32, "%32", "%33", "%34", "%35", "%36", "%37", "%38")

#define RIDGE_REGISTERS_40 \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39"
#define RIDGE_ACCUMULATORS_40 RIDGE_D32(0), RIDGE_D8(32)
RIDGE_PRODUCT(80, RIDGE_REGISTERS_40, RIDGE_ACCUMULATORS_40, "%40", "%41", "%42", "%43", "%44", "%45", "%46")

#define RIDGE_REGISTERS_48 \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define RIDGE_ACCUMULATORS_48 RIDGE_D32(0), RIDGE_D8(32), RIDGE_D8(40)
RIDGE_PRODUCT(96, RIDGE_REGISTERS_48, RIDGE_ACCUMULATORS_48, "%48", "%49", "%50", "%51", "%52", "%53", "%54")

#define RIDGE_REGISTERS_64 \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define RIDGE_ACCUMULATORS_64 RIDGE_D32(0), RIDGE_D32(32)
RIDGE_PRODUCT(128, RIDGE_REGISTERS_64, RIDGE_ACCUMULATORS_64, "%64", "%65", "%66", "%67", "%68", "%69", "%70")

#define RIDGE_REGISTERS_128 \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, " \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, " \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define RIDGE_ACCUMULATORS_128 RIDGE_D32(0), RIDGE_D32(32), RIDGE_D32(64), RIDGE_D32(96)
RIDGE_PRODUCT(256, RIDGE_REGISTERS_128, RIDGE_ACCUMULATORS_128, "%128", "%129", "%130", "%131", "%132", "%133", "%134")

#undef RIDGE_REGISTERS_16
#undef RIDGE_ACCUMULATORS_16
#undef RIDGE_REGISTERS_32
#undef RIDGE_ACCUMULATORS_32
#undef RIDGE_REGISTERS_40
#undef RIDGE_ACCUMULATORS_40
#undef RIDGE_REGISTERS_48
#undef RIDGE_ACCUMULATORS_48
#undef RIDGE_REGISTERS_64
#undef RIDGE_ACCUMULATORS_64
#undef RIDGE_REGISTERS_128
#undef RIDGE_ACCUMULATORS_128
#undef RIDGE_PRODUCT
#undef RIDGE_D32
#undef RIDGE_D8
// clang-format on

}  // namespace ridge::backends::cuda::hopper
