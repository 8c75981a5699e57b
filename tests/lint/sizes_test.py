#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files stop at 600 lines and functions at 100 (150 in a kernel file). Waivers: "file PATH" and "function PATH NAME"."""
import ast

import cpp_text
import sources

FILE_LINES, FUNCTION_LINES, KERNEL_LINES = 600, 100, 150


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.lineno, node.end_lineno - node.lineno + 1


def check(root):
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
