#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lists agree with files: each op that is defined is in the registry, each pass that is defined is in the pipeline and
has a test, each subcommand has its line in README.md. A file of src/apps that is no subcommand says so in its first
comment: "Not a subcommand."."""
import re

import sources

DEFINED = re.compile(r"\s*const\s+(Op|Pass)\s*&\s*(\w+)_(?:op|pass)\(\)\s*\{")


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
    pipeline = text_of(root, "src/passes/pipeline.cc")
    tests = {f"{path.parent.name}/{path.name}" for path in sources.files(root, "tests/passes", "tests/golden")}
    for file, line, name in definitions(root, "src/passes"):
        if not re.search(rf"\b{name}_pass\(\)", pipeline):
            yield file, line, f"{name}_pass() is not in the list of src/passes/pipeline.cc"
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
