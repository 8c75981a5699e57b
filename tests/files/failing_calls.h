// SPDX-License-Identifier: Apache-2.0
// Where the library of failing_calls.cc is, to be loaded before a program's own (LD_PRELOAD). test_paths.cc knows.
#pragma once

namespace ridge {

const char* failing_calls_library();

}  // namespace ridge
