// SPDX-License-Identifier: Apache-2.0
// The table of families.
#include "models/family.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/error.h"

namespace ridge::models {
namespace {

constexpr std::array<FamilyFacts, 5> kFamilies = {{
    {Family::kLlama, "llama", "llama", "LlamaForCausalLM", "llama", true, true, true},
    {Family::kMistral, "mistral", "mistral", "MistralForCausalLM", "llama", true, false, false},
    {Family::kQwen2, "qwen2", "qwen2", "Qwen2ForCausalLM", "qwen2", false, false, false},
    {Family::kQwen3, "qwen3", "qwen3", "Qwen3ForCausalLM", "qwen3", false, true, false},
    {Family::kGemma3, "gemma3", "gemma3_text", "Gemma3ForCausalLM", "gemma3", false, true, false},
}};

const FamilyFacts* find(std::string_view FamilyFacts::*field, std::string_view value) {
  const auto found = std::find_if(kFamilies.begin(), kFamilies.end(),
                                  [&](const FamilyFacts& each) { return each.*field == value; });
  return found == kFamilies.end() ? nullptr : &*found;
}

std::string listed(std::string_view FamilyFacts::*field) {
  std::vector<std::string_view> names;
  for (const FamilyFacts& each : kFamilies)
    if (std::find(names.begin(), names.end(), each.*field) == names.end())
      names.push_back(each.*field);
  std::string list;
  for (size_t i = 0; i < names.size(); ++i)
    list += fmt::format("{}'{}'", i == 0 ? "" : i + 1 == names.size() ? " or " : ", ", names[i]);
  return list;
}

}  // namespace

std::span<const FamilyFacts> families() { return kFamilies; }

const FamilyFacts& facts(Family family) {
  const FamilyFacts& found = kFamilies.at(static_cast<size_t>(family));
  RIDGE_CHECK(found.family == family, "family {} is out of order", static_cast<int>(family));
  return found;
}

const FamilyFacts* family_of_model_type(std::string_view model_type) {
  return find(&FamilyFacts::model_type, model_type);
}

const FamilyFacts* family_of_architecture(std::string_view architecture) {
  return find(&FamilyFacts::architecture, architecture);
}

std::string known_model_types() { return listed(&FamilyFacts::model_type); }
std::string known_architectures() { return listed(&FamilyFacts::architecture); }

}  // namespace ridge::models
