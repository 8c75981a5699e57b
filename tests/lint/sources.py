# SPDX-License-Identifier: Apache-2.0
"""What the lint tests share: the listing of the repository's text files, waivers, and the way a violation is printed."""
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
    waivers, by_key = read_waivers(root), {}
    for violation in found:
        if len(violation) == 4 and violation[3] in waivers:
            by_key.setdefault(violation[3], []).append(violation[:3])
        else:
            yield violation[:3]
    for key, (number, count, reason) in waivers.items():
        owner = next((name for name, rules in RULES.items() if key.split()[0] in rules), None)
        violations = by_key.get(key, [])
        if owner is None:
            yield WAIVERS, number, f"{key} names no rule of a lint"
        if owner != lint:
            continue
        if not reason:
            yield WAIVERS, number, f"the waiver of {key} gives no reason"
        if len(violations) > count:
            yield from violations
        if not violations:
            yield WAIVERS, number, f"the waiver of {key} is not needed"
        elif len(violations) != count:
            yield WAIVERS, number, f"the waiver of {key} is for {count} violations, there are {len(violations)}"


def run(check):
    """Runs check(root), an iterable of (file, line, reason) or (file, line, reason, "RULE PLACE" of a waiver), on the root given
    as argument."""
    root, lint = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[0]).stem
    violations = list(unwaived(root, lint.removesuffix("_test"), check(root)))
    for path, line, reason in violations:
        print(f"{path}:{line}: {reason}")
    print(f"{lint}: {len(violations)} violations")
    sys.exit(1 if violations else 0)
