#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Compiles the portable GPU kernels for AMD's CDNA GPUs with Debian's hipcc, without linking or running them. Flash
# attention, append_attention, skinny_gemm and the kernels on fragment tiles use instructions and types of CUDA so far;
# *_hopper.cu need Hopper, *_tensor_cores.cu mma.sync.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
if ! command -v hipcc > /dev/null; then
  echo "hip-check: skipped, hipcc was not found (apt-get install hipcc)"
  exit 0
fi
objects=$(mktemp -d)
trap 'rm -rf "$objects"' EXIT

compile() {  # ARCHITECTURE FILE
  hipcc -x hip --offload-arch="$1" -std=c++20 -O1 -Wno-unused-command-line-argument -I "$here/src" -c "$2" \
    -o "$objects/kernel.o" 2> "$objects/words"
}
echo 'extern "C" __attribute__((device)) int one() { return 1; }' > "$objects/probe.cu"
count=0 failed=0
for architecture in gfx90a gfx940 gfx942; do
  if ! compile $architecture "$objects/probe.cu"; then
    echo "hip-check: this hipcc does not know $architecture"
    continue
  fi
  for kernel in $(find "$here"/src/{backends,courses}/cuda/kernels -name '*.cu' | sort); do
    case $kernel in */flash_attention/* | *_hopper.cu | *_tensor_cores.cu | */skinny_gemm* | */append_attention* | *fragment*) continue ;; esac
    count=$((count + 1))
    if ! compile $architecture "$kernel"; then
      failed=$((failed + 1))
      echo "hip-check: $architecture $(basename "$kernel")" >&2
      head -5 "$objects/words" >&2
    fi
  done
done
echo "hip-check: $((count - failed)) of $count compilations passed"
[ $failed = 0 ]
