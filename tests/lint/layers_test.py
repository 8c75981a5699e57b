#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The law of rooms: an include points to the same room or to a strictly lower rank, by the table of rooms in
docs/architecture.md; kernels see only base and what all kernels are given, and CUDA's passes, which are built without nvcc too, no
backend."""
import re

import sources

ROW = re.compile(r"^\|\s*(\d+)\s*\|\s*`([a-z_]+)/`", re.M)
INCLUDE = re.compile(r'^\s*#\s*(?:include|define\s+HWY_TARGET_INCLUDE)\s*"([^"]*)"')
KERNELS = re.compile(r"^backends/(?:[^/]+/)?kernels/")  # its group: what a kernel in it may include, at any depth
PASSES = "backends/cuda/passes/"
TABLE = "docs/architecture.md"
CALLS = "backends/kernels/"  # what a kernel is given, declared once for all backends
TARGET = re.compile(r"\bridge_room\(\s*(\w+)\s+DEPENDS\s+([^)]*)\)")


def ranks(root):
    """Rank by room, as the table of docs/architecture.md has it."""
    return {room: int(rank) for rank, room in ROW.findall((root / TABLE).read_text("utf-8"))}


def refusal(rank, path, included):
    """Why `path` (relative to src) may not include `included`, or None."""
    if included.startswith("hwy/"):
        return None  # Highway's own examples quote its headers
    room, other = path.split("/")[0], included.split("/")[0]
    if "/" not in included or other not in rank:
        return f'"{included}" is in no known room (third-party headers are written <...>)'
    kernels = KERNELS.match(path)
    if kernels and other != "base" and not included.startswith((kernels.group(), CALLS)):
        return f'a kernel includes only base/, {CALLS} and {kernels.group()}, not "{included}"'
    if path.startswith(PASSES) and other == room and not included.startswith(PASSES):
        return f'passes are built without nvcc too, and include nothing of backends/ but {PASSES}, not "{included}"'
    if other != room and rank[other] >= rank[room]:
        return f"{room} (rank {rank[room]}) may not include {other} (rank {rank[other]})"
    return None


def check(root):
    rank, includes = ranks(root), 0
    yield from sources.some(rank, TABLE, "row of a room")
    for file in sources.files(root, "src"):
        path = file.relative_to("src").as_posix()
        if "/" not in path or path.split("/")[0] not in rank:
            yield file, 1, "lies in no known room"
            continue
        if file.suffix not in sources.CPP:
            continue
        for number, line in enumerate((root / file).read_text("utf-8").splitlines(), 1):
            included = INCLUDE.match(line)
            includes += included is not None
            reason = included and refusal(rank, path, included.group(1))
            if reason:
                yield file, number, reason
    yield from sources.some(includes, "src", "include")
    # The build says the same: a target links only lower rooms.
    cmake = root / "CMakeLists.txt"
    text = cmake.read_text("utf-8") if cmake.exists() else ""
    for target in TARGET.finditer(text):
        room, line = target.group(1), text.count("\n", 0, target.start()) + 1
        for other in re.findall(r"[a-z_]+", target.group(2).split("EXECUTABLE")[0]):
            if rank.get(other, 99) >= rank.get(room, -1):
                yield cmake.name, line, f"target {room} may not link {other}"


sources.run(check)
