// SPDX-License-Identifier: Apache-2.0
// Allocates host memory with mmap: zero pages on first touch, huge pages requested.
#include "base/arena.h"

#include <sys/mman.h>

#include "base/error.h"
#include "base/units.h"

namespace ridge {
inline namespace base {

void HostUnmap::operator()(std::byte* data) const { ::munmap(data, static_cast<size_t>(bytes)); }

Arena::Arena(int64_t bytes, const char* what) : bytes_(bytes) {
  if (bytes == 0) return;
  void* data = ::mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED)
    throw memory_error("[{}] could not reserve {} of host memory", what, format_bytes(bytes));
  // 2 MiB pages cut TLB misses in products over large weights; the kernel may decline.
  (void)::madvise(data, static_cast<size_t>(bytes), MADV_HUGEPAGE);
  data_ = {static_cast<std::byte*>(data), HostUnmap{bytes}};
}

}  // namespace base
}  // namespace ridge
