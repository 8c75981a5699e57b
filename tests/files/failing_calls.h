// SPDX-License-Identifier: Apache-2.0
// test_paths.cc knows where the library of failing_calls.cc is, which is to be loaded before a
// program's own (LD_PRELOAD).
#pragma once

namespace ridge {

const char* failing_calls_library();

}  // namespace ridge
