// SPDX-License-Identifier: Apache-2.0
// Bindings of the collectives. Outputs of all_reduce share the bytes of its inputs.
#include "backends/bind/collectives.h"

#include <fmt/format.h>

#include <utility>

#include "ops/infer.h"

namespace ridge::backends::bind {

Collective collective_of(const BindCall& call) {
  const std::string group = call.attrs().text("group");
  return {group, call.attrs().integer("ranks"), call.attrs().flag("average"),
          fmt::format("{} of {} ({})", call.node.op->name, call.node.scope, group)};
}

namespace {

Exchanged tensor_of(const Operand& operand) {
  return {operand.data, operand.type.shape.elements(), operand.type.dtype};
}

// A part as rows of a whole tensor, in which the rows of all ranks' parts take turns.
struct PartRows {
  int64_t rows = 0, row_bytes = 0, ranks = 1;

  PartRows(const Call& call, const Type& part) : ranks(call.attrs.integer("ranks")) {
    const int axis = static_cast<int>(call.attrs.integer("axis"));
    rows = ops::around(part.shape, axis).outer;
    row_bytes = rows == 0 ? 0 : storage_bytes(part.dtype, part.shape.elements()) / rows;
  }
  // Whether the parts lie one after the other in the whole tensor.
  bool is_in_order() const { return rows <= 1 || ranks == 1; }
  int64_t workspace_bytes() const {
    return is_in_order() ? 0 : round_up(rows * row_bytes * ranks, kAlignment);
  }
  // The copies from the workspace's order to that of the whole tensor, or back.
  void append_copies(std::byte* workspace,
                     std::byte* whole,
                     bool to_whole,
                     std::vector<RowCopy>& copies) const {
    for (int64_t rank = 0; rank < ranks; ++rank) {
      std::byte* part = workspace + rank * rows * row_bytes;
      std::byte* turn = whole + rank * row_bytes;
      copies.push_back(to_whole
                           ? RowCopy{part, turn, rows, row_bytes, row_bytes, ranks * row_bytes}
                           : RowCopy{turn, part, rows, row_bytes, ranks * row_bytes, row_bytes});
    }
  }

 private:
  static constexpr int64_t kAlignment = 256;
};

int64_t workspace_bytes(const Call& call) {
  const bool gathers = call.outputs[0].shape.elements() > call.inputs[0].shape.elements();
  int64_t bytes = 0;
  for (const Type& part : gathers ? call.inputs : call.outputs)
    bytes += PartRows(call, part).workspace_bytes();
  return bytes;
}

Kernel divided(std::string_view op, bool gathers, DividedLaunchers launchers) {
  const auto bind = [gathers, launchers = std::move(launchers)](const BindCall& call) -> Launch {
    const std::vector<Operand>& parts = gathers ? call.inputs : call.outputs;
    const std::vector<Operand>& wholes = gathers ? call.outputs : call.inputs;
    DividedCollective made{collective_of(call), {}};
    std::vector<RowCopy> copies;
    std::byte* workspace = call.workspace;
    for (size_t i = 0; i < parts.size(); ++i) {
      const Type& type = parts[i].type;
      const PartRows rows(call.call(), type);
      const int64_t bytes = storage_bytes(type.dtype, type.shape.elements());
      if (made.ranks == 1)
        copies.push_back({call.inputs[i].data, call.outputs[i].data, 1, bytes, bytes, bytes});
      std::byte* whole = wholes[i].data;
      if (!rows.is_in_order()) {
        rows.append_copies(workspace, whole, gathers, copies);
        whole = std::exchange(workspace, workspace + rows.workspace_bytes());
      }
      made.tensors.push_back({parts[i].data, whole, type.shape.elements(), type.dtype});
    }
    if (made.ranks == 1) return launchers.copy(copies);
    Launch exchange = launchers.exchange(made);
    if (copies.empty()) return exchange;
    Launch copy = launchers.copy(copies);
    if (!gathers) std::swap(exchange, copy);
    return [first = std::move(exchange), second = std::move(copy)] { first(), second(); };
  };
  return {.op = op, .bind = bind, .workspace_bytes = workspace_bytes};
}

}  // namespace

Kernel all_reduce(std::function<Launch(const AllReduce&)> make) {
  return {.op = "all_reduce", .bind = [make = std::move(make)](const BindCall& call) -> Launch {
            AllReduce made{collective_of(call), {}};
            if (made.ranks == 1) return [] {};
            for (const Operand& each : call.outputs) made.tensors.push_back(tensor_of(each));
            return make(made);
          }};
}

Kernel all_gather(DividedLaunchers launchers) {
  return divided("all_gather", true, std::move(launchers));
}

Kernel reduce_scatter(DividedLaunchers launchers) {
  return divided("reduce_scatter", false, std::move(launchers));
}

Kernel send(std::function<Launch(const Transfer&)> make) {
  return {.op = "send", .bind = [make = std::move(make)](const BindCall& call) -> Launch {
            const Transfer made{collective_of(call), tensor_of(call.inputs[0])};
            if (made.ranks == 1) return [] {};
            return make(made);
          }};
}

Kernel receive(std::function<Launch(const Transfer&)> make,
               std::function<Launch(const Exchanged&)> clear) {
  return {.op = "receive",
          .bind = [make = std::move(make), clear = std::move(clear)](const BindCall& call) {
            const Transfer made{collective_of(call), tensor_of(call.outputs[0])};
            return made.ranks == 1 ? clear(made.tensor) : make(made);
          }};
}

}  // namespace ridge::backends::bind
