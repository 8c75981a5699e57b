// SPDX-License-Identifier: Apache-2.0
// Makes JSON text harmless to terminals and leaves its meaning. printable.h is for other text.
#pragma once

#include <string>

namespace ridge {
inline namespace base {

// Escapes in JSON text, which is valid UTF-8, what JSON leaves as it is and terminal_safe does not:
// U+007F to U+009F and the marks, as \uNNNN. The document stays the same.
std::string terminal_safe_json(std::string json);

}  // namespace base
}  // namespace ridge
