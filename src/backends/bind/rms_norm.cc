// SPDX-License-Identifier: Apache-2.0
// Bindings of rms_norm, add_rms_norm and rms_norm_backward.
#include "backends/bind/bindings.h"
#include "backends/row_layout.h"

namespace ridge::backends::bind {
namespace {

// For rms_norm and add_rms_norm. The latter has the added value after x among its inputs, and the
// sum before y among its outputs.
constexpr auto norm_call = []<typename T>(const BindCall& call) -> RmsNorm<T> {
  const bool adds = call.inputs.size() == 3;
  const Operand& x = call.inputs[0];
  RmsNorm<T> norm;
  norm.tokens = x.type.shape[0];
  norm.width = x.type.shape[1];
  norm.x = rows<const T>(x);
  norm.weight = call.inputs[adds ? 2 : 1].as<const float>();
  norm.eps = static_cast<float>(call.attrs().real("eps"));
  norm.weight_offset = static_cast<float>(call.attrs().real("offset"));
  norm.y = rows<T>(call.outputs[adds ? 1 : 0]);
  norm.rstd = call.outputs[adds ? 2 : 1].as<float>();
  return norm;
};

constexpr auto add_call = []<typename T>(const BindCall& call) -> AddRmsNorm<T> {
  return {norm_call.template operator()<T>(call), rows<const T>(call.inputs[1]),
          rows<T>(call.outputs[0])};
};

constexpr auto backward_call = []<typename T>(const BindCall& call) -> RmsNormBackward<T> {
  RmsNormBackward<T> norm;
  norm.tokens = call.inputs[0].type.shape[0];
  norm.width = call.inputs[0].type.shape[1];
  norm.dy = rows<const T>(call.inputs[0]);
  norm.x = rows<const T>(call.inputs[1]);
  norm.weight = call.inputs[2].as<const float>();
  norm.weight_offset = static_cast<float>(call.attrs().real("offset"));
  norm.rstd = call.inputs[3].as<const float>();
  if (call.inputs.size() == 5) norm.d_residual = rows<const T>(call.inputs[4]);
  norm.dx = rows<T>(call.outputs[0]);
  norm.d_weight = call.outputs[1].as<float>();
  norm.workspace = reinterpret_cast<float*>(call.workspace);
  return norm;
};

// Values with the shape of x may be slices of rows; weights and statistics are dense.
bool takes_input(const Call& call, int input, const Layout& layout) {
  return call.inputs[static_cast<size_t>(input)].shape == call.inputs[0].shape &&
         lies_in_rows(call, input, layout);
}
bool takes_output(const Call& call, int output, const Layout& layout) {
  return call.outputs[static_cast<size_t>(output)].shape == call.inputs[0].shape &&
         output_lies_in_rows(call, output, layout);
}

}  // namespace

template <typename T>
AddRmsNorm<T> add_rms_norm_of(const BindCall& call) {
  return add_call.operator()<T>(call);
}
template AddRmsNorm<float> add_rms_norm_of(const BindCall&);
template AddRmsNorm<uint16_t> add_rms_norm_of(const BindCall&);

Kernel rms_norm(TypedLaunchers<RmsNorm> launchers) {
  return {.op = "rms_norm",
          .bind = bind_typed(std::move(launchers), norm_call),
          .takes_input = takes_input,
          .takes_output = takes_output,
          .in_place = true};
}

Kernel add_rms_norm(TypedLaunchers<AddRmsNorm> launchers) {
  return {.op = "add_rms_norm",
          .bind = bind_typed(std::move(launchers), add_call),
          .takes_input = takes_input,
          .takes_output = takes_output};
}

Kernel rms_norm_backward(TypedLaunchers<RmsNormBackward> launchers,
                         int64_t (*workspace_bytes)(int64_t tokens, int64_t width)) {
  return {.op = "rms_norm_backward",
          .bind = bind_typed(std::move(launchers), backward_call),
          .takes_input = takes_input,
          .takes_output = takes_output,
          .workspace_bytes = [workspace_bytes](const Call& call) {
            return workspace_bytes(call.inputs[0].shape[0], call.inputs[0].shape[1]);
          }};
}

}  // namespace ridge::backends::bind
