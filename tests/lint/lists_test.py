#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lists agree with files: each op that is defined is in the registry, each pass that is defined is in the list of passes,
under the backend whose folder holds it, and has a test and golden graphs, each subcommand has its line in README.md. A
file of src/apps that is no subcommand says so in its first comment: "Not a subcommand."."""
import re

import sources

DEFINED = re.compile(r"\s*const\s+(?:passes::)?(Op|Pass)\s*&\s*(\w+)_(?:op|pass)\(\)\s*\{")
OWNER = re.compile(r"src/backends/(\w+)/passes/")
PASSES = "src/passes/passes.h"


def text_of(root, path):
    return (root / path).read_text("utf-8") if (root / path).exists() else ""


def definitions(root, folder):
    """Yields (file, line, name) of each `const Op& NAME_op() {` or `const Pass& NAME_pass() {`."""
    for file in sources.files(root, folder):
        for number, line in enumerate((root / file).read_text("utf-8").splitlines(), 1):
            defined = DEFINED.match(line)
            if defined:
                yield file, number, defined.group(2)


def check(root):
    registry = text_of(root, "src/ops/registry.cc")
    for file, line, op in definitions(root, "src/ops"):
        if f"X({op})" not in registry:
            yield file, line, f"X({op}) is not in the list of src/ops/registry.cc"
    listed = text_of(root, PASSES)
    tests = {f"{path.parent.name}/{path.name}" for path in sources.files(root, "tests/passes", "tests/golden")}
    folders = ["src/passes"] + sorted(path.relative_to(root).as_posix() for path in root.glob("src/backends/*/passes"))
    for file, line, name in (found for folder in folders for found in definitions(root, folder)):
        owner = OWNER.match(file.as_posix())
        owner = owner.group(1).upper() if owner else "ALL"
        if not re.search(rf"\b{owner}\({name}, \w+\)", listed):
            yield file, line, f"{owner}({name}, LEVEL) is not in the list of {PASSES}"
        for want in (f"passes/{name}_test.cc", f"golden/{name}.before.txt", f"golden/{name}.after.txt"):
            if want not in tests:
                yield file, line, f"has no tests/{want}"
    readme = text_of(root, "README.md")
    for file in sources.files(root, "src/apps"):
        top = "\n".join(text_of(root, file).splitlines()[:6])
        if file.suffix != ".cc" or file.name == "main.cc" or "Not a subcommand." in top:
            continue
        command = re.sub(r"_command$", "", file.stem).replace("_", "-")
        if not re.search(rf"\bridge {command}\b", readme):
            yield file, 1, f'README.md has no line on "ridge {command}"'


sources.run(check)
