#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what the Python package costs beside the program: decode of a model, training steps, calls that do nothing.

    PYTHONPATH=build/python build-python/bin/python tools/python_overhead.py --ridge build/ridge MODEL [--rounds 5]

Program and package take turns, each in a process of its own with one thread. A short and a long run of each: the difference
of their CPU times over the difference of their tokens or steps has no start-up in it, and other programs on the machine
change it little. Prints the medians and the ratio of each round."""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import timeit

PROMPT = "Once upon a time, in a village by the sea,"  # the answer is longer than is asked for
STREAM = """
import sys, ridge
with ridge.load(sys.argv[1], device="cpu", threads=1, context=1024) as model:
    for piece in model.stream({prompt!r}, max_tokens=int(sys.argv[2])): pass
"""
TRAIN = """
import sys, ridge
with ridge.Trainer(preset="tiny", steps=int(sys.argv[2]), batch_size=4, seq_len=128, device="cpu", threads=1) as trainer:
    for step in trainer: pass
"""


def cpu_seconds(command):
    """User and system time of a process."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise SystemExit(f"{command} failed: {process.stderr.read().decode()}")
    return usage.ru_utime + usage.ru_stime


def each(command, counts):
    """CPU seconds for one token or step; `command` takes their number."""
    short, long = (cpu_seconds(command(count)) for count in counts)
    return (long - short) / (counts[1] - counts[0])


def compare(what, program, package, counts, rounds):
    ratios, figures = [], []
    for number in range(rounds):
        pair = [program, package] if number % 2 == 0 else [package, program]
        by = {command: each(command, counts) for command in pair}
        figures.append((by[program], by[package]))
        ratios.append(by[package] / by[program])
    ours, theirs = (statistics.median(column) for column in zip(*figures))
    print(f"{what}: program {ours * 1e3:.3f} ms, package {theirs * 1e3:.3f} ms of CPU, ratio {theirs / ours:.4f} of the medians; "
          f"rounds {', '.join(f'{ratio:.4f}' for ratio in ratios)}", flush=True)


def own_part(model, tokens, steps):
    """What the package itself adds, within one process: it stays small beside a token and a step whatever else runs."""
    import ridge
    with ridge.load(model, device="cpu", threads=1, context=1024) as loaded:
        stream = loaded.stream(PROMPT, max_tokens=tokens)
        next(stream)
        begin = time.thread_time()
        pieces = sum(1 for _ in stream)
        own = (time.thread_time() - begin) / pieces
        token = stream.result.decode_ns / 1e9 / (stream.result.tokens - 1)
        print(f"the caller's thread: {own * 1e6:.1f} us of CPU for each piece, {own / token:.3%} of the {token * 1e3:.2f} ms of a token")
    with ridge.Trainer(preset="tiny", steps=steps, batch_size=4, seq_len=128, device="cpu", threads=1) as trainer:
        outside, inside = [], []
        while True:
            begin = time.perf_counter()
            step = next(trainer, None)
            if step is None:
                break
            inside.append(step.ns / 1e9)
            outside.append(time.perf_counter() - begin - step.ns / 1e9)
        outside, inside = statistics.median(outside), statistics.median(inside)
        print(f"around a step: {outside * 1e6:.1f} us, {outside / inside:.3%} of its {inside * 1e3:.2f} ms")


def empty_calls(model):
    import ridge
    with ridge.load(model, device="cpu", threads=1, context=64) as loaded:
        tokenizer = loaded.tokenizer
        for what, call in (("model.vocabulary", lambda: loaded.vocabulary), ("len(tokenizer)", lambda: len(tokenizer))):
            best = min(timeit.repeat(call, number=100000, repeat=7)) / 100000
            print(f"{what}: {best * 1e9:.0f} ns, with a lambda's call")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a .gguf file or a folder")
    parser.add_argument("--ridge", required=True, type=pathlib.Path, help="the program")
    parser.add_argument("--rounds", type=int, default=5, help="turns of program and package")
    parser.add_argument("--tokens", type=int, nargs=2, default=(16, 80), help="of the short and the long decode")
    parser.add_argument("--steps", type=int, nargs=2, default=(5, 45), help="of the short and the long training")
    o = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        stream, train = pathlib.Path(folder, "stream.py"), pathlib.Path(folder, "train.py")
        stream.write_text(STREAM.format(prompt=PROMPT))
        train.write_text(TRAIN)
        compare("a token of a decode", lambda n: [o.ridge, "generate", o.model, PROMPT, "--max-tokens", str(n),
                                                  "--threads", "1", "--device", "cpu", "--context", "1024"],
                lambda n: [sys.executable, stream, o.model, str(n)], o.tokens, o.rounds)
        compare("a step of a training", lambda n: [o.ridge, "train", "--preset", "tiny", "--steps", str(n), "--warmup", "0", "--batch-size", "4",
                                                   "--seq-len", "128", "--threads", "1", "--device", "cpu", "--quiet"],
                lambda n: [sys.executable, train, "", str(n)], o.steps, o.rounds)
    own_part(o.model, o.tokens[1], o.steps[1])
    empty_calls(o.model)


if __name__ == "__main__":
    main()
