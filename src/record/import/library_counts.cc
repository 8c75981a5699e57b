// SPDX-License-Identifier: Apache-2.0
// Counts of libraries beside PyTorch: products with flags, layers of Transformer Engine, attention
// over packed sequences, and the gradients of functions whose own calls do not tell them.
#include "record/import/library_counts.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "record/import/count_parts.h"
#include "record/import/torch_operations.h"

namespace ridge::record {
namespace {

bool is_flag(const RecordedCall& call, size_t at) {
  return call.value(at) == "True" || call.value(at) == "1";
}

// A product of `macs` that reads two operands and writes one of such extents.
Counts product_of(const Operand& a, const Operand& b, int64_t macs, Extents output) {
  Counts counts = writing(product_type(a.dtype), std::move(output));
  add_macs(counts, macs);
  counts.read_bytes = a.bytes() + b.bytes();
  return counts;
}

// Two matrices by row, each turned or not.
std::optional<Counts> turned_product(const Operand* a,
                                     bool turns_a,
                                     const Operand* b,
                                     bool turns_b) {
  for (const Operand* each : {a, b})
    if (each == nullptr || each->extents().size() != 2) return std::nullopt;
  const int64_t rows = a->extents()[turns_a ? 1 : 0], depth = a->extents()[turns_a ? 0 : 1],
                columns = b->extents()[turns_b ? 0 : 1];
  if (b->extents()[turns_b ? 1 : 0] != depth) return std::nullopt;
  // Two values of four bits share a byte.
  const int64_t packed = a->dtype == DType::kU8 && b->dtype == DType::kU8 ? 2 : 1;
  return product_of(*a, *b, count_product({rows, depth, packed, columns}), {rows, columns});
}

// x [...,k] and a weight [n,k].
std::optional<Counts> linear_of(const Operand* x, const Operand* weight) {
  if (x == nullptr || weight == nullptr || x->extents().size() < 2 ||
      weight->extents().size() != 2 || x->extents().back() != weight->extents()[1])
    return std::nullopt;
  Extents output = x->extents();
  output.back() = weight->extents()[0];
  return product_of(*x, *weight, count_product({x->elements(), weight->extents()[0]}),
                    std::move(output));
}

// Sequences stand one after the other: q [T,H,E], k and v [S,K,E].
struct Packed {
  const Operand *q = nullptr, *k = nullptr, *v = nullptr;
  int64_t pairs = 0;  // pairs of a query and a key
  bool is_exact = false;
};

// The longest sequence is recorded, and the sum of all. The others count as equally long.
std::optional<Packed> packed_at(const RecordedCall& call, size_t first, size_t begins) {
  Packed packed{call.tensor(first), call.tensor(first + 1), call.tensor(first + 2)};
  for (const Operand* each : {packed.q, packed.k, packed.v})
    if (each == nullptr || each->extents().size() != 3) return std::nullopt;
  int64_t sequences = 0, longest[2] = {}, tokens[2] = {};
  for (size_t side = 0; side < 2; ++side) {
    const Operand* list = call.tensor(begins + side);
    const std::vector<int64_t> most = integers(call.value(begins + 2 + side));
    if (list == nullptr || list->elements() < 2 || most.size() != 1) return packed;
    if (side == 1 && list->elements() - 1 != sequences) return packed;
    sequences = list->elements() - 1;
    tokens[side] = call.tensor(first + side)->extents()[0];
    longest[side] = sequences == 1 ? tokens[side] : most[0];
    if (longest[side] < 1 || longest[side] > tokens[side]) return packed;
  }
  packed.is_exact = sequences == 1 || (tokens[0] == count_product({sequences, longest[0]}) &&
                                       tokens[1] == count_product({sequences, longest[1]}));
  packed.pairs = count_product({longest[0], longest[1]});
  if (sequences == 1) return packed;
  const int64_t others = sequences - 1;
  packed.pairs +=
      count_product({others, (tokens[0] - longest[0]) / others, (tokens[1] - longest[1]) / others});
  return packed;
}

Counts attention_of(const RecordedCall& call, const Packed& packed, const Arithmetic& arithmetic) {
  const Extents &q = packed.q->extents(), &v = packed.v->extents();
  Counts counts = writing(packed.q->dtype, {q[0], q[1], v[2]});
  const int64_t scores = count_product({packed.pairs, q[1]});
  counts.model_macs = counts.work.macs = count_product({scores, q[2] + v[2]});
  counts.work.flops = count_product({counts.work.macs, 2}) +
                      count_product({scores, arithmetic.flops}) +
                      count_product({q[0], q[1], packed.pairs > 0 ? arithmetic.row_flops : 0});
  counts.read_bytes = read_bytes(call);
  return counts;
}

// Makes the work of a forward pass that of its gradient: twice the products, and those that are
// computed once more.
template <typename Count>
void make_gradient(Count& count, int64_t recomputed_macs) {
  const int64_t others = count.work.flops - 2 * count.work.macs;
  count.model_macs = count_product({count.model_macs, 2});
  count.work.macs = count.model_macs + recomputed_macs;
  count.work.flops = count_product({count.work.macs, 2}) + others;
}

// The gradient of a function by its forward pass: of both operands of a product; of attention it
// computes the scores once more. It reads what the forward pass read and wrote.
RecordedCounts gradient_of(const RecordedCounts& forward, bool is_attention) {
  RecordedCounts gradient = forward;
  make_gradient(gradient, is_attention ? forward.model_macs / 2 : 0);
  gradient.read_bytes = forward.read_bytes + forward.written_bytes;
  gradient.written_bytes = forward.read_bytes;
  gradient.macs_per_pair = 0;
  return gradient;
}

}  // namespace

namespace counts {

std::optional<Counts> product_by_rows(const RecordedCall& call, const Arithmetic&) {
  return turned_product(call.tensor(0), is_flag(call, 5), call.tensor(2), is_flag(call, 6));
}
std::optional<Counts> product_by_columns(const RecordedCall& call, const Arithmetic&) {
  return turned_product(call.tensor(0), !is_flag(call, 4), call.tensor(5), !is_flag(call, 9));
}

std::optional<Counts> weight_and_input(const RecordedCall& call, const Arithmetic&) {
  return linear_of(call.tensor(1), call.tensor(0));
}
std::optional<Counts> norm_and_linear(const RecordedCall& call, const Arithmetic&) {
  return linear_of(call.tensor(0), call.tensor(3));
}

std::optional<Counts> packed_attention(const RecordedCall& call, const Arithmetic& arithmetic) {
  const std::optional<Packed> packed = packed_at(call, 0, 3);
  if (!packed) return std::nullopt;
  Counts counts = attention_of(call, *packed, arithmetic);
  // The batch of a server knows more.
  const Extents &q = packed->q->extents(), &v = packed->v->extents();
  if (!packed->is_exact) counts.macs_per_pair = count_product({q[1], q[2] + v[2]});
  return counts;
}

std::optional<Counts> packed_attention_backward(const RecordedCall& call,
                                                const Arithmetic& arithmetic) {
  const std::optional<Packed> packed = packed_at(call, 1, 9);
  if (!packed || packed->pairs == 0) return std::nullopt;
  Counts counts = attention_of(call, *packed, arithmetic);
  const Extents& q = packed->q->extents();
  make_gradient(counts, count_product({packed->pairs, q[1], q[2]}));
  counts.written_bytes = packed->q->bytes() + packed->k->bytes() + packed->v->bytes();
  return counts;
}

std::optional<Counts> expert_product(const RecordedCall& call, const Arithmetic&) {
  const Operand *x = call.tensor(0), *weights = call.tensor(1), *choice = call.tensor(8);
  if (x == nullptr || weights == nullptr || choice == nullptr || x->extents().size() != 2 ||
      weights->extents().size() != 3 || choice->extents().size() != 2 || is_float(choice->dtype))
    return std::nullopt;
  const int64_t routes = choice->elements(), columns = weights->extents()[1],
                depth = weights->extents()[2];
  if (x->extents()[1] != depth) return std::nullopt;
  return product_of(*x, *weights, count_product({routes, columns, depth}), {routes, columns});
}

}  // namespace counts

void count_gradients(ForeignTrace& trace) {
  constexpr std::string_view kEnding = "Backward";
  std::unordered_map<uint32_t, uint32_t> gradients;  // by function, the names of both
  for (uint32_t name = 0; name < trace.names.size(); ++name) {
    const std::string& text = trace.names[name];
    if (!text.ends_with(kEnding) || torch_operation(text).role != Role::kComposite) continue;
    gradients[trace.names.number(text.substr(0, text.size() - kEnding.size()))] = name;
  }
  if (gradients.empty()) return;
  std::map<std::pair<uint32_t, int64_t>, int32_t> calls;  // by gradient and sequence number
  for (const ForeignEvent& event : trace.events)
    if (const auto found = gradients.find(event.name);
        found != gradients.end() && event.call >= 0 && event.sequence >= 0)
      calls[{found->second, event.sequence}] = event.call;
  std::map<std::pair<uint32_t, int32_t>, int32_t> made;  // by gradient and call of its function
  for (ForeignEvent& event : trace.events) {
    if (event.kind != EventKind::kOperation) continue;
    const auto forward = calls.find({event.name, event.sequence});
    if (forward == calls.end() || !trace.calls[static_cast<size_t>(forward->second)].are_known)
      continue;
    const auto [call, is_new] =
        made.try_emplace({event.name, forward->second}, static_cast<int32_t>(trace.calls.size()));
    if (is_new)
      trace.calls.push_back(
          gradient_of(trace.calls[static_cast<size_t>(forward->second)],
                      torch_operation(trace.names[event.name]).op == "flash_attention_backward"));
    event.call = call->second;
  }
}

}  // namespace ridge::record
