// SPDX-License-Identifier: Apache-2.0
// The operators new and delete of this program; the code below them (an arena, a page) also
// allocates only through them.
#include "serve/allocations.h"

#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

using ridge::serve::allocations;

std::atomic<int64_t> numbered{0}, first_failing{0}, failing{0};
thread_local bool is_numbered = false;

bool fails() {
  if (!is_numbered) return false;
  const int64_t number = ++numbered;
  return number >= first_failing && number < first_failing + failing;
}

void* counted(std::size_t bytes, std::size_t alignment) noexcept {
  ++allocations;
  if (fails()) return nullptr;
  return alignment > alignof(std::max_align_t)
             ? std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment)
             : std::malloc(bytes > 0 ? bytes : 1);
}

void* counted_or_throws(std::size_t bytes, std::size_t alignment) {
  void* memory = counted(bytes, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

namespace ridge::serve {

std::atomic<int64_t> allocations{0};

void number_allocations(int64_t first, int64_t count) {
  numbered = 0;
  first_failing = first;
  failing = count;
  is_numbered = true;
}

int64_t end_numbering() {
  failing = 0;
  return numbered;
}

}  // namespace ridge::serve

void* operator new(std::size_t bytes) { return counted_or_throws(bytes, 0); }
void* operator new[](std::size_t bytes) { return counted_or_throws(bytes, 0); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return counted(bytes, 0); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return counted(bytes, 0);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted_or_throws(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return counted_or_throws(bytes, static_cast<std::size_t>(alignment));
}
// Not inlined, because a compiler that sees `free` but not the `new` above reports a mismatch.
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete[](void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
