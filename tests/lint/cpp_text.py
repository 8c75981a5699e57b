# SPDX-License-Identifier: Apache-2.0
"""Reads C++ without a parser, for the lint tests: functions are found by matching braces."""
import re

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


def blanked(text):
    """The text with comments, preprocessor lines and literals as spaces, line by line the same."""
    return BLANK.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


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


def functions(text):
    """Yields (name, first line, lines) of each function; what lies in a function is part of it."""
    text = blanked(text)
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
