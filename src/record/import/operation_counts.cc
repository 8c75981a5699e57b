// SPDX-License-Identifier: Apache-2.0
// The counting functions of the families.
#include "record/import/operation_counts.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include "record/import/count_parts.h"

namespace ridge::record {
namespace {

int64_t bytes_of(DType dtype, int64_t elements) {
  return count_product({elements, info(dtype).bytes_per_block});
}

Work elementwise(int64_t elements, const Arithmetic& arithmetic) {
  return {0, count_product({elements, arithmetic.flops}),
          count_product({elements, arithmetic.transcendentals})};
}

Work from_macs(int64_t macs) { return {macs, count_product({macs, 2}), 0}; }

std::optional<Extents> broadcast(const Extents& a, const Extents& b) {
  Extents joined(std::max(a.size(), b.size()));
  for (size_t i = 0; i < joined.size(); ++i) {
    const int64_t left = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t right = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (left != right && left != 1 && right != 1) return std::nullopt;
    joined[joined.size() - 1 - i] = left == 1 ? right : left;
  }
  return joined;
}

// The extents that all tensor operands broadcast to, and the type of the one that decides it: a
// float over an integer, a tensor over a scalar, then the wider one.
std::optional<Counts> broadcast_output(const RecordedCall& call) {
  Extents output;
  const Operand* decides = nullptr;
  auto weight = [](const Operand& operand) {
    return std::make_tuple(is_float(operand.dtype), !operand.extents().empty(),
                           info(operand.dtype).bytes_per_block);
  };
  for (const Operand& operand : call.operands) {
    if (!operand.is_tensor()) continue;
    const std::optional<Extents> joined = broadcast(output, operand.extents());
    if (!joined) return std::nullopt;
    output = *joined;
    if (decides == nullptr || weight(operand) > weight(*decides)) decides = &operand;
  }
  if (decides == nullptr) return std::nullopt;
  return writing(decides->dtype, std::move(output));
}

// [..., m, k] [..., k, n]; a vector is a matrix of one row or column.
std::optional<Counts> product_of(const Operand* a, const Operand* b) {
  if (a == nullptr || b == nullptr || a->extents().empty() || b->extents().empty())
    return std::nullopt;
  Extents left = a->extents(), right = b->extents();
  const bool is_row = left.size() == 1, is_column = right.size() == 1;
  if (is_row) left.insert(left.begin(), 1);
  if (is_column) right.push_back(1);
  const int64_t rows = left[left.size() - 2], depth = left.back(), columns = right.back();
  if (right[right.size() - 2] != depth) return std::nullopt;
  std::optional<Extents> output =
      broadcast({left.begin(), left.end() - 2}, {right.begin(), right.end() - 2});
  if (!output) return std::nullopt;
  if (!is_row) output->push_back(rows);
  if (!is_column) output->push_back(columns);
  Counts counts = writing(a->dtype, std::move(*output));
  counts.model_macs = count_product({count_product(counts.output), depth});
  counts.work = from_macs(counts.model_macs);
  counts.read_bytes = a->bytes() + b->bytes();
  return counts;
}

struct AttentionExtents {
  int64_t scores = 0, rows = 0, key_size = 0, value_size = 0;
};

// q, k and v from operand `first` on, with the heads at `head_axis`.
std::optional<AttentionExtents> attention_extents(const RecordedCall& call,
                                                  size_t first,
                                                  size_t head_axis) {
  const Operand *q = call.tensor(first), *k = call.tensor(first + 1), *v = call.tensor(first + 2);
  if (q == nullptr || k == nullptr || v == nullptr) return std::nullopt;
  for (const Operand* each : {q, k, v})
    if (each->extents().size() != 4) return std::nullopt;
  const size_t token_axis = 3 - head_axis;
  AttentionExtents extents;
  extents.rows = count_product({q->extents()[0], q->extents()[1], q->extents()[2]});
  extents.scores = count_product({extents.rows, k->extents()[token_axis]});
  extents.key_size = q->extents()[3];
  extents.value_size = v->extents()[3];
  return extents;
}

std::optional<Counts> attention_at(const RecordedCall& call,
                                   const Arithmetic& arithmetic,
                                   size_t head_axis) {
  const std::optional<AttentionExtents> e = attention_extents(call, 0, head_axis);
  if (!e) return std::nullopt;
  Extents output = call.operands[0].extents();
  output[3] = e->value_size;
  Counts counts = writing(call.operands[0].dtype, std::move(output));
  counts.model_macs = count_product({e->scores, e->key_size + e->value_size});
  counts.work = from_macs(counts.model_macs) + elementwise(e->scores, arithmetic);
  counts.work.flops += count_product({e->rows, arithmetic.row_flops});
  counts.read_bytes = read_bytes(call);
  counts.written_bytes += bytes_of(DType::kF32, e->rows);  // log of each row's sum
  return counts;
}

// The scores once more, and four products: dV, dP, dQ, dK.
std::optional<Counts> attention_backward_at(const RecordedCall& call,
                                            const Arithmetic& arithmetic,
                                            size_t head_axis) {
  const std::optional<AttentionExtents> e = attention_extents(call, 1, head_axis);
  if (!e || call.tensor(0) == nullptr) return std::nullopt;
  Counts counts = writing(call.operands[1].dtype, call.operands[1].extents());
  const int64_t both = e->key_size + e->value_size;
  counts.model_macs = count_product({e->scores, 2, both});
  counts.work = from_macs(count_product({e->scores, 2 * both + e->key_size})) +
                elementwise(e->scores, arithmetic);
  counts.work.flops += count_product({call.operands[0].elements(), arithmetic.row_flops});
  counts.read_bytes = read_bytes(call);
  counts.written_bytes += call.operands[2].bytes() + call.operands[3].bytes();
  return counts;
}

int64_t rows_of(const Extents& extents, size_t axes) {
  return count_product(std::span(extents).first(extents.size() - std::min(axes, extents.size())));
}

// The first integer tensor.
const Operand* indices(const RecordedCall& call) {
  const auto found = std::ranges::find_if(call.operands, &Operand::is_index);
  return found == call.operands.end() ? nullptr : &*found;
}

// The rows that a kernel reads of a table [V,D]: as many as there are indices, if another operand
// has a row of D for each of them. Nothing if the operand is no such table.
std::optional<int64_t> looked_up_rows(const RecordedCall& call, const Operand& table) {
  constexpr size_t kMostOperands = 512;  // far more than kernels have
  if (!table.is_tensor() || table.extents().size() != 2 || table.extents()[1] == 0 ||
      call.operands.size() > kMostOperands)
    return std::nullopt;
  const int64_t width = table.extents()[1];
  const auto rows_of_width = [&](const Operand& each) -> int64_t {
    const bool has_rows = each.is_tensor() && !each.extents().empty() &&
                          each.extents().back() == width && &each != &table;
    return has_rows ? each.elements() / width : -1;
  };
  std::map<int64_t, int> operands;  // by their rows of the table's width
  for (const Operand& each : call.operands) ++operands[rows_of_width(each)];
  for (const Operand& ids : call.operands) {
    if (!ids.is_index() || &ids == &table || ids.elements() >= table.extents()[0]) continue;
    const auto found = operands.find(ids.elements());
    const int own = rows_of_width(ids) == ids.elements() ? 1 : 0;
    if (found != operands.end() && found->second > own) return ids.elements();
  }
  return std::nullopt;
}

}  // namespace

namespace counts {

std::optional<Counts> product(const RecordedCall& call, const Arithmetic&) {
  return product_of(call.tensor(0), call.tensor(1));
}

std::optional<Counts> product_and_addend(const RecordedCall& call, const Arithmetic&) {
  std::optional<Counts> counts = product_of(call.tensor(1), call.tensor(2));
  if (!counts) return counts;
  counts->work += arithmetic(count_product(counts->output));
  counts->read_bytes += call.operands[0].bytes();
  return counts;
}

std::optional<Counts> linear(const RecordedCall& call, const Arithmetic&) {
  const Operand *x = call.tensor(0), *weight = call.tensor(1), *bias = call.tensor(2);
  if (x == nullptr || weight == nullptr || weight->extents().size() != 2 || x->extents().empty() ||
      x->extents().back() != weight->extents()[1])
    return std::nullopt;
  Extents output = x->extents();
  output.back() = weight->extents()[0];
  Counts counts = writing(x->dtype, std::move(output));
  counts.model_macs = count_product({count_product(counts.output), x->extents().back()});
  counts.work = from_macs(counts.model_macs);
  counts.read_bytes = x->bytes() + weight->bytes();
  if (bias == nullptr) return counts;
  counts.work += arithmetic(count_product(counts.output));
  counts.read_bytes += bias->bytes();
  return counts;
}

std::optional<Counts> attention(const RecordedCall& call, const Arithmetic& arithmetic) {
  return attention_at(call, arithmetic, 1);
}
std::optional<Counts> attention_tokens_first(const RecordedCall& call,
                                             const Arithmetic& arithmetic) {
  return attention_at(call, arithmetic, 2);
}
std::optional<Counts> attention_backward(const RecordedCall& call, const Arithmetic& arithmetic) {
  return attention_backward_at(call, arithmetic, 1);
}
std::optional<Counts> attention_backward_tokens_first(const RecordedCall& call,
                                                      const Arithmetic& arithmetic) {
  return attention_backward_at(call, arithmetic, 2);
}

std::optional<Counts> norm(const RecordedCall& call, const Arithmetic& arithmetic) {
  const Operand* x = call.tensor(0);
  if (x == nullptr) return std::nullopt;
  const size_t axes = std::max<size_t>(integers(call.value(1)).size(), 1);
  const int64_t rows = rows_of(x->extents(), axes);
  Counts counts = writing(x->dtype, x->extents());
  counts.work = elementwise(x->elements(), arithmetic);
  counts.work.flops += count_product({rows, arithmetic.row_flops});
  counts.work.transcendentals += rows;
  counts.read_bytes = read_bytes(call);
  counts.written_bytes += bytes_of(DType::kF32, rows);  // each row's factor
  return counts;
}

std::optional<Counts> norm_backward(const RecordedCall& call, const Arithmetic& arithmetic) {
  const Operand* x = call.tensor(1);
  if (x == nullptr) return std::nullopt;
  const std::vector<int64_t> extents = integers(call.value(2));
  const int64_t rows = rows_of(x->extents(), std::max<size_t>(extents.size(), 1));
  Counts counts = writing(x->dtype, x->extents());
  counts.work = elementwise(x->elements(), arithmetic);
  counts.work.flops += count_product({rows, arithmetic.row_flops});
  counts.read_bytes = read_bytes(call);
  counts.written_bytes += bytes_of(x->dtype, rows > 0 ? x->elements() / rows : 0);  // the weight's
  return counts;
}

std::optional<Counts> rows(const RecordedCall& call, const Arithmetic& arithmetic) {
  const Operand* x = call.tensor(0);
  if (x == nullptr) return std::nullopt;
  Counts counts = writing(x->dtype, x->extents());
  counts.work = elementwise(x->elements(), arithmetic);
  if (!x->extents().empty()) {
    const int64_t rows = rows_of(x->extents(), 1);
    counts.work += Work{0, count_product({rows, arithmetic.row_flops}),
                        count_product({rows, arithmetic.row_flops})};
  }
  counts.read_bytes = read_bytes(call);
  return counts;
}

std::optional<Counts> picked(const RecordedCall& call, const Arithmetic& arithmetic) {
  const Operand *x = call.tensor(0), *targets = call.tensor(1);
  if (x == nullptr || targets == nullptr) return std::nullopt;
  Counts counts = writing(x->dtype, {});
  counts.work = elementwise(targets->elements(), arithmetic);
  counts.read_bytes = bytes_of(x->dtype, targets->elements()) + targets->bytes();
  return counts;
}

std::optional<Counts> picked_backward(const RecordedCall& call, const Arithmetic& arithmetic) {
  const Operand *x = call.tensor(1), *targets = call.tensor(2);
  if (x == nullptr || targets == nullptr) return std::nullopt;
  Counts counts = writing(x->dtype, x->extents());
  counts.work = elementwise(targets->elements(), arithmetic);
  counts.read_bytes = targets->bytes();
  return counts;
}

std::optional<Counts> lookup(const RecordedCall& call, const Arithmetic&) {
  const Operand *table = call.tensor(0), *ids = call.tensor(1);
  if (table == nullptr || ids == nullptr || table->extents().size() != 2) return std::nullopt;
  Extents output = ids->extents();
  output.push_back(table->extents()[1]);
  Counts counts = writing(table->dtype, std::move(output));
  counts.read_bytes = counts.written_bytes + ids->bytes();
  return counts;
}

std::optional<Counts> lookup_backward(const RecordedCall& call, const Arithmetic& arithmetic) {
  const Operand *gradient = call.tensor(0), *ids = call.tensor(1);
  const std::vector<int64_t> rows = integers(call.value(2));
  if (gradient == nullptr || ids == nullptr || gradient->extents().empty()) return std::nullopt;
  Counts counts =
      writing(gradient->dtype, {rows.size() == 1 ? rows[0] : 0, gradient->extents().back()});
  counts.work = elementwise(gradient->elements(), arithmetic);
  counts.read_bytes = gradient->bytes() + ids->bytes();
  return counts;
}

std::optional<Counts> pointwise(const RecordedCall& call, const Arithmetic& arithmetic) {
  std::optional<Counts> counts = broadcast_output(call);
  if (!counts) return counts;
  counts->work = elementwise(count_product(counts->output), arithmetic);
  counts->read_bytes = read_bytes(call);
  return counts;
}

std::optional<Counts> compare(const RecordedCall& call, const Arithmetic& arithmetic) {
  std::optional<Counts> counts = pointwise(call, arithmetic);
  if (!counts) return counts;
  counts->output_type = DType::kBool;
  counts->written_bytes = count_product(counts->output);
  return counts;
}

std::optional<Counts> power(const RecordedCall& call, const Arithmetic& arithmetic) {
  const bool is_square = call.value(1) == "2" || call.value(1) == "2.";
  return pointwise(call, is_square ? Arithmetic{.flops = 1} : arithmetic);
}

std::optional<Counts> gelu(const RecordedCall& call, const Arithmetic& exact) {
  constexpr Arithmetic kByTanh{.flops = 8, .transcendentals = 1};
  return pointwise(call, call.value(1) == "tanh" ? kByTanh : exact);
}

std::optional<Counts> gelu_backward(const RecordedCall& call, const Arithmetic& exact) {
  constexpr Arithmetic kByTanh{.flops = 18, .transcendentals = 1};
  return pointwise(call, call.value(2) == "tanh" ? kByTanh : exact);
}

std::optional<Counts> dropout(const RecordedCall& call, const Arithmetic& arithmetic) {
  std::optional<Counts> counts = pointwise(call, arithmetic);
  if (counts) counts->written_bytes += count_product(counts->output);
  return counts;
}

std::optional<Counts> reduction(const RecordedCall& call, const Arithmetic& arithmetic) {
  const Operand* x = call.tensor(0);
  if (x == nullptr) return std::nullopt;
  Extents output = x->extents();
  const std::vector<int64_t> axes = integers(call.value(1));
  if (axes.empty()) output.clear();
  for (const int64_t axis : axes) {
    const int64_t at = axis < 0 ? axis + static_cast<int64_t>(output.size()) : axis;
    if (at < 0 || at >= static_cast<int64_t>(output.size())) continue;
    output[static_cast<size_t>(at)] = 1;
  }
  Counts counts = writing(x->dtype, std::move(output));
  counts.work = elementwise(x->elements(), arithmetic);
  counts.work.flops += count_product({count_product(counts.output), arithmetic.row_flops});
  counts.read_bytes = x->bytes();
  return counts;
}

std::optional<Counts> copy(const RecordedCall& call, const Arithmetic&) {
  const Operand *to = call.tensor(0), *from = call.tensor(1);
  if (to == nullptr) return std::nullopt;
  Counts counts = writing(to->dtype, to->extents());
  counts.read_bytes = from == nullptr ? counts.written_bytes : from->bytes();
  return counts;
}

std::optional<Counts> concat(const RecordedCall& call, const Arithmetic&) {
  if (call.operands.empty() || call.operands[0].tensors.empty()) return std::nullopt;
  const Operand& parts = call.operands[0];
  Counts counts = writing(parts.dtype, {parts.elements()});
  counts.read_bytes = parts.bytes();
  return counts;
}

std::optional<Counts> fill(const RecordedCall& call, const Arithmetic&) {
  const Operand* x = call.tensor(0);
  if (x == nullptr) return std::nullopt;
  return writing(x->dtype, x->extents());
}

std::optional<Counts> gather(const RecordedCall& call, const Arithmetic& arithmetic) {
  const Operand *x = call.tensor(0), *ids = indices(call);
  if (x == nullptr) return std::nullopt;
  Extents moved = ids == nullptr || ids == x ? x->extents() : ids->extents();
  if ((ids == nullptr || ids == x) && call.operands.size() > 1) {
    // Lists of indices have no type, and are often not recorded. The values that are put then tell.
    const Operand& list = call.operands[1];
    if (const Operand* values = call.tensor(2); values != nullptr) {
      moved = values->extents();
    } else if (list.kind == Operand::Kind::kTensorList && !list.tensors.empty()) {
      moved = list.tensors[0];
      const size_t axes = std::min(list.tensors.size(), x->extents().size());
      moved.insert(moved.end(), x->extents().begin() + static_cast<std::ptrdiff_t>(axes),
                   x->extents().end());
    } else if (list.kind == Operand::Kind::kNone) {
      return std::nullopt;
    }
  }
  Counts counts = writing(x->dtype, std::move(moved));
  counts.work = elementwise(count_product(counts.output), arithmetic);
  counts.read_bytes = counts.written_bytes + (ids == nullptr ? 0 : ids->bytes());
  return counts;
}

std::optional<Counts> lists(const RecordedCall& call, const Arithmetic& arithmetic) {
  if (call.operands.empty() || call.operands[0].tensors.empty()) return std::nullopt;
  const Operand& first = call.operands[0];
  Counts counts = writing(first.dtype, {first.elements()});
  counts.work = elementwise(first.elements(), arithmetic);
  counts.read_bytes = read_bytes(call);
  return counts;
}

std::optional<Counts> update(const RecordedCall& call, const Arithmetic& arithmetic) {
  std::optional<Counts> counts = lists(call, arithmetic);
  if (!counts) return counts;
  // Writes all lists of states that are as large as the parameters, but not the gradients.
  const int64_t parameters = call.operands[0].elements();
  for (size_t i = 2; i < call.operands.size(); ++i)
    if (!call.operands[i].tensors.empty() && call.operands[i].elements() == parameters)
      counts->written_bytes += call.operands[i].bytes();
  return counts;
}

std::optional<Counts> generated(const RecordedCall& call, const Arithmetic&) {
  Counts counts;
  for (const Operand& operand : call.operands) {
    const std::optional<int64_t> rows = looked_up_rows(call, operand);
    const int64_t bytes =
        rows ? bytes_of(operand.dtype, *rows * operand.extents()[1]) : operand.bytes();
    counts.read_bytes = count_product({1, counts.read_bytes + bytes});
    if (rows || !operand.is_tensor() || operand.elements() <= count_product(counts.output))
      continue;
    counts.output = operand.extents();
    counts.output_type = operand.dtype;
  }
  if (counts.read_bytes == 0) return std::nullopt;
  return counts;
}

}  // namespace counts
}  // namespace ridge::record
