# SPDX-License-Identifier: Apache-2.0
"""What the lint tests share: the listing of the repository's text files and the way a violation is printed."""
import pathlib
import sys

FOLDERS = ("src", "tests", "tools", "cmake", "docs", "packages", "examples", ".ci")
CODE = (".cc", ".h", ".cu", ".cuh", ".py", ".sh", ".cmake")
CPP = (".cc", ".h", ".cu", ".cuh")
DATA = "tests/data/"  # read byte for byte by tests, not ours to style


def files(root, *folders):
    """Files under the given folders of the root (default: all of ours and the root's own), as relative paths."""
    # In a worktree .git is a file.
    found = [] if folders else [path for path in root.iterdir() if path.is_file() and path.name != ".git"]
    for folder in folders or FOLDERS:
        found += [path for path in (root / folder).rglob("*") if path.is_file()]
    relative = (path.relative_to(root) for path in sorted(found))
    return [path for path in relative
            if "__pycache__" not in path.parts and not path.as_posix().startswith(DATA)]


def run(check):
    """Runs check(root), an iterable of (file, line, reason), on the root given as argument."""
    violations = list(check(pathlib.Path(sys.argv[1]).resolve()))
    for path, line, reason in violations:
        print(f"{path}:{line}: {reason}")
    print(f"{pathlib.Path(sys.argv[0]).stem}: {len(violations)} violations")
    sys.exit(1 if violations else 0)
