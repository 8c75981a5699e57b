// SPDX-License-Identifier: Apache-2.0
// Tests how the program ends when a mapped file shrinks.
#include "files/interrupt.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "files/atomic_file.h"
#include "files/mapped_file.h"
#include "files/scratch.h"

namespace ridge::files {
namespace {

constexpr size_t kBytes = 8 << 20;

// Reads a mapped file that shrank while an output file is unfinished.
template <typename Read>
void expect_named(const Read& read) {
  const ScratchFolder folder;
  EXPECT_EXIT(
      {
        end_cleanly_on_signals();
        write_plain(folder / "model", std::string(kBytes, 'x'));
        const MappedFile model(folder / "model");
        AtomicFile out(folder / "out");
        std::filesystem::resize_file(folder / "model", 5);
        read(model, out);
      },
      testing::ExitedWithCode(3), "ridge: .*model. the file shrank from 8388608 to 5 bytes");
  EXPECT_EQ(folder.count(), 1u);
}

TEST(ShrunkenFile, EndsTheProgramWithItsName) {
  expect_named([](const MappedFile& model, AtomicFile&) {
    volatile char last = model.text().back();
    static_cast<void>(last);
  });
}

TEST(ShrunkenFile, IsNamedWhereItIsCopied) {
  expect_named([](const MappedFile& model, AtomicFile& out) { out.write(model.bytes()); });
}

}  // namespace
}  // namespace ridge::files
