// SPDX-License-Identifier: Apache-2.0
// Which element type each weight of a written model gets. It converts nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/dtype.h"
#include "models/model_file.h"
#include "models/parameter_list.h"

namespace ridge::models {

// The types that `ridge convert --type` takes, as it spells them: "q4_0, ..., f32".
std::string convertible_types(bool gguf);

// GGUF: vectors in fp32. A matrix gets `asked`, or keeps its own type where nothing is asked. Two
// exceptions: rows that are not whole blocks of a type get the next type with shorter blocks (q2_k
// and q3_k: q4_0, q4_k: q5_0, q5_k: q5_1, q6_k: q8_0; then f16), and the matrix that makes logits
// gets at least q6_k or q8_0, since every token's error is its error.
DType gguf_type(const ModelConfig& config,
                const Parameter& parameter,
                DType stored,
                std::optional<DType> asked);

// Hugging Face: one type for all. `asked`, or the one in which all matrices are stored where it is
// a float type of 16 or 32 bits, else fp32.
DType folder_type(const ModelFile& file,
                  std::span<const Parameter> parameters,
                  std::optional<DType> asked);

// "general.file_type": what most of the matrices are.
uint32_t gguf_file_type(DType type);

}  // namespace ridge::models
