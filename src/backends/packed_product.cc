// SPDX-License-Identifier: Apache-2.0
// Determines which operands must be copied.
#include "backends/packed_product.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "graph/einsum.h"

namespace ridge::backends {
namespace {

constexpr int64_t kPackAlignment = 256;

// Sorts the letters in the order in which `like` has them.
std::string ordered(std::string letters, const std::string& like) {
  std::sort(letters.begin(), letters.end(),
            [&](char x, char y) { return like.find(x) < like.find(y); });
  return letters;
}

// The stride of letters that act as one axis of an operand, or nullopt if they do not; 1 for a
// single element.
std::optional<int64_t> step_of(const std::string& group,
                               const std::string& letters,
                               const Strides& strides,
                               const EinsumExtents& extents) {
  int64_t step = 0, extent = 1;
  for (size_t i = group.size(); i-- > 0;) {
    if (extents[group[i]] == 1) continue;
    int64_t stride = strides[static_cast<int>(letters.find(group[i]))];
    if (extent == 1)
      step = stride;
    else if (stride != step * extent)
      return std::nullopt;
    extent *= extents[group[i]];
  }
  return extent == 1 ? 1 : step;
}

// The letters of an operand's axes that the GEMM takes as one.
struct Groups {
  std::string batch, rows, columns;
};

struct Steps {
  int64_t batch = 0, row = 1, column = 1;
};

// If the operand's groups already form axes, one of the inner two contiguous, returns their
// strides; otherwise those of a packed copy.
Steps place(PackedOperand& operand,
            const Groups& groups,
            const Type& type,
            const EinsumExtents& extents) {
  operand.letters = groups.batch + groups.rows + groups.columns;
  Strides strides = dense_strides(type.shape);
  auto b = step_of(groups.batch, operand.from, strides, extents),
       r = step_of(groups.rows, operand.from, strides, extents),
       c = step_of(groups.columns, operand.from, strides, extents);
  bool has_inner = r && c && (*r == 1 || *c == 1);
  if (b && has_inner) return {*b, *r, *c};
  operand.is_packed = true;
  operand.bytes = round_up(storage_bytes(type.dtype, type.shape.elements()), kPackAlignment);
  int64_t width = extents.product(groups.columns);
  return {extents.product(groups.rows) * width, width, 1};
}

// The operand with the axes of its packed copy, still in its own memory.
Operand in_packed_order(const Operand& operand, const PackedOperand& packed) {
  std::vector<int64_t> extents, strides;
  for (char letter : packed.letters) {
    int axis = static_cast<int>(packed.from.find(letter));
    extents.push_back(operand.type.shape[axis]);
    strides.push_back(operand.strides[axis]);
  }
  return {operand.data, {operand.type.dtype, Shape(extents)}, Strides(strides)};
}

}  // namespace

int PackedProduct::launches() const {
  int count = 1;
  for (const PackedOperand& operand : operands) count += operand.is_packed ? 1 : 0;
  return count;
}

int64_t PackedProduct::bytes() const {
  int64_t sum = 0;
  for (const PackedOperand& operand : operands) sum += operand.bytes;
  return sum;
}

PackedProduct plan_packed_product(const Call& call) {
  Einsum e = parse_einsum(call.attrs.text("einsum"));
  EinsumExtents extents(e, call.inputs[0].shape, call.inputs[1].shape);
  std::string batch = ordered(e.batch, e.out), m = ordered(e.m, e.out), n = ordered(e.n, e.out),
              k = ordered(e.k, e.a);
  PackedProduct packed;
  packed.operands[0].from = e.a;
  packed.operands[1].from = e.b;
  packed.operands[2].from = e.out;
  Steps a = place(packed.operands[0], {batch, m, k}, call.inputs[0], extents);
  Steps b = place(packed.operands[1], {batch, k, n}, call.inputs[1], extents);
  Steps c = place(packed.operands[2], {batch, m, n}, call.outputs[0], extents);
  GemmShape& g = packed.gemm;
  g.m = extents.product(m), g.n = extents.product(n), g.k = extents.product(k);
  if (int64_t count = extents.product(batch); count > 1)
    g.batch = {count}, g.a_batch = {a.batch}, g.b_batch = {b.batch}, g.c_batch = {c.batch};
  g.a_m = a.row, g.a_k = a.column;
  g.b_k = b.row, g.b_n = b.column;
  g.c_m = c.row, g.c_n = c.column;
  g.input = call.inputs[0].dtype;
  g.output = call.outputs[0].dtype;
  // For a packed result, the third input is added during unpacking.
  g.accumulate = call.inputs.size() == 3 && !packed.operands[2].is_packed;
  return packed;
}

std::array<PackedPlace, 3> packed_places(const BindCall& call,
                                         const PackedProduct& packed,
                                         std::byte* memory) {
  const Operand* operands[] = {&call.inputs[0], &call.inputs[1], &call.outputs[0]};
  std::array<PackedPlace, 3> places;
  for (size_t i = 0; i < places.size(); ++i) {
    const PackedOperand& plan = packed.operands[i];
    PackedPlace& place = places[i];
    place.is_packed = plan.is_packed;
    place.there = plan.is_packed ? in_packed_order(*operands[i], plan) : *operands[i];
    place.here = place.there;
    if (!plan.is_packed) continue;
    place.here.data = memory;
    place.here.strides = dense_strides(place.here.type.shape);
    memory += plan.bytes;
  }
  return places;
}

}  // namespace ridge::backends
