#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Changes the source in one place at a time and counts the changes that the tests find.

    tools/mutants.py [--build build] [--count 300] [--seed 1] [--room ops] [--jobs N]
    tools/mutants.py --only src/base/samples.cc:38      every change of a line

A change is compiled with the file's own command into a scratch folder, and the test programs are linked with that object
in place of the library's, so the tree and the build stay as they are and changes are tested in parallel. The program of
the change's room runs first, then those of the rooms above it; the first failure or time limit ends it. A failed test has
to fail again alone. A limit is of CPU time and of time in which all of a program's threads wait, so a program that other
work holds up is not found by it. Changes that do not compile are not counted. Survivors that make no difference are listed
with their reason in tests/mutants_equal.txt, which tests/lint/mutants_test.py checks.
"""
import argparse
import collections
import concurrent.futures
import dataclasses
import functools
import hashlib
import itertools
import json
import math
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import mutations

EQUAL = pathlib.Path("tests/mutants_equal.txt")
# The rooms and their files whose results are numbers or texts that a test can hold against something, and the weight of a
# room in the sample: counts and statistics have twice the weight.
ROOMS = {
    "base": (2, "samples.cc units.cc random.* shape.* dtype.cc bf16.* block_formats.* pointwise.cc repacked_tiles.*"),
    "files": (1, "*"),
    "text": (1, "*"),
    "ops": (2, "*"),
    "models": (1, "*"),
    "plan": (1, "*"),
    "cost": (2, "*"),
    "record": (2, "**/*"),
    "report": (1, "*"),
    "backends": (1, "cpu/kernels/**/*"),
    "train": (1, "*"),
    "serve": (1, "*"),
    "planning": (1, "*"),
    "measure": (1, "*"),
    "bench": (1, "*"),
    "http": (1, "*"),
}
# Kernels for one instruction set, which may not run on this machine, vectors, and the inputs that tests of ops choose.
LEFT_OUT = re.compile(r"_avx2|_avx512|_amx|-inl\.h$|ops/case_inputs\.h$")
MOST_OBJECTS = 3  # a change of a header that more objects include costs too much
# Of a test program: several times what the largest needs.
MEMORY_BYTES, FILE_BYTES = 8 << 30, 1 << 30
BASELINE_S = 600
PATIENCE = 5  # a changed program may take so many times as long


@dataclasses.dataclass
class Mutant:
    file: str  # from the root
    room: str
    change: mutations.Change
    outcome: str = ""  # found, survived, not compiled, equal, gone
    by: str = ""
    seconds: float = 0

    @property
    def key(self):
        """What the change is, wherever it stands in the file."""
        return self.file, self.change.before, self.change.after

    def text(self):
        return f"{self.file}:{self.change.line} [{self.change.kind}]\n    {self.change.before}\n    {self.change.after}"


def read_equal(root):
    """{(file, before, after): (line, reason)} of the list. An entry is a paragraph of three lines."""
    entries, path = {}, root / EQUAL
    text = path.read_text("utf-8") if path.exists() else ""
    for paragraph in re.finditer(r"(?:^[^#\n].*\n?)+", text, re.M):
        lines = paragraph.group().splitlines() + ["", ""]
        file, _, before = lines[0].partition(": ")
        after, reason = (line.partition(f"{word}: ")[2] for line, word in zip(lines[1:3], ("becomes", "because")))
        entries[file, before, after] = text.count("\n", 0, paragraph.start()) + 1, reason
    return entries


def check(root):
    """Yields (file, line, reason) of each entry of the list that lacks a reason or is no change of the source any more."""
    made = {}
    for (file, before, after), (line, reason) in read_equal(root).items():
        if file not in made:
            path = root / file
            made[file] = {(change.before, change.after)
                          for change in mutations.changes(path.read_text("utf-8"))} if path.is_file() else set()
        if not reason:
            yield EQUAL, line, 'the third line is not "because: REASON"'
        if (before, after) not in made[file]:
            yield EQUAL, line, f"no change of {file} makes this of this line"


class Build:
    """What Ninja knows of a finished build: how objects are made, what they include, how programs are linked."""

    def __init__(self, folder, root):
        self.folder, self.root = folder.resolve(), root
        self.compile = {}  # object -> arguments
        for entry in json.loads((folder / "compile_commands.json").read_text()):
            arguments = shlex.split(entry["command"])
            self.compile[arguments[arguments.index("-o") + 1]] = arguments
        self.objects = collections.defaultdict(list)  # file from the root -> objects that read it
        for line in self._ninja("deps").splitlines():
            if line and not line.startswith(" "):
                object_ = line.partition(": #deps")[0]
            elif line and object_ in self.compile:
                file = self._file(line.strip())
                if file.startswith("src/"):
                    self.objects[file].append(object_)
        rooms = re.findall(r"^ridge_room\((\w+)", (root / "CMakeLists.txt").read_text("utf-8"), re.M)
        targets = {line.partition(":")[0] for line in self._ninja("targets", "all").splitlines()}
        # By rank, the lowest first.
        self.programs = [f"tests/{room}_test" for room in rooms if f"tests/{room}_test" in targets]
        self.link = {program: self._link_command(program) for program in self.programs + ["ridge"]}

    @functools.cache
    def _file(self, path):
        """A path as the compiler has it, relative to the root; links do not matter."""
        return os.path.relpath(os.path.realpath(os.path.join(self.folder, path)), self.root)

    def compiled(self, object_, source, changed, output):
        """The command that compiles an object from a changed copy of a source, if it is of that one, to `output`."""
        command = list(self.compile[object_])
        at = command.index("-c") + 1
        if self._file(command[at]) == source:
            command[at] = str(changed)
        command[command.index("-o") + 1] = output
        return command

    def _ninja(self, tool, *arguments):
        command = ["ninja", "-C", str(self.folder), "-t", tool, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def _link_command(self, target):
        line = self._ninja("commands", "-s", target).strip().splitlines()[-1]
        return shlex.split(line.removeprefix(": && ").removesuffix(" && :"))

    def relinked(self, program, objects, output):
        """The command that links a program with other objects, {object: replacement}; None if it has none of them."""
        command, own = list(self.link[program]), False
        for object_, other in objects.items():
            library = "lib" + re.search(r"(\w+)\.dir/", object_).group(1) + ".a"
            if object_ in command:
                command[command.index(object_)], own = other, True
            elif library in command:
                # Before the libraries: what it defines is not taken from them.
                first = next(at for at, word in enumerate(command) if word.endswith(".a"))
                command.insert(first, other)
                own = True
        command[command.index("-o") + 1] = output
        return command if own else None


def activity(session):
    """(CPU seconds, whether a thread could run) of the processes of a session."""
    seconds, runs = 0, False
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            fields = stat_of(process)
            if int(fields[3]) == session:
                seconds += cpu_seconds(fields)
                runs = runs or any(stat_of(thread)[0] in "RD" for thread in (process / "task").iterdir())
        except OSError:
            pass  # it has ended
    return seconds, runs


def stat_of(process):
    return (process / "stat").read_text().rpartition(")")[2].split()


def cpu_seconds(fields):
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")  # its own and those of ended children


def wait_for(process, limit):
    """(whether it ended, its seconds): CPU time and time in which nothing of it could run. The process remains to be waited
    for."""
    cpu, waited, at = 0, 0, time.monotonic()
    while cpu + waited < limit:
        time.sleep(0.05)
        if os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG):
            return True, cpu_seconds(stat_of(pathlib.Path(f"/proc/{process.pid}"))) + waited
        now = time.monotonic()
        if now - at >= 0.5:
            cpu, runs = activity(process.pid)
            waited += 0 if runs else now - at
            at = now
    return False, cpu + waited


def run_limited(command, seconds, folder, environment=None):
    """(exit status or None past the time limit, output, its seconds as wait_for counts them). Nothing that it started is
    left."""
    limits = ["prlimit", f"--as={MEMORY_BYTES}", f"--fsize={FILE_BYTES}", "--core=0"]
    with open(folder / "output", "w+b") as output:
        process = subprocess.Popen(limits + command, cwd=folder, stdin=subprocess.DEVNULL, stdout=output,
                                   stderr=subprocess.STDOUT, start_new_session=True, env=environment)
        ended, taken = wait_for(process, seconds)
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        status = process.wait()
        output.seek(0)
        return status if ended else None, output.read().decode("utf-8", "replace"), taken


@dataclasses.dataclass
class Program:
    """A test program as it is without a change."""
    seconds: float
    failing: list  # tests that fail here anyway and are left out


class Trial:
    """Builds and runs test programs in a scratch folder of its own, with or without a change."""

    def __init__(self, build, programs, folder, patience=PATIENCE):
        self.build, self.programs, self.folder, self.patience = build, programs, folder, patience

    def run_tests(self, path, selection, seconds, *options):
        """Runs a test program in an empty folder; (status, the tests that failed, seconds)."""
        place = self.folder / "t"  # short: paths are part of what tests print
        place.mkdir()
        environment = dict(os.environ, OMP_WAIT_POLICY="passive", TMPDIR=str(place),
                           OMP_NUM_THREADS=os.environ.get("OMP_NUM_THREADS", "2"),
                           XDG_CACHE_HOME=str(place / "cache"), RIDGE_PROGRAM=str(self.folder / "ridge"))
        if not (self.folder / "ridge").exists():
            del environment["RIDGE_PROGRAM"]
        command = [str(path), f"--gtest_filter={selection}", *options]
        status, output, taken = run_limited(command, seconds, place, environment)
        shutil.rmtree(place, ignore_errors=True)
        failed = list(dict.fromkeys(re.findall(r"^\[  FAILED  \] ([\w/.]+)", output, re.M)))
        started = re.findall(r"^\[ RUN      \] ([\w/.]+)", output, re.M)
        if status not in (0, None) and not failed and started:
            failed = started[-1:]  # the program ended in it
        return status, [name for name in failed if "." in name], taken

    def measure(self, name, left_out):
        """A program without a change. Tests that fail are left out from then on; None if it cannot be used."""
        path, failing = self.build.folder / name, list(left_out)
        while True:
            status, failed, seconds = self.run_tests(path, exclusion(failing), BASELINE_S)
            if status is None or status != 0 and not failed:
                return None
            again = [test for test in failed if self.fails_alone(path, test, BASELINE_S)]
            if not again:
                return Program(round(seconds, 1), failing)
            failing += again

    def fails_alone(self, path, test, seconds):
        return self.run_tests(path, test, seconds)[0] != 0

    def compile(self, mutant):
        """{object: mutated object}, or None if one does not compile."""
        root, text = self.build.root, (self.build.root / mutant.file).read_text("utf-8")
        changed = self.folder / mutant.file
        changed.parent.mkdir(parents=True)
        changed.write_text(mutant.change.apply(text), "utf-8")
        made = {}
        for object_ in self.build.objects[mutant.file]:
            made[object_] = str(self.folder / f"{len(made)}.o")
            command = self.build.compiled(object_, mutant.file, changed, made[object_])
            # Also files that include themselves, as Highway's do, find the changed text first.
            command[1:1] = [f"-I{self.folder / 'src'}", f"-fmacro-prefix-map={self.folder}={root}"]
            if not self.succeeds(command):
                return None
        return made

    def succeeds(self, command):
        return subprocess.run(command, cwd=self.build.folder, capture_output=True).returncode == 0

    def finding(self, name, path):
        """How a program finds the change, or "" if it passes."""
        program = self.programs[name]
        seconds, excluded = 10 + self.patience * program.seconds, list(program.failing)
        while True:
            status, failed, _ = self.run_tests(path, exclusion(excluded), seconds, "--gtest_fail_fast")
            short = name.removeprefix("tests/")
            if status is None:
                return f"{short}: time limit"
            if status == 0:
                return ""
            if not failed:
                return f"{short}: exit {status}"
            if self.fails_alone(path, failed[0], seconds):
                return f"{short}: {failed[0]}"
            excluded.append(failed[0])  # it passes alone: nothing to rely on

    def judge(self, mutant):
        """(outcome, by)"""
        objects = self.compile(mutant)
        if objects is None:
            return "not compiled", ""
        own = f"tests/{mutant.room}_test"
        for name in sorted(self.programs, key=lambda name: name != own):  # stable: by rank after its own
            path, program = self.folder / "test", self.folder / "ridge"
            commands = [self.build.relinked(name, objects, str(path))]
            if commands == [None]:
                continue  # it has nothing of the change
            if name == "tests/apps_test":
                commands.append(self.build.relinked("ridge", objects, str(program)))
            if not all(map(self.succeeds, commands)):
                return "not compiled", ""  # a missing instance of a template
            found = self.finding(name, path)
            if found:
                return "found", found
        return "survived", ""


def exclusion(tests):
    return "*" if not tests else "-" + ":".join(tests)


def files_of(room, root, build):
    """The files of a room that are changed, with at most a few objects to build."""
    found = set()
    for pattern in ROOMS[room][1].split():
        found.update(path.relative_to(root).as_posix() for path in (root / "src" / room).glob(pattern))
    return sorted(file for file in found
                  if file.endswith((".cc", ".h")) and not LEFT_OUT.search(file) and
                  0 < len(build.objects[file]) <= MOST_OBJECTS)


def sample_of(room, root, build, seed):
    """Changes of a room in random order, at most one of equal lines of a file: lines first, then a kind, then a change. The
    order is that of hashes of texts, so that edits change it only where they are."""
    def number(*texts):
        return hashlib.sha256(repr((seed, room, *texts)).encode()).digest()

    lines = collections.defaultdict(list)
    for file in files_of(room, root, build):
        text = (root / file).read_text("utf-8")
        rows = text.splitlines()
        for change in mutations.changes(text):
            lines[file, rows[change.line - 1].strip()].append(change)
    for file, row in sorted(lines, key=lambda key: number(*key)):
        yield Mutant(file, room, min(lines[file, row], key=lambda change: (number(file, row, change.kind),
                                                                           number(file, row, change.after))))


def sample(rooms, root, build, seed, count):
    """A sample over rooms by their weights. A smaller one is the beginning of a larger one."""
    turns = itertools.cycle([sample_of(room, root, build, seed) for room in rooms])
    weights = itertools.cycle([ROOMS[room][0] for room in rooms])
    chosen = []
    while len(chosen) < count:
        before = len(chosen)
        for _ in rooms:
            chosen += itertools.islice(next(turns), next(weights))
        if len(chosen) == before:
            break
    return chosen[:count]


def all_of(places, root):
    """Every change of the lines FILE:LINE."""
    for place in places:
        file, _, line = place.rpartition(":")
        for change in mutations.changes((root / file).read_text("utf-8")):
            if change.line == int(line):
                yield Mutant(file, pathlib.Path(file).parts[1], change)


def relocated(mutants, root):
    """Survivors of an earlier run, to be judged again as changes of the source of now; those that are none any more are gone."""
    for mutant in mutants:
        if mutant.outcome == "survived":
            path = root / mutant.file
            same = [change for change in mutations.changes(path.read_text("utf-8") if path.is_file() else "")
                    if (change.before, change.after) == (mutant.change.before, mutant.change.after)]
            mutant.outcome = "" if same else "gone"
            mutant.change = min(same, key=lambda change: abs(change.line - mutant.change.line), default=mutant.change)
    return mutants


def table(mutants):
    rows = [("room", "mutants", "not compiled", "gone", "equal", "found", "survived", "score")]
    for room in [*ROOMS, "all"]:
        counts = collections.Counter(each.outcome for each in mutants if each.outcome and room in (each.room, "all"))
        judged = counts["found"] + counts["survived"]
        if counts:
            rows.append((room, sum(counts.values()), counts["not compiled"], counts["gone"], counts["equal"], counts["found"],
                         counts["survived"], f"{counts['found'] / judged:.1%}" if judged else "-"))
    widths = [max(len(str(row[column])) for row in rows) for column in range(len(rows[0]))]
    aligned = [[str(cell).ljust(width) if column == 0 else str(cell).rjust(width)
                for column, (cell, width) in enumerate(zip(row, widths))] for row in rows]
    return "\n".join("  ".join(row).rstrip() for row in aligned)


def write_json(path, seed, programs, mutants):
    state = {"seed": seed, "programs": {name: dataclasses.asdict(each) for name, each in programs.items()},
             "mutants": [dataclasses.asdict(each) for each in mutants if each.outcome]}
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(state, indent=1), "utf-8")
    part.replace(path)


def read_json(path):
    """(programs, mutants) of an earlier run."""
    state = json.loads(path.read_text("utf-8"))
    mutants = [Mutant(**{**each, "change": mutations.Change(**each["change"])}) for each in state["mutants"]]
    return {name: Program(**each) for name, each in state["programs"].items()}, mutants


def measure_programs(build, scratch, pool, left_out):
    def measure(name):
        folder = scratch / name.rpartition("/")[2]
        folder.mkdir()
        program = Trial(build, {}, folder).measure(name, left_out)
        shutil.rmtree(folder)
        print(f"{name}: " + (f"{program.seconds:.1f} s" if program else "fails without a change and is left out"), flush=True)
        for test in program.failing[len(left_out):] if program else ():
            print(f"  {test} fails without a change and is left out")
        return program

    # The last ones take longest.
    measured = dict(zip(reversed(build.programs), pool.map(measure, reversed(build.programs))))
    return {name: measured[name] for name in build.programs if measured[name]}


def run(mutants, programs, build, scratch, pool, end, done, patience):
    """Judges mutants, beginning none after the time `end`; `done` is called after each."""
    def judge(number, mutant):
        if time.monotonic() > end:
            return
        folder, started = scratch / str(number), time.monotonic()
        folder.mkdir()
        try:
            mutant.outcome, mutant.by = Trial(build, programs, folder, patience).judge(mutant)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        mutant.seconds = round(time.monotonic() - started, 1)
        return mutant

    for future in concurrent.futures.as_completed([pool.submit(judge, *each) for each in enumerate(mutants)]):
        if future.result():
            done(future.result())


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default="build", help="folder of a finished build (default: build)")
    parser.add_argument("--count", type=int, default=300, help="changes to draw (default: 300)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--room", action="append", choices=ROOMS, help="draw from this room alone; may repeat")
    parser.add_argument("--only", nargs="+", metavar="FILE:LINE", help="every change of these lines instead of a sample")
    parser.add_argument("--without", nargs="+", default=[], metavar="ROOM",
                        help="leave these rooms' test programs out, for a first look; --again judges the survivors by all")
    parser.add_argument("--without-tests", nargs="+", default=[], metavar="PATTERN",
                        help="leave tests of these names (GoogleTest's patterns) out too, such as those that take long")
    parser.add_argument("--list", action="store_true", help="print the changes and do nothing")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="changes at a time (default: the CPUs)")
    parser.add_argument("--patience", type=float, default=PATIENCE, metavar="FACTOR",
                        help=f"a test program that takes so many times as much time of its own as without a change has found "
                             f"it (default: {PATIENCE})")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no change later than this after the start")
    parser.add_argument("--json", type=pathlib.Path, help="write the results so far to this file after each change")
    parser.add_argument("--again", type=pathlib.Path, metavar="JSON",
                        help="instead of a sample, that of an earlier run's file: judge its survivors again")
    parser.add_argument("--resume", type=pathlib.Path, metavar="JSON",
                        help="take results from an earlier run's file and do only the rest")
    return parser.parse_args()


def main():
    # A shell's background job and nohup ignore these. Tests send them, and a handler's signal is the default in a child.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)
    options, root = parse_arguments(), pathlib.Path(__file__).resolve().parents[1]
    end = time.monotonic() + options.seconds
    build, rooms = Build(options.build, root), options.room or list(ROOMS)
    if options.again:
        mutants = relocated(read_json(options.again)[1], root)
    elif options.only:
        mutants = list(all_of(options.only, root))
    else:
        mutants = sample(rooms, root, build, options.seed, options.count)
    if options.list:
        for mutant in mutants:
            print(mutant.text())
        return 0
    programs, earlier = read_json(options.resume) if options.resume else ({}, [])
    results, equal = {mutant.key: mutant for mutant in earlier}, read_equal(root)
    for mutant in mutants:
        old = results.get(mutant.key)
        if old:
            mutant.outcome, mutant.by, mutant.seconds = old.outcome, old.by, old.seconds
        if mutant.key in equal:
            mutant.outcome = "equal"

    def save():
        if options.json:
            write_json(options.json, options.seed, programs, mutants)

    def done(mutant):
        count = sum(1 for each in mutants if each.outcome)
        print(f"[{count}/{len(mutants)}] {mutant.outcome} {mutant.by} ({mutant.seconds} s) {mutant.text()}", flush=True)
        save()

    scratch = pathlib.Path(tempfile.mkdtemp(prefix="mutants-"))
    pool = concurrent.futures.ThreadPoolExecutor(options.jobs)
    try:
        left_out = {f"tests/{room}_test" for room in options.without}
        build.programs = [name for name in build.programs if name not in left_out]
        programs = programs or measure_programs(build, scratch, pool, options.without_tests)
        programs = {name: program for name, program in programs.items() if name not in left_out}
        if not programs:
            sys.exit("no test program can be used")
        save()
        run([each for each in mutants if not each.outcome], programs, build, scratch, pool, end, done, options.patience)
    finally:
        pool.shutdown(cancel_futures=True)
        shutil.rmtree(scratch, ignore_errors=True)
    survivors = [each for each in mutants if each.outcome == "survived"]
    print("\n" + table(mutants))
    left = sum(1 for each in mutants if not each.outcome)
    if left:
        print(f"{left} changes are left; go on with --resume")
    if survivors:
        print("\nsurvivors:\n" + "\n".join(each.text() for each in survivors))
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
