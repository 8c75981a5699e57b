// SPDX-License-Identifier: Apache-2.0
// Replaces the CUDA backend in a program that was built without nvcc.
#include "backends/cuda/calibration/calibration.h"
#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/source_kernel.h"
#include "base/error.h"

namespace ridge::backends::cuda {

std::string why_no_gpu() { return "this program was built without CUDA (nvcc was not found)"; }

namespace {
[[noreturn]] void refuse() { throw Error("[cuda] " + why_no_gpu(), ExitCode::kDevice); }
}  // namespace

std::unique_ptr<Backend> make_cuda_backend(const CudaOptions&) { refuse(); }
cost::Machine this_machine(bool) { refuse(); }
std::unique_ptr<Calibration> make_calibration(bool) { refuse(); }
double others_share_now() { refuse(); }
SourceKernel compile_source(const KernelSource&, int) { refuse(); }

int gpu_count() { return 0; }
std::string nccl_version() { refuse(); }
std::string gpu_name() { return ""; }
std::string gpu_architecture() { return ""; }

}  // namespace ridge::backends::cuda
