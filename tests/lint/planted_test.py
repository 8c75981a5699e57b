#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the lint tests: each planted violation must be found at its place, a clean tree must pass, a waiver must count, and
a lint that finds nothing to check must fail."""
import pathlib
import subprocess
import sys
import tempfile

LICENCE = "// SPDX-License-Identifier: Apache-2.0\n"
TAG = LICENCE + "// This is a file.\n"
LONG = "void f() {\n" + "  g();\n" * 120 + "}\n"
PASS = "Graph run_{}(const Graph& graph, PassContext& context) {{\n}}\n"
BACKEND_PASS = "Graph run_{}(const Graph& graph,\n              passes::PassContext&) {{\n}}\n"
OP = "struct {1}Op {{\n  int n;\n  static Op declaration() {{ return {{.name = \"{0}\"}}; }}\n}};\n"
MADE = "const Op& {0}_op() {{ return op_from<{1}Op>(); }}\n"
OPS = "#define RIDGE_OPS(X) \\\n  X(rope) \\\n  X(softmax_cross_entropy)\n"
MADE_BELOW = "const Op& {0}_op() {{\n  return op_from<{1}Op>();\n}}\n"
PASSES = """#define RIDGE_PASSES(ALL, CPU, CUDA)                                                         \\
  ALL(merge_qkv, kForward, kBoth, fused, "merge the q, k and v projections into one GEMM", "") \\
  CUDA(native_gemm, kStep, kBoth, kernels,                                                     \\
       "run fp32 GEMMs as sums of bf16 pieces on native Hopper kernels", "")
"""
RUN = """```
date: 2026-01-02
machine: two cores
versions: PyTorch 2.15.0
commit: unknown
topic: a step
command: ridge lab
command: ridge train
```
456 us a step.
"""
RUNS = """# Runs

Each file is one run, newest first. [results.md](../results.md) has the current figure of each claim. `tools/runs_index.py` writes this
table from the keys at the start of each file: date, machine, versions, commit, topic, command (one line each; `command` may repeat).

| date | topic | machine | file |
| --- | --- | --- | --- |
| 2026-01-02 | a step | two cores | [step](2026-01-02-step.md) |
"""
ROOMS = """# Rooms
backends/cuda/kernels 10
backends 300: kernels of two backends
base 20
graph 200
ops 100
passes 100
apps 100
"""
COVERAGE = """# Coverage

| row | to redo it | what it shows |
| --- | --- | --- |
| A1 | `ridge bench op copy --counts` | `123` bytes. |
| A2 | No command: words. | - |
| B1 | `ridge machine` | This machine. |
"""
GUIDE = """# A guide

## 1. Bytes

Are there 123 of them?

```console
$ ridge bench op copy --shape n=200,d=3 --counts
bytes  4,800
```

200 rows are 4,800 bytes, in `3` columns; llama-270M, fp32 and 12 of anything are no figures. On a GPU
they took 456 us ([run](../runs/2026-01-02-step.md)).

## Notes

999 is a note.
"""
SENTENCES = """// A node is one step, as which the planner sees it and
// of which a graph has many. Offer it: the word is no "Of".

int a;      // it is the sum
            // of b and c
