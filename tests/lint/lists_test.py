#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lists agree with files. Each row of src/passes/passes.h has a source file in the folder of its backend that defines
run_NAME, a test and two golden graphs, and each run_NAME has a row. Each op that a file of src/ops makes is in the registry and
each row of the registry is made; a struct with a declaration() becomes an op. Each subcommand has its line in README.md; a
file of src/apps that is no subcommand says so in its first comment: "Not a subcommand."."""
import re

import sources

OP_LIST, PASS_LIST = "src/ops/registry.h", "src/passes/passes.h"
OP_ROW = re.compile(r"^\s+X\((\w+)\)")
OP_MADE = re.compile(r"^const Op& (\w+)_op\(\) \{\s*return op_from<(\w+)>\(\);", re.M)
OP_DECLARED = re.compile(r"^(?:struct|class) (\w+)\b[^;{]*\{(?:(?!^\};).)*?\bstatic Op declaration\(\)", re.M | re.S)
PASS_ROW = re.compile(r"^\s+(ALL|CPU|CUDA)\((\w+),")
PASS_DEFINED = re.compile(r"^Graph run_(\w+)\(const Graph& \w+,\s*(?:passes::)?PassContext&[^)]*\)\s*\{", re.M)
PASS_FOLDERS = {"ALL": "src/passes", "CPU": "src/backends/cpu/passes", "CUDA": "src/backends/cuda/passes"}
GOLDENS = "tests/golden"


def text_of(root, path):
    return (root / path).read_text("utf-8") if (root / path).exists() else ""


def rows(root, path, row):
    """(line, groups of the match) of each line of the list that is a row."""
    found = ((number, row.match(line)) for number, line in enumerate(text_of(root, path).splitlines(), 1))
    return [(number, *match.groups()) for number, match in found if match]


def definitions(root, folder, pattern):
    """(file, line, groups of the match) of each place in the .cc files of the folder where the pattern is found."""
    found = []
    for file in sources.files(root, folder):
        text = text_of(root, file) if file.suffix == ".cc" else ""
        found += [(file, text.count("\n", 0, match.start()) + 1, *match.groups()) for match in pattern.finditer(text)]
    return found


def check_ops(root):
    listed = rows(root, OP_LIST, OP_ROW)
    made = definitions(root, "src/ops", OP_MADE)
    yield from sources.some(listed, OP_LIST, "row X(NAME)")
    yield from sources.some(made, "src/ops", "op_from<STRUCT>()")
    for file, line, op, _ in made:
        if op not in {name for _, name in listed}:
            yield file, line, f"X({op}) is not in the list of {OP_LIST}"
    for line, op in listed:
        if op not in {name for _, _, name, _ in made}:
            yield OP_LIST, line, f"no file of src/ops makes {op}_op() by op_from"
    for file, line, struct in definitions(root, "src/ops", OP_DECLARED):
        if (file, struct) not in {(place, name) for place, _, _, name in made}:
            yield file, line, f"{struct} declares an op that no function makes by op_from"


def check_passes(root):
    listed = rows(root, PASS_LIST, PASS_ROW)
    yield from sources.some(listed, PASS_LIST, "row of a pass")
    there = {path.as_posix() for path in sources.files(root, "src", "tests")}
    for owner, folder in PASS_FOLDERS.items():
        defined = definitions(root, folder, PASS_DEFINED)
        of_owner = [(line, name) for line, backend, name in listed if backend == owner]
        for file, line, name in defined:
            if name not in {row for _, row in of_owner}:
                yield file, line, f"{owner}({name}, ...) is not in the list of {PASS_LIST}"
        for line, name in of_owner:
            source = f"{folder}/{name}.cc"
            wanted = [f"tests/passes/{name}_test.cc", f"{GOLDENS}/{name}.before.txt", f"{GOLDENS}/{name}.after.txt"]
            if (source, name) not in {(file.as_posix(), pass_name) for file, _, pass_name in defined}:
                yield PASS_LIST, line, f"{source} does not define run_{name}", f"pass {name}"
            for path in wanted:
                if path not in there:
                    yield PASS_LIST, line, f"{name} has no {path}", f"pass {name}"
    for file in sources.files(root, GOLDENS):
        if file.parent.as_posix() == GOLDENS and file.name.split(".")[0] not in {name for _, _, name in listed}:
            yield file, 1, f"is the golden graph of no pass in {PASS_LIST}"


def check_subcommands(root):
    readme, commands = text_of(root, "README.md"), 0
    for file in sources.files(root, "src/apps"):
        top = "\n".join(text_of(root, file).splitlines()[:6])
        if file.suffix != ".cc" or file.name == "main.cc" or "Not a subcommand." in top:
            continue
        commands += 1
        command = re.sub(r"_command$", "", file.stem).replace("_", "-")
        if not re.search(rf"\bridge {command}\b", readme):
            yield file, 1, f'README.md has no line on "ridge {command}"'
    yield from sources.some(commands, "src/apps", "subcommand")


def check(root):
    yield from check_ops(root)
    yield from check_passes(root)
    yield from check_subcommands(root)


sources.run(check)
