#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures next to busy loops, then on the quiet machine, and checks that the first leaves no trace in the second.

    tools/busy_machine.py build/ridge --out busy.json

A fresh cache folder. While an endless loop runs for each core, `ridge lab`, `machine`, `plan` and `bench` run; then the loops end
and the same commands run again. Passes if all commands succeed in time, the quiet predictions of every level are within 25% of
what was measured, the quiet ceilings are not provisional, and no share of a ceiling is over 120% unless a cache explains it.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

LARGEST_ERROR = 0.25
LARGEST_SHARE = 1.2


def run(ridge, words, env):
    begin = time.monotonic()
    done = subprocess.run([ridge, *words], env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f'ridge {" ".join(words)}: exit code {done.returncode}\n{done.stderr}')
    return {'command': 'ridge ' + ' '.join(words), 'seconds': round(time.monotonic() - begin, 1),
            'stderr': [line for line in done.stderr.splitlines() if line.strip()], 'out': json.loads(done.stdout)}


def lab_rows(lab):
    """Of each level: median of the step, its prediction's error; the shares of its MFU."""
    return [{'level': r['setting']['level'], 'step_ns': r['step']['median_ns'],
             'predicted_error': r['predicted_step_ns'] / r['step']['median_ns'] - 1, 'mfu': r['mfu']}
            for r in lab['runs']]


def over_limits(lab):
    """Ops of GEMMs whose rate is above the peak of their type by more than LARGEST_SHARE."""
    peak = max(lab['machine']['peak_flops_per_s'].values())
    return [f"{row['name']} at {row['flops_per_s'] / peak:.0%}" for r in lab['runs']
            for row in r.get('operations', {}).get('by_op', []) if row.get('flops_per_s', 0) > LARGEST_SHARE * peak]


def commands(folder):
    return {'lab tiny': ['lab', '--preset', 'tiny', '--json', '--out', f'{folder}/tiny'],
            'machine': ['machine', '--json'],
            'lab small': ['lab', '--preset', 'small', '--json', '--out', f'{folder}/small'],
            'plan': ['plan', '--preset', 'small', '--json'],
            'bench': ['bench', 'op', 'matmul', '--json']}


def phase(ridge, folder, env):
    found = {}
    pathlib.Path(folder).mkdir()
    for name, words in commands(folder).items():
        done = run(ridge, words, env)
        result = {key: done[key] for key in ('command', 'seconds', 'stderr')}
        if name == 'machine':
            result['others_share'] = done['out']['others_share']
            result['levels'] = done['out']['memory']['levels']
        if name.startswith('lab'):
            result |= {'ceilings': done['out']['machine']['ceilings'], 'levels': lab_rows(done['out']),
                       'over_limits': over_limits(done['out']), 'warnings': done['out']['warnings'],
                       'trials': [{key: t[key] for key in ('advice', 'predicted_gain', 'measured_gain')}
                                  for t in done['out']['trials']]}
        found[name] = result
        print(f"{done['seconds']:7.1f} s  {done['command']}")
        for row in result['levels'] if name.startswith('lab') else []:
            print(f"           {row['level']:9} {row['step_ns'] / 1e6:8.2f} ms, predicted {row['predicted_error']:+.1%}")
        for line in result['stderr']:
            print('           ' + line)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('ridge', type=pathlib.Path)
    parser.add_argument('--out', type=pathlib.Path, help='file for the figures')
    parser.add_argument('--pause', type=float, default=5, help='seconds after the loops end (default: 5)')
    args = parser.parse_args()
    ridge = str(args.ridge.resolve())
    with tempfile.TemporaryDirectory() as home:
        env = {**os.environ, 'HOME': home, 'XDG_CACHE_HOME': home}
        loops = [subprocess.Popen([sys.executable, '-c', 'while True: pass'])
                 for _ in range(len(os.sched_getaffinity(0)))]
        print(f'next to {len(loops)} endless loops')
        try:
            busy = phase(ridge, f'{home}/busy', env)
        finally:
            for loop in loops:
                loop.kill()
                loop.wait()
        time.sleep(args.pause)
        print('quiet')
        quiet = phase(ridge, f'{home}/quiet', env)
    faults = []
    if quiet['machine']['others_share'] > 0.1:
        faults.append(f"the quiet ceilings are provisional ({quiet['machine']['others_share']:.0%} of the cores were busy)")
    for name in ('lab tiny', 'lab small'):
        faults += [f"{name} {row['level']}: predicted {row['predicted_error']:+.1%}" for row in quiet[name]['levels']
                   if abs(row['predicted_error']) > LARGEST_ERROR]
        faults += [f'{name}: {each}' for found in (busy, quiet) for each in found[name]['over_limits']]
    if args.out:
        args.out.write_text(json.dumps({'busy': busy, 'quiet': quiet, 'faults': faults}, indent=1) + '\n', encoding='utf-8')
    print('\n'.join(faults) or 'passed')
    return 1 if faults else 0


if __name__ == '__main__':
    sys.exit(main())
