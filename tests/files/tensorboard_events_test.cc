// SPDX-License-Identifier: Apache-2.0
// Events for TensorBoard against the bytes of its own writer, and logs that grow.
#include "files/tensorboard_events.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "files/log_file.h"
#include "files/scratch.h"

namespace ridge::files {
namespace {

std::string hex(std::string_view bytes) {
  std::string text;
  for (char byte : bytes) text += fmt::format("{:02x}", static_cast<uint8_t>(byte));
  return text;
}

// The expected bytes were written by tensorboard 2.21's RecordWriter from Event messages with these
// values.
TEST(TensorboardEvents, AreThoseOfTensorboardsWriter) {
  EXPECT_EQ(hex(version_event(1.5)),
            "1800000000000000a37f4b2209000000000000f83f1a0d627261696e2e4576656e743a322a28646c");
  const EventScalar scalars[] = {{"train/loss", 6.9484f}, {"speed/mfu", 0.25f}};
  EXPECT_EQ(hex(scalars_event(1795532375.25, 300, scalars)),
            "33000000000000000ca72056090000d09569c1da4110ac022a250a110a0a747261696e2f6c6f7373154b59"
            "de400a100a0973706565642f6d6675150000803eb9e0eaff");
}

TEST(LogFile, IsThereAtOnceAndReplacesNothing) {
  const ScratchFolder folder;
  const std::filesystem::path path = folder / "log";
  {
    LogFile log(path);
    log.append("one\n");
    EXPECT_EQ(contents(path), "one\n");
    log.append("two\n");
    EXPECT_EQ(contents(path), "one\ntwo\n");
  }
  EXPECT_THROW(LogFile{path}, Error);
  EXPECT_EQ(contents(path), "one\ntwo\n");
  // A link is somebody else's, also if it leads nowhere.
  std::filesystem::create_symlink(folder / "elsewhere", folder / "link");
  EXPECT_THROW(LogFile{folder / "link"}, Error);
  EXPECT_FALSE(std::filesystem::exists(folder / "elsewhere"));
  EXPECT_THROW(LogFile{folder / "missing" / "log"}, Error);
}

}  // namespace
}  // namespace ridge::files
