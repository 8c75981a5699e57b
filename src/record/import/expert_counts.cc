// SPDX-License-Identifier: Apache-2.0
// Finds the two weights of experts among tensors of three axes: the first one takes the width of
// the tokens, and the second one yields it from what the first one yields, or from half of it where
// a gate halves it.
#include "record/import/expert_counts.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "record/import/operation_counts.h"
#include "record/import/torch_calls.h"
#include "record/import/torch_operations.h"

namespace ridge::record {
namespace {

constexpr size_t kMostTexts = 200;  // different calls inside one

// The operands of experts. The weights are tensors [experts,...,...].
struct ExpertOperands {
  const Operand* x = nullptr;  // [T,D]
  std::vector<const Operand*> weights;
  int64_t chosen = 0;  // experts for each token; 0: unknown
};

// Values in an element of a packed tensor, as it may be: 4 bits in a byte or in 32 bits.
std::initializer_list<int64_t> packings(DType dtype) {
  static constexpr auto kByte = {int64_t{1}, int64_t{2}}, kWord = {int64_t{8}},
                        kNone = {int64_t{1}};
  return dtype == DType::kU8 ? kByte : dtype == DType::kI32 ? kWord : kNone;
}

// The extents that a weight [experts,a,b] may yield from rows of this width.
std::vector<int64_t> outputs(const Operand& weight, int64_t width) {
  std::vector<int64_t> all;
  for (const int64_t packed : packings(weight.dtype))
    for (const auto& [in, out] : {std::pair{1, 2}, std::pair{2, 1}})
      if (count_product({weight.extents()[static_cast<size_t>(in)], packed}) == width)
        all.push_back(weight.extents()[static_cast<size_t>(out)]);
  return all;
}

bool yields(const Operand& weight, int64_t width, int64_t output) {
  return std::ranges::count(outputs(weight, width), output) > 0;
}

// The bytes of the experts that a step can touch at most.
int64_t touched_bytes(const Operand& weight, int64_t routes) {
  const int64_t experts = std::max<int64_t>(weight.extents()[0], 1);
  return count_product({weight.bytes() / experts, std::min(experts, routes)});
}

std::optional<Counts> counts_of(const ExpertOperands& e) {
  if (e.x == nullptr || e.x->extents().size() != 2 || e.chosen < 1) return std::nullopt;
  const int64_t tokens = e.x->extents()[0];
  for (const int64_t packed : packings(e.x->dtype)) {
    const int64_t width = count_product({e.x->extents()[1], packed});
    for (const Operand* first : e.weights)
      for (const int64_t inner : outputs(*first, width))
        for (const Operand* second : e.weights) {
          if (second == first || inner < 2) continue;
          const bool has_gate = inner % 2 == 0 && yields(*second, inner / 2, width);
          if (!has_gate && !yields(*second, inner, width)) continue;
          const int64_t routes = count_product({tokens, e.chosen});
          Counts counts;
          counts.output = {tokens, width};
          counts.output_type = info(e.x->dtype).bytes_per_block > 1 ? e.x->dtype : DType::kBF16;
          counts.model_macs = counts.work.macs =
              count_product({routes, width, inner + (has_gate ? inner / 2 : inner)});
          counts.work.flops = count_product({counts.work.macs, 2});
          counts.read_bytes =
              e.x->bytes() + touched_bytes(*first, routes) + touched_bytes(*second, routes);
          counts.written_bytes =
              count_product({tokens, width, info(counts.output_type).bytes_per_block});
          return counts;
        }
  }
  return std::nullopt;
}

bool is_weight(const Operand& each) { return each.is_tensor() && each.extents().size() == 3; }

// Experts chosen for each token: integers [T,k].
bool is_choice(const Operand& each, int64_t tokens) {
  return each.is_tensor() && each.extents().size() == 2 && each.extents()[0] == tokens &&
         each.extents()[1] > 0 && each.is_index();
}

// The first number, after that of the experts, that is no larger.
int64_t chosen_number(const RecordedCall& call, int64_t experts) {
  bool is_next = false;
  for (const Operand& each : call.operands) {
    const std::vector<int64_t> numbers =
        each.kind == Operand::Kind::kScalar ? integers(each.value) : std::vector<int64_t>();
    if (numbers.size() != 1) continue;
    if (is_next && numbers[0] > 0 && numbers[0] <= experts) return numbers[0];
    is_next = numbers[0] == experts;
  }
  return 0;
}

// The calls inside other calls, by thread and time.
class InnerCalls {
 public:
  explicit InnerCalls(const ForeignTrace& trace) : trace_(trace) {
    for (uint32_t i = 0; i < trace.events.size(); ++i)
      if (trace.events[i].kind == EventKind::kOperation && trace.events[i].call >= 0)
        order_.push_back(i);
    std::ranges::sort(order_, {}, [&](uint32_t i) { return key(i); });
  }