string b = "// Of it", c = R"(
// What it is)", d = "'";  // 'Often' is a word
string a_long_string = "which may be longer than 100 columns, since clang-format breaks none and it is no comment";
"""
REWRITER = "class Rewriter {\n public:\n" + "  void f(int n = g({}));\n" * 14 + "};\n"
# A has 15 data members, b_ to p_: one too many.
MEMBERS = """class A final : public B<int> {{
 public:
  enum class Kind {{ kA, kB }};
  using Call = std::function<void(int)>;
  struct Pair {{
    int first = 0, second = 0;
  }};
  static constexpr int kMost = 2;
  static A made();
  explicit A(int b) : b_{{b}}, c_({{}}) {{}}
  ~A() {{ close(); }}
  A(A&&) = default;
  A& operator=(A&&) = default;
  bool operator<(const A& other) const {{ return b_ < other.b_; }}
  std::vector<int> list(int a, Call call = {{}}) const;
  {0}

 private:
  int b_ = 0, c_{{f(1, 2)}}, d_[2] = {{1, 2}};
  std::map<int, std::vector<int>> e_, f_;
  std::function<void(int, int)> g_ = [](int a, int b) {{ return a < b; }};
  void (B::*h_)(int) const = nullptr;
  Kind i_ = Kind::kA;
  std::unique_ptr<int> j_, k_, l_;
  uint8_t m_ : 4, n_ : 4;
  alignas(64) std::atomic<int> o_{{0}};
  [[maybe_unused]] bool p_ = 1 > 0;
}};
"""
# A plain record may have any number of them.
RECORD = "struct Record {\n" + "".join(f"  int a{i} = 0;\n" for i in range(20)) + "  Record() {}\n  int sum() const;\n};\n"
EQUAL = "src/base/middle.cc: return n / 2 +\nbecomes: return n * 2 +\nbecause: n is 0.\n"
CLEAN = {
    "CMakeLists.txt": "# " + LICENCE[3:] + "ridge_room(graph DEPENDS base)\n",
    "README.md": "`ridge lab` runs the ladder.\n",
    "docs/architecture.md": "| rank | room |\n" + "".join(
        f"| {rank} | `{room}/` |\n" for rank, room in [(0, "base"), (1, "graph"), (1, "files"), (2, "ops"), (5, "passes"),
                                                       (6, "report"), (6, "backends"), (11, "apps")]),
    "docs/glossary.md": "| term | what it means | refused |\n| enqueue time | of a launch | `told_ns` |\n"
    "| output queue | of a request | `Outbox` | `src/serve/` |\n",
    "src/base/shape.h": TAG,
    "src/graph/graph.cc": TAG + '#include <fmt/format.h>\n#include "base/shape.h"\n#include "graph/graph.h"\n',
    "src/backends/cpu/kernels/softmax/softmax_online.cc":
        TAG + '#include "base/shape.h"\n#include "backends/cpu/kernels/tiles.h"\n#include "backends/kernels/rows.h"\n' + LONG,
    "src/graph/node.h": LICENCE + SENTENCES,
    "src/graph/rewriter.h": TAG + REWRITER + RECORD,
    "tests/mutants_equal.txt": "# Comment.\n\n" + EQUAL,
    "src/base/middle.cc": TAG + "int middle(int n) {\n  return n / 2 +\n         1;\n}\n",
    "src/ops/registry.h": TAG + OPS,
    "src/ops/rope.cc": TAG + OP.format("rope", "Rope") + MADE.format("rope", "Rope"),
    "src/ops/loss.cc": TAG + OP.format("softmax_cross_entropy", "Loss") + MADE_BELOW.format("softmax_cross_entropy", "Loss"),
    "src/passes/passes.h": TAG + PASSES,
    "src/passes/merge_qkv.cc": TAG + PASS.format("merge_qkv"),
    "src/passes/differentiate.cc": TAG,
    "src/backends/cuda/passes/native_gemm.cc": TAG + BACKEND_PASS.format("native_gemm"),
    "tests/passes/native_gemm_test.cc": TAG,
    "tests/golden/native_gemm.before.txt": "",
    "tests/golden/native_gemm.after.txt": "",
    "tests/passes/merge_qkv_test.cc": TAG + "TEST(MergeQkv, Golden) {\n  f(T{1}, {2});\n}\n",
    "tests/golden/merge_qkv.before.txt": "",
    "tests/golden/merge_qkv.after.txt": "",
    "src/apps/main.cc": TAG,
    "src/apps/lab.cc": TAG + 'fmt::print("{}: {}\\n", terminal_safe(setting.str()), title.size());\n'
                       'throw usage_error("[{}]", path.string());\n',
    "src/apps/presets.cc": LICENCE + "// Names of presets. Not a subcommand.\n",
    "src/backends/cuda/kernels/gemm/tiles.h": TAG,
    "tests/lint/room_lines.txt": ROOMS,
    "docs/guides/a.md": GUIDE,
    "docs/guides/coverage.md": COVERAGE,
    "tests/data/exercises.txt": "A1\nA2\nB1\n",
    "docs/results.md": "[a step](runs/2026-01-02-step.md)\n",
    "docs/runs/2026-01-02-step.md": RUN,
    "docs/runs/README.md": RUNS,
}
# (script, file to plant, its text, what must be printed)
PLANTED = [
    ("layers", "src/graph/node.cc", TAG + '#include "ops/rope.h"\n', "src/graph/node.cc:3: graph (rank 1)"),
    ("layers", "src/report/a.cc", TAG + '\n# include "backends/a.h"\n', "src/report/a.cc:4: report (rank 6)"),
    ("layers", "src/base/error.h", TAG + '#include "boost/asio.h"\n', "src/base/error.h:3:"),
    ("layers", "src/graph/node.cc", TAG + '#include "node.h"\n', "src/graph/node.cc:3:"),
    ("layers", "src/tools/x.cc", TAG, "src/tools/x.cc:1: lies in no known room"),
    ("layers", "src/backends/cpu/kernels/k.cc", TAG + '#include "graph/graph.h"\n', "kernels/k.cc:3: a kernel"),
    ("layers", "src/backends/kernels/k.h", TAG + '#include "backends/backend.h"\n', "k.h:3: a kernel"),
    ("layers", "src/backends/cuda/kernels/k.cu", TAG + '#include "backends/cuda/device.h"\n', "k.cu:3: a kernel"),
    ("layers", "src/backends/cuda/kernels/gemm/k.cu", TAG + '#include "backends/cpu/kernels/tiles.h"\n', "k.cu:3: a kernel"),
    ("layers", "src/backends/cuda/passes/p.cc", TAG + '#include "backends/cuda/skinny_gemm.h"\n', "p.cc:3: passes are"),
    ("layers", "CMakeLists.txt", "\nridge_room(base DEPENDS graph)\n", "CMakeLists.txt:2: target base"),
    ("sizes", "src/graph/node.cc", TAG + "//\n" * 600, "src/graph/node.cc:1:"),
    ("sizes", "src/graph/node.cc", TAG + "namespace {\n" + LONG + "}\n", "src/graph/node.cc:4: src/graph/node.cc f"),
    ("sizes", "src/graph/node.h", TAG + "class A {\n public:\n  A() : a_{1} " + LONG[9:] + "};\n",
     "node.h:5: src/graph/node.h A"),
    ("sizes", "src/backends/cpu/kernels/k.cc", TAG + LONG + LONG.replace("{\n", "{\n" + " g();\n" * 40), "k.cc:125:"),
    ("sizes", "tools/plot.py", "def f():\n" + "    g()\n" * 101, "tools/plot.py:1:"),
    ("sizes", "tests/lint/waivers.txt", "file src/graph/graph.cc: it is long\n",
     "waivers.txt:1: the waiver of file src/graph/graph.cc is not needed"),
    ("sizes", "tests/lint/waivers.txt", "files src/graph/graph.cc: it is long\n",
     "waivers.txt:1: files is no rule of a lint"),
    ("sizes", "tests/lint/room_lines.txt", ROOMS.replace("graph 200", "graph 50"),
     "room_lines.txt:5: src/graph has 57 lines, at most 50"),
    ("sizes", "src/backends/cuda/kernels/k.cu", TAG * 6, "room_lines.txt:2: src/backends/cuda/kernels has 14 lines, at most 10"),
    ("sizes", "src/report/page/a.js", TAG, "room_lines.txt:1: has no row for src/report, which has 2 lines"),
    ("sizes", "tests/lint/room_lines.txt", ROOMS + "report 100: a new chart\n", "room_lines.txt:9: src/report has no files"),
    ("sizes", "tests/lint/room_lines.txt", ROOMS + "report many\n", "room_lines.txt:9: is not ROOM LINES"),
    ("classes", "src/graph/node.cc", TAG + "class A {\n" + "  int a() const;\n" * 199 + "};\n", "node.cc:3: A has 201 lines"),
    ("classes", "src/graph/node.cc", TAG + "void f() {\n  struct A {\n" + "  int a;\n" * 199 + "  };\n}\n",
     "node.cc:4: A has 201 lines"),
    ("classes", "src/graph/node.cc", TAG + "class A {\n  void f();\n};\nvoid A::f() {\n" + "  g();\n" * 196 + "}\n",
     "node.cc:3: A has 201 lines"),
    ("classes", "src/graph/rewriter_runs.cc", TAG + "void Rewriter::run() {\n" + "  g();\n" * 190 + "}\n",
     "src/graph/rewriter.h:3: Rewriter has 209 lines"),
    ("classes", "src/apps/lab.cc", TAG + "struct A {\n" + "  int a;\n" * 79 + "};\n", "lab.cc:3: A has 81 lines, at most 80"),
    ("classes", "src/graph/node.h", TAG + MEMBERS.format("void set(int value) { b_ = value; }"), "node.h:3: A has 15 data members"),
    ("classes", "src/graph/node.h", TAG + MEMBERS.format("bool operator()(int);").replace("_", ""), "node.h:3: A has 15 data members"),
    ("classes", "src/graph/node.h", TAG + MEMBERS.format(""), "node.h:3: A has 15 data members"),
    ("classes", "src/apps/lab.cc", TAG + "#include <nlohmann/json.hpp>\n", "src/apps/lab.cc:3: names a type of nlohmann"),
    ("classes", "src/apps/lab.cc", TAG + "// Json.\nreport::Json list; // {\n", "src/apps/lab.cc:4: names a type of nlohmann"),
    ("comments", "src/graph/node.cc", TAG + "\n// Of each node.\n", 'node.cc:4: a comment is a sentence, not "Of ..."'),
    ("comments", "src/graph/node.cc", LICENCE + "// What a node is.\n", "src/graph/node.cc:2: a comment"),
    ("comments", "src/graph/node.cc", TAG + "int a;  // that of b\n", 'src/graph/node.cc:3: a comment is a sentence, not "that'),
    ("comments", "tests/graph/node_test.cc", TAG + "int a = '/';  /* whose end it is */\n", "node_test.cc:3: a comment"),
    ("comments", "tests/graph/a.h", TAG + "f(\"//\");  // Whom it serves.\n", "a.h:3: a comment"),
    ("comments", "src/graph/node.cc", TAG + "int a;  // it is one\n// In which it lies.\n", "src/graph/node.cc:4: a comment"),
    ("comments", "src/graph/node.cc", TAG + "\n/// With which it runs.\n", "src/graph/node.cc:4: a comment"),
    ("comments", "src/graph/node.cc", TAG + "int a;\n// As which it counts.\n", "src/graph/node.cc:4: a comment"),
    ("comments", "src/graph/node.cc", TAG + "\n// " + "a" * 98 + "\n", "node.cc:4: a comment ends in column 101, at most 100"),
    ("comments", "src/graph/node.cc", TAG + "f();" + "a" * 90 + ";  // sum\n", "node.cc:3: a comment ends in column 103"),
    ("names", "src/graph/graph_utils.cc", TAG, "src/graph/graph_utils.cc:1:"),
    ("names", "src/graph/helpers/a.cc", TAG, "src/graph/helpers/a.cc:1:"),
    ("names", "src/graph/node.h", TAG + "class NodeManager {\n", "src/graph/node.h:3:"),
    ("names", "src/backends/cpu/kernels/softmax_v2.cc", TAG, "softmax_v2.cc:1: a kernel"),
    ("names", "src/graph/node.cc", "// Node.\n" + TAG, "src/graph/node.cc:1: the first line"),
    ("names", "src/graph/node.h", LICENCE + "#pragma once\n", "src/graph/node.h:2: no sentence after the tag"),
    ("names", "tools/run.sh", "#!/bin/sh\necho\n", "tools/run.sh:1: the first line"),
    ("names", "src/graph/node.cc", TAG + "int64_t told_ns = 0;\n", 'src/graph/node.cc:3: "told_ns" is replaced'),
    ("names", "src/serve/request.h", TAG + "class Outbox {\n", 'src/serve/request.h:3: "Outbox" is replaced'),
    ("names", "src/graph/node.cc", TAG + "// The Workshop's files.\n", 'node.cc:3: "Workshop" belongs in src/courses/'),
    ("names", "src/report/exhibit.cc", TAG, 'exhibit.cc:1: "exhibit" belongs in src/courses/'),
    ("names", "src/bench/a.cc", TAG + 'int notebook_bytes = f("mi210");\n', 'a.cc:3: "notebook" belongs in src/courses/'),
    ("names", "docs/a.md", "See /" + "work/x.\n", "docs/a.md:1: holds a path"),
    ("names", "src/graph/node.cc", TAG + "// See issue" + " #12.\n", "src/graph/node.cc:3: holds an issue number"),
    ("names", "src/passes/merge_qkv.cc", TAG + 'if (node.op->name == "rope") {\n', "merge_qkv.cc:3: a pass compares"),
    ("names", "src/backends/cpu/passes/a.cc", TAG + 'x = "rope" != producer->op->name;\n', "a.cc:3: a pass compares"),
    ("names", "src/backends/cuda/passes/a.cc", TAG + 'node.op->name.starts_with("r");\n', "a.cc:3: a pass compares"),
    ("lists", "src/ops/glu.cc", TAG + MADE.format("glu", "Glu"), "src/ops/glu.cc:3: X(glu)"),
    ("lists", "src/ops/glu.cc", TAG + OP.format("glu", "Glu"), "src/ops/glu.cc:3: GluOp declares an op"),
    ("lists", "src/ops/registry.h", TAG + OPS + "  X(glu)\n", "src/ops/registry.h:6: no file of src/ops makes glu_op()"),
    ("lists", "src/ops/registry.h", TAG, "src/ops/registry.h:1: has no row X(NAME)"),
    ("lists", "src/passes/recompute.cc", TAG + PASS.format("recompute"), "src/passes/recompute.cc:3: ALL(recompute, ...) is not"),
    ("lists", "src/backends/cpu/passes/native_gemm.cc", TAG + BACKEND_PASS.format("native_gemm"),
     "src/backends/cpu/passes/native_gemm.cc:3: CPU(native_gemm, ...) is not"),
    ("lists", "src/backends/cuda/passes/native_gemm.cc", TAG,
     "passes.h:5: src/backends/cuda/passes/native_gemm.cc does not define"),
    ("lists", "src/passes/passes.h", TAG + PASSES.replace("CUDA(n", "CPU(n"),
     "src/backends/cpu/passes/native_gemm.cc does not define"),
    ("lists", "src/passes/passes.h", TAG + PASSES + "  ALL(lora,\n", "passes.h:7: lora has no tests/passes/lora_test.cc"),
    ("lists", "src/passes/passes.h", TAG + PASSES + "  ALL(lora,\n", "passes.h:7: lora has no tests/golden/lora.before.txt"),
    ("lists", "src/passes/passes.h", TAG + PASSES + "  ALL(lora,\n", "passes.h:7: lora has no tests/golden/lora.after.txt"),
    ("lists", "src/passes/passes.h", TAG, "src/passes/passes.h:1: has no row of a pass"),
    ("lists", "tests/golden/lora.before.txt", "", "lora.before.txt:1: is the golden graph of no pass"),
    ("lists", "src/apps/explain.cc", TAG, 'src/apps/explain.cc:1: README.md has no line on "ridge explain"'),
    ("runs", "docs/runs/2026-01-02-step.md", RUN.replace("versions: PyTorch 2.15.0\n", ""), "step.md:1: has no key versions"),
    ("runs", "docs/runs/2026-01-03-step.md", RUN, "docs/runs/2026-01-03-step.md:1: has the date 2026-01-02"),
    ("runs", "docs/runs/step.md", RUN, "docs/runs/step.md:1: is not named"),
    ("runs", "docs/runs/README.md", RUNS.replace("a step", "steps"), "docs/runs/README.md:1: is outdated"),
    ("guides", "docs/guides/a.md", GUIDE.replace("are 4,800", "are 4,801"), "docs/guides/a.md:12: states 4,801"),
    ("guides", "docs/guides/a.md", GUIDE.replace("in `3`", "in `5`"), "docs/guides/a.md:12: states 5,"),
    ("guides", "docs/guides/a.md", GUIDE.replace("456", "457"), "docs/guides/a.md:13: states 457,"),
    ("guides", "docs/guides/a.md", GUIDE.replace("## Notes", "![a](a.svg)"), "docs/guides/a.md:15: shows a.svg"),
    ("guides", "docs/guides/a.md", "# A guide\n", "docs/guides/a.md:1: has no command"),
    ("guides", "docs/guides/coverage.md", COVERAGE.replace("| A2 |", "| A3 |"), "docs/guides/coverage.md:1: A2 has 0 rows"),
    ("guides", "docs/guides/coverage.md", COVERAGE.replace("| A2 |", "| A1 |"), "docs/guides/coverage.md:1: A1 has 2 rows"),
    ("guides", "docs/guides/coverage.md", COVERAGE.replace("No command: words", "-"), "docs/guides/coverage.md:6: A2 has neither"),
    ("guides", "docs/guides/coverage.md", COVERAGE.replace(" --counts", ""), "docs/guides/coverage.md:5: A1 states 123"),
    ("guides", "docs/guides/coverage.md", COVERAGE.replace("| A2 |", "| B2 |").replace("| B1 |", "| A2 |").replace("| B2 |", "| B1 |"),
     "docs/guides/coverage.md:1: the rows are not in the order"),
    ("foreign", "src/apps/lab.cc", TAG + 'fmt::print("{}\\n", 1,\n           place.title);\n',
     "src/apps/lab.cc:4: place.title may be"),
    ("foreign", "src/apps/lab.cc", TAG + 'table.add({"a, b", run.setting.str()});\n', "lab.cc:3: run.setting.str() may be"),
    ("foreign", "src/report/a.cc", TAG + 'text += fmt::format("{}", ok ? folder.path().string() : "");\n', "a.cc:3: folder"),
    ("foreign", "src/report/a.cc", TAG + 'Table table({{"run " + setting.str(), Align::kLeft}});\n', "a.cc:3: setting.str()"),
    ("mutants", "tests/mutants_equal.txt", EQUAL.replace("n is 0.", ""), "mutants_equal.txt:1: the third line is not"),
    ("mutants", "tests/mutants_equal.txt", "\n" + EQUAL.replace("* 2", "% 2"), "mutants_equal.txt:2: no change of src/base/middle"),
    ("mutants", "src/base/middle.cc", TAG, "mutants_equal.txt:3: no change of src/base/middle.cc"),
    ("runs", "docs/results.md", "\nSee runs/2026-01-04-step.md.\n", "docs/results.md:2: links to docs/runs/2026-01-04-step.md"),
]
# (script, files to plant, the waivers, what must be printed; nothing: the lint must pass)
LONG_GRAPH = {"src/graph/graph.cc": TAG + LONG}
FRAGMENTS = {"src/graph/graph.cc": TAG + "int a;  // of b\nint b;  // it is " + "a" * 90 + "\n"}
JSON_LINES = {"src/apps/lab.cc": TAG + "nlohmann::json a;\n" * 2}
COURSES = {"src/courses/a.cc": TAG + "// A notebook.\n", "src/apps/a.cc": TAG + '    {"exhibit", "demo"},\n'}
NO_TEST = {"src/passes/passes.h": TAG + PASSES + "  ALL(lora,\n", "src/passes/lora.cc": TAG + PASS.format("lora")}
WAIVED = [
    ("sizes", LONG_GRAPH, "function src/graph/graph.cc f: a table\n", ""),
    ("sizes", LONG_GRAPH, "function src/graph/graph.cc f:\n",
     "waivers.txt:1: the waiver of function src/graph/graph.cc f gives no"),
    ("sizes", LONG_GRAPH, "function src/graph/graph.cc g: a table\n", "src/graph/graph.cc:3: src/graph/graph.cc f has"),
    ("comments", FRAGMENTS, "comment src/graph/graph.cc 2: to be reworded\n", ""),
    ("comments", FRAGMENTS, "comment src/graph/graph.cc: to be reworded\n", "src/graph/graph.cc:3: a comment is a sentence"),
    ("comments", FRAGMENTS, "comment src/graph/graph.cc 3: to be reworded\n",
     "graph.cc is for 3 violations, there are 2 (--lower)"),
    ("classes", JSON_LINES, "json src/apps/lab.cc 2: moves to report/\n", ""),
    ("classes", JSON_LINES, "json src/apps/lab.cc: moves to report/\n", "src/apps/lab.cc:4: names a type of nlohmann"),
    ("classes", JSON_LINES, "json src/apps/lab.cc 3: moves to report/\n", "lab.cc is for 3 violations, there are 2"),
    ("names", COURSES, "", ""),
    ("lists", NO_TEST, "pass lora 3: no test\n", ""),
    ("lists", NO_TEST, "pass lora 2: no test\n", "passes.h:7: lora has no tests/passes/lora_test.cc"),
    ("lists", NO_TEST, "pass lora 4: no test\n", "waivers.txt:1: the waiver of pass lora is for 4 violations, there are 3"),
]
SCRIPTS = ("layers", "sizes", "classes", "comments", "names", "lists", "runs", "guides", "foreign", "mutants")


def write(root, tree):
    """Writes a tree of {path: text} below the root."""
    for name, text in tree.items():
        path = pathlib.Path(root, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


def run(script, root, *options):
    """The exit status and the output of a lint script."""
    command = [sys.executable, pathlib.Path(__file__).parent / f"{script}_test.py", root, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def lint(script, tree):
    """The exit status and the output of a lint script on a tree of {path: text}."""
    with tempfile.TemporaryDirectory() as root:
        write(root, tree)
        return run(script, root)


def lowered(script, tree, waivers):
    """What --lower makes of the waivers, and the exit status of the lint after it."""
    with tempfile.TemporaryDirectory() as root:
        write(root, {**tree, "tests/lint/waivers.txt": waivers})
        status, _ = run(script, root, "--lower")
        return pathlib.Path(root, "tests/lint/waivers.txt").read_text("utf-8"), status


def main():
    failures = 0
    for script in SCRIPTS:
        status, output = lint(script, CLEAN)
        if status != 0:
            failures += 1
            print(f"{script}: the clean tree failed:\n{output}")
    for script, name, text, expected in PLANTED:
        status, output = lint(script, {**CLEAN, name: text})
        if status != 1 or expected not in output:
            failures += 1
            print(f"{script}: {name} should give status 1 and '{expected}'; got {status} and:\n{output}")
    for script, tree, waiver, expected in WAIVED:
        status, output = lint(script, {**CLEAN, **tree, "tests/lint/waivers.txt": waiver})
        if status != (1 if expected else 0) or expected not in output:
            failures += 1
            print(f"{script}: with the waiver '{waiver}' expected '{expected}'; got {status} and:\n{output}")
    lower = lowered("comments", {**CLEAN, **FRAGMENTS},
                    "comment src/base/middle.cc: gone\n# Next\ncomment src/graph/graph.cc 5: late\n")
    if lower != ("# Next\ncomment src/graph/graph.cc 2: late\n", 0):
        failures += 1
        print(f"--lower should drop a waiver and lower another to 2; got {lower}")
    for script in SCRIPTS:
        status, output = lint(script, {"docs/architecture.md": "", "src/apps/main.cc": ""})
        if status != 1 or "checks nothing" not in output:
            failures += 1
            print(f"{script}: a tree in which it finds nothing to check should fail; got {status} and:\n{output}")
    print(f"planted_test: {len(PLANTED)} violations planted, {failures} failures")
    sys.exit(1 if failures else 0)


main()
