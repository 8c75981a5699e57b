// SPDX-License-Identifier: Apache-2.0
// The packed formats that byte_stream.h reads: gzip by zlib, zstd by libzstd.
#pragma once

#include <memory>
#include <span>

#include "files/byte_stream.h"

namespace ridge::files {

// The unpacker of a file that begins with these bytes (four are enough); null if it is not packed.
std::unique_ptr<Unpacker> make_unpacker(std::span<const char> first);

}  // namespace ridge::files
