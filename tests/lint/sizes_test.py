#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files stop at 600 lines and functions at 100 (150 in a kernel file). A waiver is a line of waivers.txt:
"path: reason" or "path function: reason". Functions are found by matching braces, without a C++ parser."""
import ast
import re

import sources

FILE_LINES, FUNCTION_LINES, KERNEL_LINES = 600, 100, 150
WAIVERS = "tests/lint/waivers.txt"
# Comments, preprocessor lines, strings and character literals: blanked, so that their braces don't count.
BLANK = re.compile(
    r'//[^\n]*|/\*.*?\*/|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|'
    r"(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'", re.S | re.M)
PREFIX = re.compile(r"\s*(?:(?:public|private|protected)\s*:\s*|template\s*<[^{]*?>\s*(?=\w)|inline\s+)*")
SCOPE = re.compile(r"(?:namespace|class|struct|union|enum|extern)\b")
NAME = re.compile(r"(operator\W+?|[\w:~]+)\s*\(")
CONTINUED = re.compile(r"\s*[,){]")
BEFORE = re.compile(r"(?:\s*(?:public|private|protected)\s*:)*\s*")
CASE = re.compile(r"(?:TEST|TEST_F|TEST_P|TYPED_TEST)\s*\(([^)]*)\)")


def function_name(header):
    """The name of the function that this text before a brace begins, or None: a scope or an initialiser."""
    header = PREFIX.sub("", header, count=1)
    called = NAME.search(header)
    if SCOPE.match(header) or not called:
        return None
    if "=" in re.sub(r"operator\W+\(", "(", header[:called.end()]):  # a value
        return None
    case = CASE.match(header)
    return re.sub(r"\s*,\s*", ".", case.group(1)) if case else called.group(1)


def cpp_functions(text):
    """Yields (name, first line, lines) of each function; what lies in a function is part of it."""
    text = BLANK.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)
    stack, start, inside = [], 0, 0  # start: of the statement; inside: depth of braces that are no scopes
    for brace in re.finditer(r"[{};]", text):
        at = brace.start()
        if brace.group() == "{":
            header = text[start:at]
            name = None if inside else function_name(header)
            scope = not inside and name is None and SCOPE.match(PREFIX.sub("", header, count=1))
            inside += 0 if scope else 1
            stack.append((name, scope, start))
        elif brace.group() == "}" and stack:
            name, scope, begun = stack.pop()
            inside -= 0 if scope else 1
            if not inside and CONTINUED.match(text, at + 1):  # a_{a}, b_(b) {  or  f(T t = {})
                start = begun
                continue
            if name is not None:
                first = BEFORE.match(text, begun).end()
                yield name, text.count("\n", 0, first) + 1, text.count("\n", first, at) + 1
        start = at + 1


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.lineno, node.end_lineno - node.lineno + 1


def read_waivers(root):
    path, waivers = root / WAIVERS, {}
    for number, line in enumerate(path.read_text("utf-8").splitlines() if path.exists() else [], 1):
        if line.strip() and not line.startswith("#"):
            key, _, reason = line.partition(": ")
            waivers[key.strip()] = (number, reason.strip())
    return waivers


def check(root):
    waivers, used = read_waivers(root), set()
    for file in sources.files(root):
        if file.suffix not in sources.CODE:
            continue
        text = (root / file).read_text("utf-8")
        lines = text.count("\n")
        found = [(str(file), 1, lines, FILE_LINES)]
        limit = KERNEL_LINES if "/kernels/" in file.as_posix() else FUNCTION_LINES
        functions = {".py": python_functions}.get(file.suffix, cpp_functions)
        if file.suffix in sources.CPP + (".py",):
            found += [(f"{file} {name}", line, size, limit) for name, line, size in functions(text)]
        for key, line, size, most in found:
            if size > most and key in waivers:
                used.add(key)
            elif size > most:
                yield file, line, f"{key} has {size} lines, at most {most}"
    for key, (number, reason) in waivers.items():
        if not reason:
            yield WAIVERS, number, f"the waiver of {key} gives no reason"
        if key not in used:
            yield WAIVERS, number, f"the waiver of {key} is not needed"


sources.run(check)
