// SPDX-License-Identifier: Apache-2.0
// AMX's registers: setup, loads, stores and bf16 multiplications. Private to the kernels that
// multiply by tiles.
#pragma once

#include <asm/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

#include "base/error.h"

namespace ridge::backends::cpu {

// AMX's registers, in inline assembly: the intrinsics of GCC 12 do not accept a template's
// constant, and functions for another instruction set are not inlined into the loops.
struct AmxTiles {
  // Configures all eight tiles as 16 rows of 64 bytes, for the object's lifetime.
  class Shapes {
   public:
    Shapes() { asm volatile("ldtilecfg %0" ::"m"(configuration_)); }
    ~Shapes() { asm volatile("tilerelease"); }
    Shapes(const Shapes&) = delete;

   private:
    struct alignas(64) Configuration {  // the operand of LDTILECFG
      uint8_t palette = 1, start_row = 0, reserved[14] = {};
      uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    };
    static_assert(sizeof(Configuration) == 64);
    Configuration configuration_;
  };

  // Linux provides tile registers only to a process that has requested them.
  static void ask() {
    constexpr int kTileData = 18;  // the number of the state in XCR0
    static const long refused = syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, kTileData);
    RIDGE_CHECK(refused == 0, "the system gives no tile registers");
  }

  template <int kTile>
  static void zero() {
    asm volatile("tilezero %%tmm%c0" ::"i"(kTile));
  }
  template <int kTile>
  static void load(const void* from, int64_t stride_bytes) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride_bytes), "i"(kTile)
                 : "memory");
  }
  // Loads through L2, with a hint that keeps the data out of L1.
  template <int kTile>
  static void load_passing(const void* from, int64_t stride_bytes) {
    asm volatile("tileloaddt1 (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride_bytes), "i"(kTile)
                 : "memory");
  }
  template <int kTile>
  static void store(void* to, int64_t stride_bytes) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride_bytes), "i"(kTile)
                 : "memory");
  }
  template <int kSums, int kLeft, int kRight>
  static void multiply() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSums), "i"(kLeft), "i"(kRight));
  }
};

}  // namespace ridge::backends::cpu
