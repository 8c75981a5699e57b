# SPDX-License-Identifier: Apache-2.0
"""Reads C++ without a parser, for the lint tests: functions, classes and their members are found by matching braces."""
import dataclasses
import re

COMMENT = r"//[^\n]*|/\*.*?\*/"
LITERAL = (r'R"(?P<fence>\w*)\(.*?\)(?P=fence)"|"(?:\\.|[^"\\\n])*"|'
           r"(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'")
# What is blanked, so that its braces don't count.
BLANK = re.compile(rf"{COMMENT}|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*|{LITERAL}", re.S | re.M)
# Comments, told from literals that look like one.
COMMENTED = re.compile(rf"(?P<comment>{COMMENT})|{LITERAL}", re.S)
PREFIX = re.compile(r"\s*(?:(?:public|private|protected)\s*:\s*|template\s*<[^{]*?>\s*(?=\w)|inline\s+)*")
SCOPE = re.compile(r"(?:namespace|class|struct|union|enum|extern)\b")
NAME = re.compile(r"(operator\W+?|[\w:~]+)\s*\(")
CONTINUED = re.compile(r"\s*[,){]")
BEFORE = re.compile(r"(?:\s*(?:public|private|protected)\s*:)*\s*")
CASE = re.compile(r"(?:TEST|TEST_F|TEST_P|TYPED_TEST)\s*\(([^)]*)\)")
CLASS = re.compile(r"(?:typedef\s+)?(?:class|struct)\s+(?:alignas\([^)]*\)\s*|\[\[[^\]]*\]\]\s*)*([\w:]*)"
                   r"(?:<[^{]*>)?(?:\s+final)?\s*(?::[^{]*)?$")
LABEL = re.compile(r"(?:public|private|protected)\s*:(?!:)")
NO_MEMBER = re.compile(r"(?:using|typedef|friend|static_assert|enum|class|struct|union)\b")
UNCHANGING = re.compile(r"@ ?const\b|= ?delete\b")  # @: a parameter list
FUNCTION_POINTER = re.compile(r"\(\s*(?:\w+::)*\*\s*(\w+)\s*\)")
MEMBER = re.compile(r"(\w+)\s*(?:\[[^\]]*\]\s*)*(?:=|(?<!:):(?!:)|$)")


def blanked(text):
    """The text with comments, preprocessor lines and literals as spaces, line by line the same."""
    return BLANK.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def comments(text):
    """The match of each comment."""
    return [found for found in COMMENTED.finditer(text) if found["comment"]]


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


@dataclasses.dataclass
class Class:
    """A class or struct: its name, first line, lines, data members, and whether member functions may change it."""
    name: str
    line: int
    lines: int
    members: list
    changes: bool


def without(pattern, text, mark=""):
    """The text with a mark for what the pattern finds, again and again: nested brackets vanish from the inside out."""
    while (fewer := re.sub(pattern, mark, text)) != text:
        text = fewer
    return text


def statements(body):
    """The statements of a class's body without access labels and what stands in inner braces, each on one line."""
    flat, depth = [], 0
    for c in body:
        depth -= c == "}"
        flat += c if depth == 0 else ""
        depth += c == "{"
    for statement in re.split(r";|(?<=\{\})(?!\s*[,){;])", LABEL.sub(" ", "".join(flat))):
        yield " ".join(statement.split())


def outline(name, body):
    """The data members of the class of this name and body, and whether a member function may change them: one that is not
    const, static, a constructor, a destructor or an assignment."""
    members, changes = [], False
    special = re.compile(rf"(?:^|[\s~]){name}\(|& operator_sign\((?:const )?{name}\b")
    for text in statements(body):
        text = re.sub(r"\boperator ?(?:\(\)|[^\w\s(]+)", "operator_sign", text.replace("->", " "))
        text = re.sub(r"^template (?=\w)|\[\[.*?\]\] ?|\balignas\(.*?\) ?", "", without(r"<[^<>]*>", text))
        declared = re.split(r"=|\{|(?<!:):(?!:)", text)[0]  # without initializers, the width of bits and a body
        if not text or NO_MEMBER.match(text) or re.search(r"\bstatic\b", declared):
            continue
        if pointer := FUNCTION_POINTER.search(declared):
            members.append(pointer.group(1))
        elif "(" not in declared:
            declarators = without(r"\([^()]*\)|\{[^{}]*\}", text).split(",")
            members += [MEMBER.search(declarator).group(1) for declarator in declarators if MEMBER.search(declarator)]
        elif not special.search(declared):
            changes |= not UNCHANGING.search(without(r"\([^()]*\)", text, "@"))
    return members, changes


def classes(text):
    """Yields each Class of a file, also those inside of classes and functions."""
    text = blanked(text)
    stack, start = [], 0
    for brace in re.finditer(r"[{};]", text):
        at = brace.start()
        if brace.group() == "{":
            header = PREFIX.sub("", text[start:at], count=1)
            stack.append((CLASS.match(header.strip()), start, at))
        elif brace.group() == "}" and stack:
            found, begun, opened = stack.pop()
            if found:
                first = BEFORE.match(text, begun).end()
                members, changes = outline(found.group(1).split("::")[-1], text[opened + 1:at])
                yield Class(found.group(1), text.count("\n", 0, first) + 1, text.count("\n", first, at) + 1, members, changes)
        start = at + 1
