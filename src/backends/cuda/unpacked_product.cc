// SPDX-License-Identifier: Apache-2.0
// Cuts weights in fragment tiles into slices, and binds both steps of each.
#include "backends/cuda/unpacked_product.h"

#include <algorithm>
#include <array>
#include <vector>

#include "backends/in_order.h"
#include "backends/row_layout.h"
#include "base/arena.h"
#include "base/error.h"
#include "base/fragment_tiles.h"

namespace ridge::backends::cuda {
namespace {

// A slice and what is multiplied with it fit into the L2 cache of 50 MB.
constexpr int64_t kSliceBytes = int64_t{24} << 20;
constexpr int64_t kSliceRows = 256;  // as many as a tile of a GEMM at most has

int64_t rows_of_slice(const Type& weight) {
  const int64_t rows = weight.shape[0], in = weight.shape[1];
  const int64_t slices = (storage_bytes(DType::kBF16, rows * in) + kSliceBytes - 1) / kSliceBytes;
  return std::min(rows, round_up((rows + slices - 1) / slices, kSliceRows));
}

}  // namespace

FragmentFormat fragment_format(DType dtype) {
  RIDGE_CHECK(is_fragments(dtype), "{} is no type of fragment tiles", ridge::name(dtype));
  // Both lists are in one order.
  const auto format =
      static_cast<FragmentFormat>(static_cast<int>(dtype) - static_cast<int>(DType::kQ4_0x8));
  static_assert(static_cast<int>(DType::kQ4_G128x8) - static_cast<int>(DType::kQ4_0x8) ==
                static_cast<int>(FragmentFormat::kQ4_G128));
  return format;
}

bool has_fragments(const Call& product) { return is_fragments(product.inputs[1].dtype); }

std::string unsupported_fragments(const Call& matmul) {
  if (matmul.inputs.size() == 2 && matmul.inputs[0].dtype == DType::kBF16 &&
      parse_einsum(matmul.attrs.text("einsum")).is_projection())
    return "";
  return fmt::format("fragment tiles are multiplied as weights, nd,fd->nf, by bf16, not by {}",
                     matmul.inputs[0].str());
}

int64_t unpacked_bytes(const Call& matmul) {
  const Type& weight = matmul.inputs[1];
  return storage_bytes(DType::kBF16, rows_of_slice(weight) * weight.shape[1]);
}

int unpacked_launches(const Call& matmul) {
  const Type& weight = matmul.inputs[1];
  const int64_t rows = rows_of_slice(weight);
  return static_cast<int>((weight.shape[0] + rows - 1) / rows) * 2;
}

Launch bind_unpacked(const BindCall& matmul,
                     std::byte* scratch,
                     const BindPlain& bind_plain,
                     BindContext& context) {
  const Operand &x = matmul.inputs[0], &weight = matmul.inputs[1], &y = matmul.outputs[0];
  const int64_t in = weight.type.shape[1], step = rows_of_slice(weight.type);
  std::vector<Launch> launches;
  for (int64_t row = 0; row < weight.type.shape[0]; row += step) {
    const int64_t rows = std::min(step, weight.type.shape[0] - row);
    UnpackedFragments unpacked;
    unpacked.rows = rows, unpacked.in = in;
    unpacked.weight =
        reinterpret_cast<const uint8_t*>(weight.data) + storage_bytes(weight.type.dtype, row * in);
    unpacked.format = fragment_format(weight.type.dtype);
    unpacked.to = reinterpret_cast<uint16_t*>(scratch);
    launches.push_back(launch_on(context.device, "matmul", launch_unpack_fragments, unpacked));
    const std::array<Type, 2> operands{x.type, Type{DType::kBF16, {rows, in}}};
    const std::array<Type, 1> result{Type{y.type.dtype, {x.type.shape[0], rows}}};
    const Call slice{operands, result, matmul.attrs()};
    ProductLayouts layouts = dense_layouts(slice);
    layouts.a = x.strides, layouts.out = y.strides;
    launches.push_back(bind_plain(plan_product(slice, layouts).gemm, x.data, scratch,
                                  y.data + storage_bytes(y.type.dtype, row)));
  }
  return in_order(std::move(launches));
}

}  // namespace ridge::backends::cuda
