// SPDX-License-Identifier: Apache-2.0
// Names for the Hopper instructions that flash attention uses: transaction barriers, the tensor copy engine,
// register hand-over between warpgroups. Matrix products are in flash_attention_wgmma.cuh. sm_90a only.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace ridge::backends::cuda::hopper {

constexpr int kWarpgroupThreads = 128;

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// ---- mbarriers ----

__device__ __forceinline__ void barrier_init(uint64_t* barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals));
}

// Makes the barriers' initial state visible to the copy engine; a __syncthreads must follow.
__device__ __forceinline__ void barrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async;" ::: "memory");
}

// One arrival that also announces `bytes` of copies still to land.
__device__ __forceinline__ void barrier_expect(uint64_t* barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(bytes)
               : "memory");
}

__device__ __forceinline__ void barrier_arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// Returns once the phase of this parity is complete. A fresh barrier's "previous" phase (parity 1) counts as
// complete, so a producer's first wait for an empty slot passes at once.
__device__ __forceinline__ void barrier_wait(uint64_t* barrier, uint32_t parity) {
#ifdef RIDGE_WATCHDOG
  {
    uint32_t ok = 0;
    long long t0 = clock64();
    while (true) {
      asm volatile("{\n.reg .pred done;\nmbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\nselp.u32 %0, 1, 0, done;\n}" : "=r"(ok) : "r"(shared_address(barrier)), "r"(parity) : "memory");
      if (ok) return;
      if (clock64() - t0 > 2000000000LL) {
        asm volatile("trap;");
      }
    }
  }
#endif
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra.uni finished;\n"
      "bra.uni again;\n"
      "finished:\n"
      "}" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}

// A position in a ring of `kSlots` barriers and the parity of the current lap.
template <int kSlots>
struct Ring {
  int slot = 0;
  uint32_t parity = 0;
  __device__ __forceinline__ void advance() {
    if (++slot == kSlots) {
      slot = 0;
      parity ^= 1;
    }
  }
};

// ---- named barriers (hardware barriers 1..15) ----

__device__ __forceinline__ void named_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

__device__ __forceinline__ void named_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// ---- tensor copies; coordinates: (column in 64, token, 64-column chunk, head, batch) ----

__device__ __forceinline__ void copy_in(void* destination,
                                        const CUtensorMap* map,
                                        uint64_t* barrier,
                                        int token,
                                        int head,
                                        int batch) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %3, %5, %6}], [%2];" ::"r"(shared_address(destination)),
      "l"(map), "r"(shared_address(barrier)), "r"(0), "r"(token), "r"(head), "r"(batch)
      : "memory");
}

__device__ __forceinline__ void copy_out(
    const CUtensorMap* map, const void* source, int token, int chunk, int head, int batch) {
  asm volatile(
      "cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];" ::"l"(map),
      "r"(shared_address(source)), "r"(0), "r"(token), "r"(chunk), "r"(head), "r"(batch)
      : "memory");
}

// A flat copy of `bytes` (multiple of 16, both ends 16-byte aligned).
__device__ __forceinline__ void copy_in_flat(void* destination,
                                             const void* source,
                                             uint32_t bytes,
                                             uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
          shared_address(destination)),
      "l"(source), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
}

__device__ __forceinline__ void copy_out_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Waits until this thread's committed stores have read their shared memory (not until they are visible).
__device__ __forceinline__ void copy_out_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

// Orders this thread's ordinary shared-memory writes before later reads by the copy engine or the tensor cores.
__device__ __forceinline__ void shared_writes_to_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ void prefetch_map(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// ---- registers ----

template <int kRegisters>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

template <int kRegisters>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// ---- small arithmetic ----

__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Two floats to packed bf16, `low` in the lower half.
__device__ __forceinline__ uint32_t pack_bf16(float low, float high) {
  uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

// Four 8x8 matrices of 16-bit values to shared memory; lane l gives the address of row l%8 of matrix l/8.
__device__ __forceinline__ void store_matrices(
    uint32_t address, uint32_t m0, uint32_t m1, uint32_t m2, uint32_t m3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(m0),
               "r"(m1), "r"(m2), "r"(m3)
               : "memory");
}

}  // namespace ridge::backends::cuda::hopper
