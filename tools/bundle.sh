#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Usage: bundle.sh BUILD FOLDER. Packs the program, its GPU tests and their libraries (except CUDA's and the C library)
# into a folder that runs on a machine without packages. The files are compressed (oneDNN alone has 38 MiB); `ridge` and
# `run-tests` unpack them into that folder on first use.
set -euo pipefail

build=$1 folder=$2
most_bytes=$((40 << 20))
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

mkdir -p "$stage/lib" "$stage/tests"
strip -o "$stage/ridge" "$build/ridge"
strip -o "$stage/gpu_test" "$build/tests/gpu_test"
cp -r "$here/tests/data/snapshots" "$stage/tests/"
mkdir "$stage/tests/models"
cp -r "$here"/tests/data/models/*_{fp32,bf16,sharded} "$here"/tests/data/models/*.json "$stage/tests/models/"
# The target machine has the C library and its loader.
ldd "$build/ridge" "$build/tests/gpu_test" | awk '/=> \// {print $3}' | sort -u |
  grep -vE '/(libc|libm|libdl|librt|libpthread|ld-linux[^/]*)\.so' | while read -r library; do
    cp -L "$library" "$stage/lib/"
  done

rm -rf "$folder"
mkdir -p "$folder"
tar -C "$stage" -cf - . | xz -T0 -3 > "$folder/payload.tar.xz"

for program in ridge run-tests; do
  cat > "$folder/$program" <<'LAUNCHER'
#!/bin/bash
# Unpacks the payload on first use, then runs the program that this file is named after.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if [ ! -d "$here/unpacked" ]; then
  fresh=$(mktemp -d "$here/unpacking.XXXXXX")
  tar -C "$fresh" -xf "$here/payload.tar.xz" || { rm -rf "$fresh"; exit 1; }
  chmod 755 "$fresh"
  # If another process was faster, keep its folder.
  mv -T "$fresh" "$here/unpacked" 2>/dev/null || rm -rf "$fresh"
fi
export LD_LIBRARY_PATH="$here/unpacked/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export RIDGE_TEST_DATA="$here/unpacked/tests"
case $(basename "$0") in
  ridge) exec "$here/unpacked/ridge" "$@" ;;
  *) exec "$here/unpacked/gpu_test" "$@" ;;
esac
LAUNCHER
  chmod +x "$folder/$program"
done

bytes=$(du -sb "$folder" | cut -f1)
echo "$folder: $((bytes >> 10)) KiB packed"
if [ "$bytes" -gt "$most_bytes" ]; then
  echo "bundle: expected at most $((most_bytes >> 20)) MiB" >&2
  exit 1
fi
