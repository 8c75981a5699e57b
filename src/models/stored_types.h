// SPDX-License-Identifier: Apache-2.0
// Chooses the element type of each weight of a written model. weight_writer.h does the conversion.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/dtype.h"
#include "models/model_file.h"
#include "models/parameter_list.h"

namespace ridge::models {

// The types that `ridge convert --type` accepts, as it spells them: "q4_0, ..., f32".
std::string convertible_types(bool gguf);

// GGUF: vectors are in fp32. A matrix gets the type `asked`, or keeps its own if none is asked; one
// of groups with zero points, which GGUF lacks, gets f16, in which tools publish its values. There
// are two exceptions. If rows are not whole blocks of a type, the next type with shorter
// blocks is used (q2_k and q3_k: q4_0, q4_k: q5_0, q5_k: q5_1, q6_k: q8_0; then f16). The matrix
// that computes logits gets at least q6_k or q8_0, because its error affects every token.
DType gguf_type(const ModelConfig& config,
                const Parameter& parameter,
                DType stored,
                std::optional<DType> asked);

// Hugging Face: one type for all weights: `asked`, else the type in which all matrices are stored
// if it is a float type of 16 or 32 bits, f16 if some are quantized in a folder, else fp32.
DType folder_type(const ModelFile& file,
                  std::span<const Parameter> parameters,
                  std::optional<DType> asked);

// "general.file_type" of a file whose matrices are mostly of this type.
uint32_t gguf_file_type(DType type);

}  // namespace ridge::models
