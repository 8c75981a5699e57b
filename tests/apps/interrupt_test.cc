// SPDX-License-Identifier: Apache-2.0
// How the program ends where a mapped file shrinks under it.
#include "apps/interrupt.h"

#include <gtest/gtest.h>

#include "files/atomic_file.h"
#include "files/mapped_file.h"
#include "files/scratch.h"

namespace ridge::apps {
namespace {

constexpr size_t kBytes = 8 << 20;

TEST(ShrunkenFile, EndsTheProgramWithItsName) {
  const files::ScratchFolder folder;
  EXPECT_EXIT(
      {
        end_cleanly_on_signals();
        files::write_plain(folder / "model", std::string(kBytes, 'x'));
        const files::MappedFile model(folder / "model");
        files::AtomicFile out(folder / "out");
        std::filesystem::resize_file(folder / "model", 5);
        volatile char last = model.text().back();
        static_cast<void>(last);
      },
      testing::ExitedWithCode(3), "ridge: .*model. the file shrank from 8388608 to 5 bytes");
  EXPECT_EQ(folder.count(), 1u);
}

TEST(ShrunkenFile, IsNamedWhereItIsCopied) {
  const files::ScratchFolder folder;
  EXPECT_EXIT(
      {
        end_cleanly_on_signals();
        files::write_plain(folder / "model", std::string(kBytes, 'x'));
        const files::MappedFile model(folder / "model");
        files::AtomicFile out(folder / "out");
        std::filesystem::resize_file(folder / "model", 5);
        out.write(model.bytes());
      },
      testing::ExitedWithCode(3), "ridge: .*model. the file shrank from 8388608 to 5 bytes");
  EXPECT_EQ(folder.count(), 1u);
}

}  // namespace
}  // namespace ridge::apps
