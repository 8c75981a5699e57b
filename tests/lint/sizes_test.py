#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files stop at 600 lines and functions at 100 (150 in a kernel file); waivers: "file PATH" and "function PATH NAME". Each room
stops at its budget, a row of room_lines.txt: "ROOM LINES" or "ROOM LINES: reason". It counts all files of a folder of src/, but
not those of an inner folder that has its own row."""
import ast
import collections
import re

import cpp_text
import sources

FILE_LINES, FUNCTION_LINES, KERNEL_LINES = 600, 100, 150
BUDGET = "tests/lint/room_lines.txt"
ROW = re.compile(r"(\S+) (\d+)(?:: \S.*)?$")


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.lineno, node.end_lineno - node.lineno + 1


def check_rooms(root):
    most, lines = {}, collections.Counter()
    for number, row in enumerate((root / BUDGET).read_text("utf-8").splitlines() if (root / BUDGET).exists() else [], 1):
        if row.strip() and not row.startswith("#"):
            if fields := ROW.match(row):
                most[f"src/{fields.group(1)}"] = (number, int(fields.group(2)))
            else:
                yield BUDGET, number, "is not ROOM LINES or ROOM LINES: reason"
    for file in sources.files(root, "src"):
        folders = [folder.as_posix() for folder in file.parents]  # the innermost first
        room = next((folder for folder in folders if folder in most), "/".join(file.parts[:2]))
        lines[room] += (root / file).read_text("utf-8").count("\n")
    for room in sorted(lines.keys() - most.keys()):
        yield BUDGET, 1, f"has no row for {room}, which has {lines[room]} lines"
    for room, (number, budget) in most.items():
        if lines[room] > budget:
            yield BUDGET, number, f"{room} has {lines[room]} lines, at most {budget}: a commit that raises it says why"
        if room not in lines:
            yield BUDGET, number, f"{room} has no files"


def check(root):
    yield from check_rooms(root)
    functions_found = 0
    for file in sources.files(root):
        if file.suffix not in sources.CODE:
            continue
        text = (root / file).read_text("utf-8")
        if (lines := text.count("\n")) > FILE_LINES:
            yield file, 1, f"{file} has {lines} lines, at most {FILE_LINES}", f"file {file}"
        most = KERNEL_LINES if "/kernels/" in file.as_posix() else FUNCTION_LINES
        functions = {".py": python_functions}.get(file.suffix, cpp_text.functions)
        for name, line, lines in functions(text) if file.suffix in sources.CPP + (".py",) else ():
            functions_found += 1
            if lines > most:
                yield file, line, f"{file} {name} has {lines} lines, at most {most}", f"function {file} {name}"
    yield from sources.some(functions_found, "src", "function")


sources.run(check)
