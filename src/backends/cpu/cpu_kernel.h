// SPDX-License-Identifier: Apache-2.0
// How an op's CPU binding describes itself, and what bindings share. The list is kernel_table.cc.
#pragma once

#include <string_view>

#include "backends/backend.h"
#include "backends/row_layout.h"

namespace ridge::backends::cpu {

class GemmTuner;

struct CpuKernel {
  std::string_view op;
  Launch (*bind)(const BindCall&) = nullptr;
  // Instead of bind, for products: the tuner is null where nothing is measured.
  Launch (*bind_tuned)(const BindCall&, GemmTuner* tuner) = nullptr;
  // Layouts besides dense ones that the kernel takes; null: none.
  bool (*takes_input)(const Call&, int input, const Layout&) = nullptr;
  bool (*takes_output)(const Call&, int output, const Layout&) = nullptr;
  bool in_place = false;  // every output may overwrite any input of its type
  int64_t (*workspace_bytes)(const Call&) = nullptr;
  // Empty when the kernel takes the call's types and attributes, else what it does not; null: all.
  std::string (*unsupported)(const Call&) = nullptr;
  bool takes_stored = false;  // weights and tables as files store them: quantized blocks, f16
};

const CpuKernel* find_kernel(std::string_view op);

}  // namespace ridge::backends::cpu