  // The texts of the calls in an event, each once.
  std::vector<uint32_t> in(const ForeignEvent& outer) const {
    constexpr int kMostEvents = 2000;
    std::vector<uint32_t> texts;
    int events = 0;
    const auto first =
        std::ranges::lower_bound(order_, std::make_tuple(outer.track, outer.begin_ns, uint32_t{0}),
                                 {}, [&](uint32_t i) { return key(i); });
    for (auto at = first; at != order_.end(); ++at) {
      const ForeignEvent& each = trace_.events[*at];
      if (each.track != outer.track || each.begin_ns >= outer.end_ns()) break;
      if (++events > kMostEvents || texts.size() == kMostTexts) break;
      const uint32_t text = trace_.calls[static_cast<size_t>(each.call)].inputs;
      if (std::ranges::find(texts, text) == texts.end()) texts.push_back(text);
    }
    return texts;
  }

 private:
  std::tuple<uint32_t, int64_t, uint32_t> key(uint32_t i) const {
    return {trace_.events[i].track, trace_.events[i].begin_ns, i};
  }

  const ForeignTrace& trace_;
  std::vector<uint32_t> order_;
};

// The experts by the texts of the calls inside a call, which is the first.
std::optional<Counts> counts_of_texts(const NameTable& names, const std::vector<uint32_t>& texts) {
  std::vector<RecordedCall> calls;
  for (const uint32_t text : texts) calls.push_back(call_of_text(names[text]));
  ExpertOperands found;
  for (const RecordedCall& call : calls) {
    if (found.x == nullptr) found.x = call.tensor(0);
    if (found.x == nullptr || found.x->extents().size() != 2) return std::nullopt;
    for (const Operand& each : call.operands) {
      if (is_weight(each) && each.extents()[0] > 1) found.weights.push_back(&each);
      if (found.chosen == 0 && is_choice(each, found.x->extents()[0]))
        found.chosen = each.extents()[1];
    }
  }
  return counts_of(found);
}

}  // namespace

namespace counts {

// The tokens are the first matrix whose width the weights have.
std::optional<Counts> experts(const RecordedCall& call, const Arithmetic&) {
  ExpertOperands found;
  for (const Operand& each : call.operands)
    if (is_weight(each)) found.weights.push_back(&each);
  if (found.weights.empty()) return std::nullopt;
  for (const Operand& x : call.operands) {
    if (!x.is_tensor() || x.extents().size() != 2) continue;
    found.x = &x;
    found.chosen = 0;
    for (const Operand& each : call.operands)
      if (&each > found.weights[0] && each.is_tensor() && each.extents().size() == 2 &&
          each.extents()[0] == x.extents()[0] && found.chosen == 0)
        found.chosen = each.extents()[1];
    if (found.chosen == 0) found.chosen = chosen_number(call, found.weights[0]->extents()[0]);
    if (const std::optional<Counts> counts = counts_of(found)) return counts;
  }
  return std::nullopt;
}

}  // namespace counts

void count_experts(ForeignTrace& trace) {
  std::map<uint32_t, bool> is_of_experts;  // by name
  std::optional<InnerCalls> inner;
  for (ForeignEvent& event : trace.events) {
    if (event.kind != EventKind::kOperation || event.call < 0) continue;
    RecordedCounts counted = trace.calls[static_cast<size_t>(event.call)];
    if (counted.are_known) continue;
    const auto [is_one, is_new] = is_of_experts.try_emplace(event.name, false);
    if (is_new) is_one->second = torch_operation(trace.names[event.name]).op == "experts";
    if (!is_one->second) continue;
    if (!inner) inner.emplace(trace);
    const std::optional<Counts> counts = counts_of_texts(trace.names, inner->in(event));
    if (!counts) continue;
    note_counts(*counts, trace.names, counted);
    event.call = static_cast<int32_t>(trace.calls.size());
    trace.calls.push_back(counted);
  }
}

}  // namespace ridge::record
