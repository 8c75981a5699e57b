#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times PyTorch on the shapes of `ridge bench shapes`, by turns with Ridge, and compares them.

    tools/torch_shapes.py build/ridge --turns 5 --threads 2 --out shapes.json

Each part of the list runs in Ridge, then in PyTorch, on the same machine with the same number of threads, and the whole list so
many times. PyTorch writes to results that exist where it can (out=), so that it does not pay for fresh pages. Where a call of it
takes less than 100 us, the time of the same call on one element is subtracted: what is left is the kernel. The ratio is Ridge's
median over PyTorch's. Ends with the ratios at the median and at the 95th percentile, and lists shapes over 1.3.
"""
import argparse
import json
import math
import statistics
import subprocess
import sys
import time

import torch
import torch.nn.functional as F

SAMPLE_S = 200e-6
OVERHEAD_BELOW_S = 100e-6
aten = torch.ops.aten


def fill(*shape, dtype, positive=False):
    """Normally distributed numbers; large tensors repeat a run, as Ridge's do."""
    count = math.prod(shape)
    run = torch.randn(min(count, (1 << 21) - 256))
    if positive:
        run = run.abs() + 0.1
    return run.to(dtype).repeat(-(-count // run.numel()))[:count].reshape(shape)


def pointwise(name, n, dtype):
    x = fill(n, dtype=dtype, positive=True)
    y = fill(n, dtype=dtype, positive=True)
    out = torch.empty_like(x)
    if name in ('add', 'sub', 'mul', 'div'):
        call = getattr(torch, name)
        return lambda: call(x, y, out=out)
    if name == 'scale':
        return lambda: torch.mul(x, 0.75, out=out)
    if name == 'silu':
        return lambda: aten.silu.out(x, out=out)
    if name == 'gelu_tanh':
        return lambda: aten.gelu.out(x, approximate='tanh', out=out)
    call = getattr(torch, name)
    return lambda: call(x, out=out)


def attention(s, form, dtype):
    q = fill(s['b'], s['t'], s['h'], s['e'], dtype=dtype).transpose(1, 2)
    k = fill(s['b'], s['t'], s['k'], s['e'], dtype=dtype).transpose(1, 2)
    v = fill(s['b'], s['t'], s['k'], s['e'], dtype=dtype).transpose(1, 2)
    causal = 'causal' in form
    grouped = s['h'] != s['k']
    if form.startswith('flash'):
        return lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=grouped)
    scale = s['e']**-0.5
    after = torch.ones(s['t'], s['t'], dtype=torch.bool).triu(1)

    def standard():
        group = s['h'] // s['k']
        keys = k.repeat_interleave(group, 1) if grouped else k
        values = v.repeat_interleave(group, 1) if grouped else v
        scores = torch.matmul(q, keys.transpose(2, 3)).mul_(scale)
        if causal:
            scores.masked_fill_(after, -math.inf)
        return torch.matmul(torch.softmax(scores, -1), values)

    return standard


def call_of(case, shape=None):
    """The call that computes the case in PyTorch; with `shape`, at other extents."""
    s = shape or case['shape']
    name, form = case['name'], case['form']
    dtype = torch.float32 if case['dtype'] == 'fp32' else torch.bfloat16
    if name == 'matmul' or name == 'gemv':
        n = s.get('n', 1)
        layout = form if name == 'matmul' else 'nt'
        a = fill(s['k'], n, dtype=dtype).t() if layout[0] == 't' else fill(n, s['k'], dtype=dtype)
        b = fill(s['m'], s['k'], dtype=dtype).t() if layout[1] == 't' else fill(s['k'], s['m'], dtype=dtype)
        out = torch.empty(n, s['m'], dtype=dtype)
        return lambda: torch.mm(a, b, out=out)
    if name == 'attention':
        return attention(s, form, dtype)
    if name in ('rms_norm', 'softmax', 'log_softmax', 'reduce_sum'):
        x = fill(s['n'], s['d'], dtype=dtype)
        if name == 'rms_norm':
            weight = fill(s['d'], dtype=dtype)
            return lambda: F.rms_norm(x, (s['d'],), weight, 1e-6)
        if name == 'reduce_sum':
            out = torch.empty(s['n'], dtype=dtype)
            return lambda: torch.sum(x, 1, out=out)
        out = torch.empty_like(x)
        call = aten._softmax.out if name == 'softmax' else aten._log_softmax.out
        return lambda: call(x, 1, False, out=out)
    return pointwise(name, s['n'], dtype)


def median_s(call, budget_s):
    """As Ridge times: three warm-ups, samples of 200 us at least, 7 to 50 of them within the budget."""

    def sample(repeats):
        begin = time.perf_counter()
        for _ in range(repeats):
            call()
        return (time.perf_counter() - begin) / repeats

    one = sample(1)
    for _ in range(2):
        if one < budget_s:
            one = sample(1)
    repeats = max(1, round(SAMPLE_S / max(one, 1e-9)))
    samples = []
    start = time.perf_counter()
    while len(samples) < 50:
        spent = time.perf_counter() - start
        if samples and spent > (3 if len(samples) < 7 else 1) * budget_s:
            break
        samples.append(sample(repeats))
    return statistics.median(samples)


def overhead_s(case, cache):
    """The time of the call on one element or row."""
    key = (case['name'], case['form'], case['dtype'])
    if key not in cache:
        tiny = {letter: 1 for letter in case['shape']}
        cache[key] = median_s(call_of(case, tiny), 0.02)
    return cache[key]


def ridge_cases(o, skip, count):
    command = [o.ridge, 'bench', 'shapes', '--seed', str(o.seed), '--skip', str(skip), '--count', str(count), '--json',
               '--device', 'cpu', '--threads', str(o.threads), '--seconds', str(o.seconds)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)['cases']


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('ridge')
    p.add_argument('--seed', type=int, default=27)
    p.add_argument('--count', type=int, default=200)
    p.add_argument('--skip', type=int, default=0)
    p.add_argument('--part', type=int, default=10, help='shapes between two turns')
    p.add_argument('--turns', type=int, default=5)
    p.add_argument('--threads', type=int, default=2)
    p.add_argument('--seconds', type=float, default=0.05, help='for the samples of a shape in a turn')
    p.add_argument('--out', help='write all times as JSON; times that it has already count as turns before')
    o = p.parse_args()
    torch.set_num_threads(o.threads)
    torch.set_grad_enabled(False)
    try:
        rows = json.load(open(o.out)) if o.out else {}
    except FileNotFoundError:
        rows = {}
    overheads = {}
    for turn in range(o.turns):
        for skip in range(o.skip, o.skip + o.count, o.part):
            count = min(o.part, o.skip + o.count - skip)
            for at, case in enumerate(ridge_cases(o, skip, count)):
                row = rows.setdefault(str(skip + at), {
                    'name': case['name'], 'shape': case['shape'], 'form': case['form'], 'kind': case['phase'],
                    'dtype': case['dtype'], 'bytes': case['bytes'], 'predicted_s': case['predicted_ns'] * 1e-9,
                    'refused': case['refused'], 'ridge_s': [], 'torch_s': []})
                if case['refused']:
                    continue
                row['ridge_s'].append(case['median_ns'] * 1e-9)
                taken = median_s(call_of(case), o.seconds)
                if taken < OVERHEAD_BELOW_S:
                    less = overhead_s(case, overheads)
                    row['overhead_s'] = less
                    taken = max(taken - less, 0.02 * taken)
                row['torch_s'].append(taken)
            print(f'turn {turn + 1}, {skip + count} shapes', file=sys.stderr)
            if o.out:
                json.dump(rows, open(o.out, 'w'), indent=1)
    ratios = []
    for row in rows.values():
        if row['ridge_s'] and row['torch_s']:
            row['ratio'] = statistics.median(row['ridge_s']) / statistics.median(row['torch_s'])
            ratios.append((row['ratio'], row))
    print(f'PyTorch {torch.__version__}, {o.threads} threads, {len(ratios)} shapes, '
          f'{max(len(row["ridge_s"]) for row in rows.values())} turns')
    for kind in ['all'] + sorted({row['kind'] for _, row in ratios}):
        own = [ratio for ratio, row in ratios if kind in ('all', row['kind'])]
        print(f'{kind:10} {len(own):4} shapes: time ratio {statistics.median(own):.2f} in the median, '
              f'{percentile(own, 0.95):.2f} at the 95th percentile')
    for ratio, row in sorted(ratios, key=lambda each: -each[0]):
        if ratio <= 1.3:
            break
        extents = ','.join(f'{letter}={value}' for letter, value in row['shape'].items())
        print(f'{ratio:6.2f}  {row["name"]} {row["form"]} {row["dtype"]} {extents}: '
              f'{1e6 * statistics.median(row["ridge_s"]):.1f} us, PyTorch {1e6 * statistics.median(row["torch_s"]):.1f} us')


if __name__ == '__main__':
    main()
