// SPDX-License-Identifier: Apache-2.0
// A small model of tests/data/models with what transformers computes for it. No tests.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

#include "base/bf16.h"
#include "files/json.h"
#include "files/safetensors.h"
#include "models/config_json.h"
#include "ops/reference_run.h"
#include "test_paths.h"

namespace ridge::models {

inline Tensor64 tensor_of(const files::FileTensor& from) {
  Tensor64 to{{from.dtype, from.shape}, {}};
  int64_t bytes = storage_bytes(from.dtype, 1);
  for (int64_t i = 0; i < from.shape.elements(); ++i) {
    const std::byte* at = from.bytes.data() + i * bytes;
    if (from.dtype == DType::kF32) {
      float value = 0;
      std::memcpy(&value, at, 4);
      to.data.push_back(value);
    } else {
      EXPECT_EQ(from.dtype, DType::kBF16);
      uint16_t bits = 0;
      std::memcpy(&bits, at, 2);
      to.data.push_back(bf16_to_float(bits));
    }
  }
  return to;
}

struct TransformersModel {
  explicit TransformersModel(const std::string& name)
      : folder(test_data("models/" + name).string()),
        config(load_config(folder)),
        expected(files::read_json(folder + "/expected.json")) {
    const files::SafetensorsFile file = files::SafetensorsFile::open(folder);
    for (const files::FileTensor& each : file.tensors().all()) {
      weights[each.name] = tensor_of(each);
      weights[each.name].type.dtype = DType::kF32;
    }
  }

  std::string folder;
  ModelConfig config;
  nlohmann::json expected;
  ops::NamedTensors weights;  // by Hugging Face's names
};

}  // namespace ridge::models
