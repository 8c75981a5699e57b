#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finds the places of a C++ file where one small change makes a different program that probably still compiles. Works on
tokens and on clang-format's spacing (a binary operator has spaces around it), without a C++ parser. tools/mutants.py
builds and tests what these changes make."""
import bisect
import dataclasses
import re

TOKEN = re.compile(r"""
    (?P<blank> //[^\n]* | /\*.*?\*/ | ^[ \t]*\#(?:[^\n]*\\\n)*[^\n]*)
  | (?P<string> R"(?P<end>\w*)\(.*?\)(?P=end)" | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])+')
  | (?P<number> \.?\d(?:[eEpP][+-]|'(?=\w)|[\w.])*)
  | (?P<word> [A-Za-z_]\w*)
  | (?P<mark> <=>|<<=|>>=|\.\.\.|::|->|\+\+|--|&&|\|\||[-+*/%&|^<>=!]=|<<|>>|\S)""", re.S | re.M | re.X)
NUMBER = re.compile(r"(0[xX][0-9a-fA-F]+|\d+)([uUlL]*)|((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)([fF]?)")

RELATIONS = {"<": ["<=", ">="], "<=": ["<", ">"], ">": [">=", "<="], ">=": [">", "<"], "==": ["!="], "!=": ["=="]}
ARITHMETIC = {"+": "-", "-": "+", "*": "/", "/": "*", "%": "*", "+=": "-=", "-=": "+=", "*=": "/=", "/=": "*=",
              "<<": ">>", ">>": "<<", "&": "|", "|": "&"}
LOGIC = {"&&": "||", "||": "&&"}
OPPOSITES = {a: b for pair in (("min", "max"), ("min_element", "max_element"), ("lower_bound", "upper_bound"),
                               ("any_of", "all_of"), ("floor", "ceil"), ("HWY_MIN", "HWY_MAX"), ("front", "back"),
                               ("true", "false")) for a, b in (pair, pair[::-1])}
SYMMETRIC = {"min", "max", "HWY_MIN", "HWY_MAX", "swap"}
# Calls that check or describe: what is in them changes no result, or only a message.
UNTOUCHED_CALLS = re.compile(r"RIDGE_CHECK|static_assert|alignas|sizeof|decltype|\w*_error|Error|fault|fail|refuse|failure")
UNTOUCHED_UNTIL = {"throw": ";", "using": ";", "typedef": ";", "friend": ";", "enum": ";"}
SAMPLE_CASES = re.compile(r"cases|\w+_cases")  # the inputs that the tests of an op choose
NO_CALL = {"if", "for", "while", "switch", "return", "catch", "operator", "constexpr", "noexcept"}
NO_STATEMENT = NO_CALL | set("""using const auto static case default throw template namespace class struct public private
                                protected else do typedef friend enum RIDGE_CHECK static_assert inline extern""".split())
ENDS_OF_TERM = {",", ";", ")", "]", "}", ":", "?", "&&", "||", "="}
ENDS_OF_SUMMAND = ENDS_OF_TERM | set(RELATIONS) | {"+", "-", "<<", ">>", "&", "|"}
DEFAULTS = {"{}", "0", "false", "true", "nullptr", '""', "*this", "std::nullopt"}
CLOSING = {"(": ")", "[": "]", "{": "}"}


@dataclasses.dataclass(frozen=True)
class Change:
    """One change of a file's text: text[start:end] becomes `into`. `before` and `after` are the touched lines with single
    spaces, which name the change independently of line numbers."""
    kind: str
    line: int
    start: int
    end: int
    into: str
    before: str
    after: str

    def apply(self, text):
        return text[:self.start] + self.into + text[self.end:]


class Source:
    """A file's tokens without comments and preprocessor lines, with matching brackets."""

    def __init__(self, text):
        self.text = text
        found = [token for token in TOKEN.finditer(text) if token.lastgroup != "blank"]
        self.kinds = ["string" if token["string"] else token.lastgroup for token in found]
        self.words = [token.group() for token in found]
        self.starts = [token.start() for token in found]
        self.ends = [token.end() for token in found]
        self.lines = [0] + [at.end() for at in re.finditer("\n", text)]
        self.match = self._matching()
        self.skipped = self._skipped()

    def __len__(self):
        return len(self.words)

    def word(self, at):
        return self.words[at] if 0 <= at < len(self) else ""

    def kind(self, at):
        return self.kinds[at] if 0 <= at < len(self) else ""

    def spaced(self, at):
        """Whether there is white space on both sides, as around a binary operator."""
        return self.text[self.starts[at] - 1:self.starts[at]].isspace() and self.text[self.ends[at]:][:1].isspace()

    def between(self, first, last):
        """The text of tokens first to last, both included."""
        return self.text[self.starts[first]:self.ends[last]]

    def _matching(self):
        match, open_ = {}, []
        for at, word in enumerate(self.words):
            if self.kinds[at] != "mark":
                continue
            if word in CLOSING:
                open_.append(at)
            elif word in CLOSING.values() and open_:
                match[at] = open_.pop()
                match[match[at]] = at
        return match

    def find(self, at, stops):
        """The first token from `at` on, at the same depth, that is one of `stops` or closes the enclosing bracket."""
        while at < len(self) and self.words[at] not in stops and self.words[at] not in CLOSING.values():
            at = self.match.get(at, at) + 1
        return at

    def _skipped(self):
        skipped, at = set(), 0
        while at < len(self):
            end, word = at, self.words[at]
            if word in UNTOUCHED_UNTIL:
                end = self.find(at, UNTOUCHED_UNTIL[word])
            elif word == "template" and self.word(at + 1) == "<":
                depth = 0
                while end < len(self) and (depth > 0 or end <= at + 1):
                    depth += {"<": 1, ">": -1, ">>": -2}.get(self.words[end], 0)
                    end += 1
            elif UNTOUCHED_CALLS.fullmatch(word) and self.word(at + 1) == "(":
                end = self.match.get(at + 1, at)
            elif SAMPLE_CASES.fullmatch(word) and self.words[at + 1:at + 4] == ["(", ")", "{"]:
                end = self.match.get(at + 3, at)
            elif word == "HWY_BEFORE_NAMESPACE":
                while end < len(self) and self.words[end] != "HWY_AFTER_NAMESPACE":
                    end += 1
            if end > at:
                skipped.update(range(at, end + 1))
            at = end + 1
        return skipped

    def change(self, kind, start, end, into):
        first = bisect.bisect_right(self.lines, start) - 1
        last = bisect.bisect_left(self.lines, end)
        begin, stop = self.lines[first], self.lines[last] if last < len(self.lines) else len(self.text)
        single = lambda text: " ".join(text.split())
        return Change(kind, first + 1, start, end, into, single(self.text[begin:stop]),
                      single(self.text[begin:start] + into + self.text[end:stop]))


def operators(source, at):
    word, here = source.words[at], (source.starts[at], source.ends[at])
    if source.kinds[at] != "mark" or source.kind(at - 1) == "string" or source.kind(at + 1) == "string":
        return
    if not source.spaced(at):
        unary = source.text[here[1]:][:1].strip() and (source.word(at - 1) in set("([{,=?:<>") | {"return", "&&", "||"}
                                                       or source.text[here[0] - 1].isspace())
        if word == "!" or word == "-" and unary:
            yield "sign or not", *here, ""
        return
    for into in RELATIONS.get(word, ()):
        yield "relation", *here, into
    if word in ("<", "<=", ">", ">=") and (source.kind(at - 1) in ("word", "number") or source.word(at - 1) in ")]"):
        yield "boundary", here[0] - 1, here[0] - 1, " + 1" if word[0] == "<" else " - 1"
    for table, kind in ((ARITHMETIC, "arithmetic"), (LOGIC, "logic")):
        if word in table:
            yield kind, *here, table[word]
    if word in ("+", "-", "&&", "||"):
        end = source.find(at + 1, ENDS_OF_TERM if word in LOGIC else ENDS_OF_SUMMAND) - 1
        if end > at:
            yield "dropped term", source.ends[at - 1], source.ends[end], ""
    if word == "?":
        colon = source.find(at + 1, {":"})
        end = source.find(colon + 1, {",", ";"}) - 1
        if source.word(colon) == ":" and end > colon:
            yield ("branches", source.starts[at + 1], source.ends[end],
                   f"{source.between(colon + 1, end)} : {source.between(at + 1, colon - 1)}")


def constants(source, at):
    word, here = source.words[at], (source.starts[at], source.ends[at])
    if source.kinds[at] == "word" and word in OPPOSITES:
        called = source.word(at + 1) in ("(", "<") and source.word(at - 1) in ("::", ".", "->")
        if called or word in ("true", "false") or word.startswith("HWY_") or word in ("floor", "ceil"):
            yield "opposite", *here, OPPOSITES[word]
    number = NUMBER.fullmatch(word.replace("'", "")) if source.kinds[at] == "number" else None
    # Between unspaced angle brackets it is part of a type.
    if not number or source.word(at - 1) == "<" and not source.spaced(at - 1) or \
            source.word(at + 1) in (">", ">>") and not source.spaced(at + 1):
        return
    if number[1]:
        value = int(number[1], 16 if number[1][:2] in ("0x", "0X") else 10)
        for into in (value + 1, value - 1)[:2 if value else 1]:
            yield "constant", *here, f"{into}{number[2]}"
    else:
        value = float(number[3])
        into = repr(0.9 * value) if value else "1.0"
        yield "constant", *here, into + number[4]


def conditions(source, at):
    if source.words[at] != "if" or source.word(at + 1) != "(" or at + 1 not in source.match:
        return
    first, last = at + 2, source.match[at + 1] - 1
    if source.word(source.find(first, {"=", ";"})) in ("=", ";"):  # it declares something
        return
    yield "condition", source.starts[first], source.ends[last], f"!({source.between(first, last)})"


def statements(source, at):
    before, word = source.word(at - 1), source.words[at]
    heads = before == ")" and source.word(source.match.get(at - 1, 0) - 1) in ("if", "for", "while")
    if not (before in (";", "{", "}", "else") or heads):
        return
    end = source.find(at, {";"})
    if source.word(end) != ";" or end == at:
        return
    dropped = ("dropped statement", source.starts[at], source.ends[end], "{}")
    if word == "return":
        # A variable that is returned was computed by what is changed elsewhere.
        if end > at + 2 and source.between(at + 1, end - 1) not in DEFAULTS and source.word(at + 2) != ".":
            yield "return", source.starts[at + 1], source.ends[end - 1], "{}"
    elif word in ("break", "continue", "throw"):
        yield dropped
    elif word in ("++", "--", "*") or source.kinds[at] == "word" and word not in NO_STATEMENT:
        # Two words in a row, or a type's mark after the first, make a declaration.
        after = at + 1
        while source.word(after) in ("::", ".", "->") or source.word(after - 1) in ("::", ".", "->"):
            after += 1
        assigned = source.find(at, {"=", "+=", "-=", "*=", "/=", ";"})
        body = source.find(at, {"{", ";"})
        if word in ("++", "--", "*") or source.kind(after) != "word" and source.word(after) not in ("<", "*", "&", "&&") and \
                not (source.word(body) == "{" and body < assigned):
            yield dropped


def arguments(source, at):
    if source.words[at] not in ("(", "{") or at not in source.match:
        return
    callee = source.word(at - 1)
    if source.words[at] == "(" and (source.kind(at - 1) != "word" or callee in NO_CALL | SYMMETRIC):
        return
    parts, first, last = [], at + 1, source.match[at]
    while first < last:
        end = source.find(first, {",", ";"})
        if source.word(end) == ";":
            return
        parts.append((first, end - 1))
        first = end + 1
    for first, end in parts:
        inside = range(first, end)
        if any(source.kinds[k] == source.kinds[k + 1] == "word" for k in inside) or source.words[first] == "." or any(
                source.words[k] in ("<", "*", "&", "&&") and not source.spaced(k) and k > first for k in inside):
            return  # declarations, types, designated members
    for (a, b), (c, d) in zip(parts, parts[1:]):
        left, right = source.between(a, b), source.between(c, d)
        rows = left[-1] == right[-1] == "}"  # of a table, in which order may mean nothing
        if left != right and not rows and len(left + right) < 80 and "string" not in (source.kinds[a], source.kinds[c]):
            yield "arguments", source.starts[a], source.ends[d], right + source.text[source.ends[b]:source.starts[c]] + left


def changes(text):
    """All changes of a file, in the order of its text; those of a line with the same effect on its text only once."""
    source, seen = Source(text), set()
    for at in range(len(source)):
        if at in source.skipped:
            found = statements(source, at) if source.words[at] == "throw" else ()
        else:
            found = (each for rule in (operators, constants, conditions, statements, arguments) for each in rule(source, at))
        for kind, start, end, into in found:
            if at + 1 in source.skipped and kind in ("return", "arguments"):
                continue
            change = source.change(kind, start, end, into)
            if (change.line, change.after) not in seen and change.before != change.after:
                seen.add((change.line, change.after))
                yield change
