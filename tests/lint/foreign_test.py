#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Text from files and options (paths, names, settings, reasons) that a terminal would get unescaped: in apps/ and report/, an
argument of fmt::print or fmt::format or a cell of a table that ends in such a field must go through terminal_safe or printable.
Messages of Errors are exempt, since main escapes them as a whole, and so are the writers of JSON and CSV."""
import re

import sources

FOLDERS = ("src/apps", "src/report")
EXEMPT = re.compile(r"_(?:json|csv|html)\.cc$|kineto_trace\.cc$|performance_summary\.cc$|apps/main\.cc$")
CALL = re.compile(r"\bfmt::(?:print|format)\(|\.add\(\{|\bTable \w+\(\{\{")
FIELDS = ("path|title|source|note|notes|model|device|command|folder|measured_at|finished_at|warning|reason|key|clock_source|name_|"
          "setting|machine")
FOREIGN = re.compile(rf"(?:^|[.>&*(\s])(?:(?:{FIELDS})(?:\(\))?|(?:setting|machine)\.str\(\)|[\w.>()-]+\.(?:string|what)\(\))$")
LITERAL = re.compile(r'"(?:\\.|[^"\\])*"')
# Text that becomes part of a message, or that the callee escapes.
ESCAPED_LATER = re.compile(r"_error\($|Error\($|report\($|terminal_safe\($|printable\($|paint\($|title\($|warnings?\.push_back\($")


def arguments(text, begin):
    """The arguments of the call whose first argument begins at `begin`, with their places."""
    depth, start, quote, at = 0, begin, None, begin
    while at < len(text):
        c = text[at]
        if quote:
            if c == "\\":
                at += 1
            elif c == quote:
                quote = None
        elif c in "\"'" and not (c == "'" and text[at - 1].isalnum()):
            quote = c
        elif c in "([{":
            depth += 1
        elif c in ")]}" and depth == 0:
            yield start, text[start:at]
            return
        elif c in ")]}":
            depth -= 1
        elif c == "," and depth == 0:
            yield start, text[start:at]
            start = at + 1
        at += 1


def check(root):
    calls = 0
    for file in sources.files(root, *FOLDERS):
        if file.suffix not in sources.CPP or EXEMPT.search(file.as_posix()):
            continue
        text = (root / file).read_text("utf-8")
        for call in CALL.finditer(text):
            calls += 1
            if ESCAPED_LATER.search(text[:call.start()].rstrip()):
                continue
            for begin, argument in arguments(text, call.end()):
                line = text.count("\n", 0, begin + len(argument) - len(argument.lstrip())) + 1
                for value in re.split(r" \+ |[?:] ", LITERAL.sub('""', argument.strip())):
                    if FOREIGN.search(value.strip()):
                        yield file, line, f"{value} may be text of a file: terminal_safe({value})"
    yield from sources.some(calls, "src/apps", "call that prints")


sources.run(check)
