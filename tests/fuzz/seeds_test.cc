// SPDX-License-Identifier: Apache-2.0
// Each fuzz target takes its own seeds, also in builds without libFuzzer.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "files/scratch.h"

// CMakeLists.txt gives each target's function the name of its file.
using Target = int(const uint8_t* data, size_t size);
extern "C" {
Target fuzz_chat_template, fuzz_completion, fuzz_config, fuzz_gguf, fuzz_graph, fuzz_hardware,
    fuzz_run_record, fuzz_safetensors, fuzz_special_tokens, fuzz_tokenizer, fuzz_torch_trace;
}

namespace ridge::fuzz {
namespace {

struct Seeded {
  const char* name;
  Target* target;
};

class FuzzTarget : public testing::TestWithParam<Seeded> {};

TEST_P(FuzzTarget, TakesItsSeeds) {
  const std::filesystem::path seeds =
      source_file(std::string("tests/fuzz/corpus/") + GetParam().name);
  int64_t count = 0;
  for (const auto& seed : std::filesystem::directory_iterator(seeds)) {
    const std::string bytes = files::contents(seed.path());
    EXPECT_NO_THROW(GetParam().target(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()))
        << seed.path();
    ++count;
  }
  EXPECT_GT(count, 0) << seeds;
}

INSTANTIATE_TEST_SUITE_P(All,
                         FuzzTarget,
                         testing::Values(Seeded{"chat_template", fuzz_chat_template},
                                         Seeded{"completion", fuzz_completion},
                                         Seeded{"config", fuzz_config},
                                         Seeded{"gguf", fuzz_gguf},
                                         Seeded{"graph", fuzz_graph},
                                         Seeded{"hardware", fuzz_hardware},
                                         Seeded{"run_record", fuzz_run_record},
                                         Seeded{"safetensors", fuzz_safetensors},
                                         Seeded{"special_tokens", fuzz_special_tokens},
                                         Seeded{"tokenizer", fuzz_tokenizer},
                                         Seeded{"torch_trace", fuzz_torch_trace}),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace ridge::fuzz
