// SPDX-License-Identifier: Apache-2.0
// Counts the allocations of this program, and makes some of one thread fail. The operators new are
// in allocations.cc.
#pragma once

#include <atomic>
#include <cstdint>

namespace ridge::serve {

// All allocations so far.
extern std::atomic<int64_t> allocations;

// Numbers the calling thread's allocations from 1. So many of them fail, from number `first` on.
void number_allocations(int64_t first, int64_t count);
// From now on none fails. Returns how many were numbered. For any thread.
int64_t end_numbering();

}  // namespace ridge::serve
