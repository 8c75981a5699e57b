# SPDX-License-Identifier: Apache-2.0
"""What the lint tests share: the listing of the repository's text files, waivers, and the way a violation is printed."""
import collections
import pathlib
import re
import sys

FOLDERS = ("src", "tests", "tools", "cmake", "docs", "packages", "examples", ".ci")
CODE = (".cc", ".h", ".cu", ".cuh", ".py", ".sh", ".cmake")
CPP = (".cc", ".h", ".cu", ".cuh")
DATA = "tests/data/"  # read byte for byte by tests, not ours to style
WAIVERS = "tests/lint/waivers.txt"
COUNTED = re.compile(r"(.*) (\d+)$")
# The rules that waivers may name, by the lint that checks them.
RULES = {
    "sizes": ("file", "function"),
    "classes": ("class", "members", "json"),
    "comments": ("comment",),
    "lists": ("pass",),
}


def files(root, *folders):
    """Files under the given folders of the root (default: all of ours and the root's own), as relative paths."""
    # In a worktree .git is a file.
    found = [] if folders else [path for path in root.iterdir() if path.is_file() and path.name != ".git"]
    for folder in folders or FOLDERS:
        found += [path for path in (root / folder).rglob("*") if path.is_file()]
    relative = (path.relative_to(root) for path in sorted(found))
    return [path for path in relative
            if "__pycache__" not in path.parts and not path.as_posix().startswith(DATA)]


def some(found, place, what):
    """A violation if nothing was found to check: a lint that matches nothing any more must not pass."""
    if not found:
        yield place, 1, f"has no {what}: this lint checks nothing"


def read_waivers(root):
    """(line, violations, reason) by "RULE PLACE", from the lines "RULE PLACE: reason" and "RULE PLACE COUNT: reason"."""
    path, waivers = root / WAIVERS, {}
    for number, line in enumerate(path.read_text("utf-8").splitlines() if path.exists() else [], 1):
        if line.strip() and not line.startswith("#"):
            key, _, reason = f"{line} ".partition(": ")
            counted = COUNTED.match(key)
            key, count = counted.groups() if counted else (key, 1)
            waivers[key.strip()] = (number, int(count), reason.strip())
    return waivers


def unwaived(root, lint, found):
    """The violations (file, line, reason) among `found`, whose items may have a waiver's key as the fourth value, and the
    lines of the waivers of this lint that do not fit them: a waiver stands for as many violations as it says, no fewer."""
    waivers, by_key = read_waivers(root), collections.defaultdict(list)
    for violation in found:
        if len(violation) == 4 and violation[3] in waivers:
            by_key[violation[3]].append(violation[:3])
        else:
            yield violation[:3]
    for key, (number, count, reason) in waivers.items():
        rule = key.split()[0]
        if not any(rule in rules for rules in RULES.values()):
            yield WAIVERS, number, f"{rule} is no rule of a lint"
        if rule not in RULES.get(lint, ()):
            continue
        there = len(by_key[key])
        if not reason:
            yield WAIVERS, number, f"the waiver of {key} gives no reason"
        if there > count:
            yield from by_key[key]
        if there != count:
            needed = f"for {count} violations, there are {there}" if there else "not needed"
            yield WAIVERS, number, f"the waiver of {key} is {needed}{' (--lower)' if there < count else ''}"


def lower(root, lint, found):
    """Lowers the numbers of this lint's waivers to the violations that are there and drops the waivers without any."""
    there = collections.Counter(violation[3] for violation in found if len(violation) == 4)
    lines = (root / WAIVERS).read_text("utf-8").splitlines()
    for key, (number, count, reason) in read_waivers(root).items():
        if key.split()[0] in RULES.get(lint, ()) and there[key] < count:
            counted = f"{key} {there[key]}" if there[key] > 1 else key
            lines[number - 1] = f"{counted}: {reason}" if there[key] else None
    (root / WAIVERS).write_text("".join(f"{line}\n" for line in lines if line is not None), "utf-8")


def run(check):
    """Runs check(root), an iterable of (file, line, reason) or (file, line, reason, "RULE PLACE" of a waiver), on the root given
    as argument; with --lower after it, the lint's waivers are lowered first."""
    root, script = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[0]).stem
    lint, found = script.removesuffix("_test"), list(check(root))
    if sys.argv[2:] == ["--lower"]:
        lower(root, lint, found)
    violations = list(unwaived(root, lint, found))
    for path, line, reason in violations:
        print(f"{path}:{line}: {reason}")
    print(f"{script}: {len(violations)} violations")
    sys.exit(1 if violations else 0)
