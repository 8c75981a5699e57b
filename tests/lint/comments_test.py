#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Comments of src/ and tests/ are whole sentences of at most 100 columns. What begins a block of comment lines or a comment
after code is no fragment: Of, That, What, Whose, Whom, In which, With which and As which lack a subject or a verb. The
waiver "comment PATH" says how many comments and lines of a file are neither."""
import re

import cpp_text
import sources

COLUMNS = 100
FRAGMENT = re.compile(r"(?://[/!]*|/\*+)<?\s*((?:of|that|what|whose|whom|(?:in|with|as) which)\b)", re.I)
TAG = "SPDX-License-Identifier"


def check(root):
    comments = 0
    for file in sources.files(root, "src", "tests"):
        if file.suffix not in sources.CPP:
            continue
        text = (root / file).read_text("utf-8")
        lines = text.split("\n")
        above = (0, 0)  # line and column of the comment before
        for comment in cpp_text.comments(text):
            comments += 1
            number = text.count("\n", 0, comment.start()) + 1
            column = comment.start() - text.rfind("\n", 0, comment.start())
            is_alone = not lines[number - 1][:column - 1].strip()
            continues = is_alone and above == (number - 1, column) and TAG not in lines[number - 2]
            begins = FRAGMENT.match(comment["comment"])
            if begins and not continues:
                yield file, number, f'a comment is a sentence, not "{begins.group(1)} ..."', f"comment {file}"
            for i in range(number, number + comment["comment"].count("\n") + 1):
                if len(lines[i - 1]) > COLUMNS:
                    yield file, i, f"a comment ends in column {len(lines[i - 1])}, at most {COLUMNS}", f"comment {file}"
            above = (number, column)
    yield from sources.some(comments, "src", "comment")


sources.run(check)
