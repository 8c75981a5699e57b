// SPDX-License-Identifier: Apache-2.0
// Reads weights by way of the conversion to fp32.
#include "models/master_weights.h"

#include <cstring>

#include "base/error.h"
#include "files/hash.h"

namespace ridge::models {
namespace {

uint64_t hash_of(const std::string& name, std::span<const std::byte> values) {
  const std::string both = fmt::format("{:016x} {}", files::hash64(values), name);
  return files::hash64(std::as_bytes(std::span(both)));
}

}  // namespace

MasterWeights::MasterWeights(const ModelFile& file, std::function<void(int64_t)> progress)
    : file_(file),
      form_(folder_form(file.config())),
      progress_(std::move(progress)),
      weights_(file, form_, 0, nullptr) {
  RIDGE_CHECK(file.has_weights(), "{} has no weights", file.path().string());
}

std::vector<float> MasterWeights::read(const std::string& parameter, const Shape& shape) {
  const files::TensorSource source = weights_.source({parameter, shape}, parameter, DType::kF32);
  const std::span<const std::byte> bytes = files::read_checked(source);
  std::vector<float> values(static_cast<size_t>(shape.elements()));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  file_.release(file_.bytes(file_.lookup()(parameter, shape).name));
  if (!read_.insert(parameter).second) return values;
  hashes_ += hash_of(parameter, bytes);
  if (progress_) progress_(std::ssize(bytes));
  return values;
}

std::string MasterWeights::hash() const { return fmt::format("{:016x}", hashes_); }

std::string MasterWeights::quantized_types() const {
  std::set<std::string> types;
  for (const files::FileTensor& tensor : file_.tensors().all())
    if (is_block(tensor.dtype)) types.emplace(name(tensor.dtype));
  return fmt::format("{}", fmt::join(types, ", "));
}

}  // namespace ridge::models
