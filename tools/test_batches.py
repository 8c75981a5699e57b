#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Divides test sources into batches that compile as one: half the time of a build of tests goes into headers and templates
that all of them use.

    tools/test_batches.py SIZE FILE...

Prints a line `NUMBER FILE` for each file. Two files that define the same name outside of functions and classes, or the same
macro, are in different batches.
"""
import collections
import re
import sys

TYPE = re.compile(r'(?:template\s*<.*?>\s*)?(?:class|struct|enum(?:\s+class)?|union)\s+(\w+)(?![^{]*\)\s*$)', re.S)
TEST = re.compile(r'(?:TEST|TEST_F|TEST_P|INSTANTIATE_TEST_SUITE_P)\s*\(\s*(\w+)\s*,\s*(\w+)')


def without_texts(code):
    """Removes comments and the contents of literals."""
    literal = r'R"(?P<mark>\w*)\(.*?\)(?P=mark)"' + r"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])'"
    return re.sub(r'//[^\n]*|/\*.*?\*/|' + literal, ' ', code, flags=re.S)


def declared(text):
    """Returns the name that a declaration at the level of a namespace gives, None for what may be repeated."""
    text = text.strip()
    if test := TEST.match(text):
        return '.'.join(test.groups())
    if kind := TYPE.match(text):
        return kind[1]
    if alias := re.match(r'using\s+(\w+)\s*=(.*)', text, re.S):
        return alias[1] + ' = ' + ' '.join(alias[2].split())
    if re.match(r'(?:using|namespace)\b', text):
        return None
    before, equals, _ = text.partition('=')
    if not equals or '(' in before:
        if function := re.search(r'(~?\w+)\s*\(', text):
            return function[1]
    names = re.findall(r'(\w+)\s*(?:\[[^\]]*\]\s*)*$', before)
    return names[0] if names else None


def names_of(path):
    """Returns the names of a file: those of its namespaces, and its macros."""
    with open(path, encoding='utf-8') as file:
        code = without_texts(file.read())
    names = {'#' + macro for macro in re.findall(r'^\s*#\s*define\s+(\w+)', code, re.M)}
    code = re.sub(r'^\s*#(?:[^\n]*\\\n)*[^\n]*', '', code, flags=re.M)
    depth, text = 0, ''
    for part in re.findall(r'[{};]|[^{};]+', code):
        if part == '{':
            is_namespace = re.search(r'\bnamespace\s*[\w:]*\s*$', text)
            if depth == 0 and is_namespace:
                text = ''
                continue
            if depth == 0:
                names.add(declared(text))
            depth += 1
        elif part == '}':
            depth = max(depth - 1, 0)
            text = '' if depth == 0 else text
        elif depth == 0 and part == ';':
            names.add(declared(text))
            text = ''
        elif depth == 0:
            text += part
    return names - {None}


def conflicts(names, others):
    """Whether a file with `names` cannot be in a batch that has the names `others`."""
    meanings = collections.defaultdict(set)
    for name in names | others:
        meanings[name.split(' = ')[0]].add(name)
    return any(' = ' not in name for name in names & others) or any(len(each) > 1 for each in meanings.values())


def main():
    size, paths = int(sys.argv[1]), sys.argv[2:]
    batches = []  # [files, their names]
    for path in paths:
        names = names_of(path)
        batch = next((b for b in batches if len(b[0]) < size and not conflicts(names, b[1])), None)
        if batch is None:
            batches.append(batch := [[], set()])
        batch[0].append(path)
        batch[1] |= names
    for number, (files, _) in enumerate(batches):
        for path in files:
            print(number, path)


if __name__ == '__main__':
    main()
