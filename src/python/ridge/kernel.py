# SPDX-License-Identifier: Apache-2.0
"""A kernel of your own in the place of an op: in C++, by the system's compiler, in CUDA C++, by NVRTC, or a function of
Python."""
import ctypes
import os
import pathlib
import tempfile
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from ridge._ridge import Report, _CudaKernel, _Kernel
from ridge.errors import UsageError

# What a kernel in C++ sees before its own first line.
PRELUDE = """#include <cmath>
#include <cstddef>
#include <cstdint>
#include <algorithm>

// An operand: dense, row-major. data points to float, int32_t, or 16 bits of bf16 or f16.
struct Tensor {
  void* data;
  const int64_t* shape;
  int64_t rank;

  template <typename T = float>
  T* as() const { return static_cast<T*>(data); }
  int64_t elements() const {
    int64_t count = 1;
    for (int64_t axis = 0; axis < rank; ++axis) count *= shape[axis];
    return count;
  }
};
"""


class Kernel:
    """A kernel that computes what an op does, made by `ridge.kernel`. `error` is its largest difference from the op's
    reference in double precision, over the largest magnitude of the reference."""

    def __init__(self, name: str, kernel: _Kernel, function: Any, library: ctypes.CDLL | None) -> None:
        self.name = name
        self._kernel = kernel
        self._function = function
        self._library = library  # the code lives as long as the kernel
        self.error: float = kernel.error(function)

    def profile(self, **options: Any) -> Report:
        """Times it and Ridge's own kernel on the same device and sizes: seconds (0.5) for each, level ('baseline'), passes,
        threads, isa. The report has both on the roofline once `ridge.machine()` has measured the ceilings."""
        return self._kernel.profile(self._function, **options)

    def __repr__(self) -> str:
        return f"<ridge.Kernel {self.name}: error {self.error:.3g}>"


def _compiled(name: str, source: str, flags: Sequence[str]) -> ctypes.CDLL:
    import subprocess

    compiler = os.environ.get("CXX", "c++")
    folder = tempfile.TemporaryDirectory(prefix="ridge-")
    path = pathlib.Path(folder.name)
    (path / "kernel.cc").write_text(f'{PRELUDE}#line 1 "{name}"\n{source}\n')
    command = [compiler, "-std=c++17", "-O3", "-march=native", "-fopenmp", "-shared", "-fPIC", *flags, "-o", "kernel.so",
               "kernel.cc"]
    try:
        done = subprocess.run(command, cwd=path, capture_output=True, text=True)
    except OSError as error:
        raise UsageError(f"[kernel] expected a compiler, {compiler} does not start: {error}") from error
    if done.returncode != 0:
        raise UsageError(f"[kernel] {name} does not compile:\n{done.stderr[:4000]}")
    library = ctypes.CDLL(str(path / "kernel.so"))
    weakref.finalize(library, folder.cleanup)
    return library


def _compiled_cuda(kernel: _Kernel, source: str, grid: int | Sequence[int] | None, block: int | Sequence[int],
                   shared_bytes: int, flags: Sequence[str]) -> _CudaKernel:
    def extents(given: int | Sequence[int] | None) -> list[int]:
        return [] if given is None else [given] if isinstance(given, int) else list(given)

    folders = [os.path.join(os.environ.get(name, path), "include") for name, path in
               (("CUDA_HOME", "/usr/local/cuda"), ("CUDA_PATH", "/usr/local/cuda"))]
    headers = [f"-I{folder}" for folder in folders if os.path.isdir(folder)][:1]  # cuda_bf16.h and others
    return kernel.cuda(source, extents(grid), extents(block), shared_bytes, [*headers, *flags])


def kernel(name: str, source: str | Callable[..., Any], *, like: str, shapes: Sequence[Sequence[int]],
           dtype: Any = "f32", tolerance: float | None = None, flags: Sequence[str] = (),
           grid: int | Sequence[int] | None = None, block: int | Sequence[int] = 256, shared_bytes: int = 0,
           **attributes: Any) -> Kernel:
    """A kernel of your own for a call of the op `like`, checked against the op's reference in double precision.

    source: C++ that defines `extern "C" void NAME(const Tensor* inputs, const Tensor* outputs)`, compiled by $CXX or c++
    with -O3 -march=native -fopenmp and `flags`; or CUDA C++ that defines `extern "C" __global__ void NAME(Tensor first,
    ...)`, with a Tensor for each input and then each output, compiled by NVRTC for the first GPU; or a function of Python
    that gets numpy arrays (bf16 and f16 as uint16) and returns one, or a tuple of several. A Tensor is dense and row-major:
    `as<T>()` is its data (T is float by default), `shape` and `rank` its extents, `elements()` their product. In C++ or
    Python it runs in this process: a kernel that writes out of bounds may end it. In CUDA C++ it makes the GPU unusable for
    this process.
    shapes: of the op's operands; dtype: of all of them or of each, as 'f32', 'bf16', 'f16', 'i32'; attributes: the op's.
    tolerance: the largest error, by default 1e-4 for f32, 2e-3 for f16, 2e-2 for bf16.
    grid, block, shared_bytes: of CUDA C++: blocks (default: a thread for each element of the first output), threads of a
    block, each an int or up to three, and bytes of its dynamic shared memory.

    Raises UsageError for shapes that do not fit, a source that does not compile, and a kernel that computes something
    else; DeviceError for CUDA C++ without NVRTC or a GPU."""
    dtypes = list(dtype) if isinstance(dtype, (list, tuple)) else [dtype] * len(shapes)
    if len(dtypes) != len(shapes):
        raise UsageError(f"[dtype] expected {len(shapes)} types, got {len(dtypes)}")
    inputs = [(kind, [int(each) for each in shape]) for kind, shape in zip(dtypes, shapes)]
    call = _Kernel(name, like, inputs, attributes)
    library = None
    function: Any = source
    if isinstance(source, str) and "__global__" in source:
        function = _compiled_cuda(call, source, grid, block, shared_bytes, flags)
    elif isinstance(source, str):
        library = _compiled(name, source, flags)
        try:
            function = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
        except AttributeError:
            raise UsageError(f'[kernel] expected a function extern "C" void {name}') from None
    elif not callable(source):
        raise UsageError(f"[kernel] expected C++, CUDA C++ or a function, got {type(source).__name__}")
    made = Kernel(name, call, function, library)
    limit = made._kernel.usual_error() if tolerance is None else tolerance
    if not made.error <= limit:
        raise UsageError(f"[kernel] {name} differs from {like} by {made.error:.3g} of the largest value (tolerance {limit:.3g})")
    return made
