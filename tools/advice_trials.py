#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the confidence that `ridge lab` states against what its advice gained.

    tools/advice_trials.py build/ridge --labs 30 --out quiet.json
    tools/advice_trials.py build/ridge --labs 30 --busy --out busy.json
    tools/advice_trials.py --sum quiet.json busy.json

Each lab has other settings, drawn from --seed. Each runs its first two pieces of advice, interleaved with the step that the advice
changes. Of advice to save time, a trial counts as a gain if the step became faster. Passes if the share that gained lies in the 95% interval of a binomial
distribution with the mean stated confidence, and if of those stated at 90% and more at least 80% gained. With --busy an endless
loop runs for each core.
"""
import argparse
import json
import math
import os
import pathlib
import random
import subprocess
import sys
import tempfile


def settings(rng):
    preset = rng.choice(['tiny', 'tiny', 'small'])
    batch, length = rng.choice([(1, 128), (2, 64), (2, 128), (4, 64), (4, 128), (8, 64)] if preset == 'tiny'
                               else [(1, 64), (1, 128), (2, 64)])
    words = ['--preset', preset, '--batch-size', str(batch), '--seq-len', str(length),
             '--dtype', rng.choice(['fp32', 'fp32', 'bf16']), '--level', rng.choice(['compiled', 'fused', 'kernels'])]
    return words + rng.choice([[], [], ['--pass=-merge_qkv'], ['--pass=+recompute'], ['--pass=-fuse_softmax_cross_entropy']])


def run_labs(ridge, labs, seed, is_busy):
    rng = random.Random(seed)
    loops = [subprocess.Popen(['sh', '-c', 'while :; do :; done']) for _ in os.sched_getaffinity(0)] if is_busy else []
    trials = []
    try:
        with tempfile.TemporaryDirectory() as folder:
            env = dict(os.environ, HOME=folder, XDG_CACHE_HOME=folder)
            for lab in range(labs):
                words = ['lab', *settings(rng), '--device', 'cpu', '--steps', '12', '--try', '2', '--json', '--out', f'{folder}/{lab}']
                done = subprocess.run([ridge, *words], env=env, capture_output=True, text=True, check=False)
                if done.returncode != 0:
                    sys.exit(f'ridge {" ".join(words)}: exit code {done.returncode}\n{done.stderr}')
                found = json.loads(done.stdout)
                by_title = {advice['title']: advice for advice in found['advice']}
                for trial in found['trials']:
                    advice = by_title[trial['advice']]
                    trials.append({'command': 'ridge ' + ' '.join(words[:-5]), 'advice': trial['advice'], 'busy': is_busy,
                                   'confidence': advice['confidence'], 'predicted_gain': trial['predicted_gain'],
                                   'measured_gain': trial['measured_gain'], 'clear_of_noise': trial['clear_of_noise']})
                print(f'{lab + 1} of {labs} labs, {len(trials)} trials', file=sys.stderr)
    finally:
        for loop in loops:
            loop.kill()
    return trials


def binomial_interval(count, share):
    """The numbers of gains that leave at most 2.5% of the probability on each side."""
    below, total = 0, 0.0
    probabilities = [math.comb(count, k) * share**k * (1 - share)**(count - k) for k in range(count + 1)]
    while below < count and total + probabilities[below] <= 0.025:
        total += probabilities[below]
        below += 1
    above, total = count, 0.0
    while above > below and total + probabilities[above] <= 0.025:
        total += probabilities[above]
        above -= 1
    return below, above


def judge(trials):
    # Advice to save memory states no confidence: memory is counted.
    stated = [t for t in trials if t['predicted_gain'] > 0]
    if not stated:
        sys.exit('no trial of advice to save time')
    gained = sum(t['measured_gain'] > 0 for t in stated)
    mean = sum(t['confidence'] for t in stated) / len(stated)
    low, high = binomial_interval(len(stated), mean)
    sure = [t for t in stated if t['confidence'] >= 0.9]
    sure_gained = sum(t['measured_gain'] > 0 for t in sure)
    passes = low <= gained <= high and sure_gained >= 0.8 * len(sure)
    return {'trials': len(trials), 'of_time': len(stated), 'mean_confidence': round(mean, 4), 'gained': gained,
            'expected': [low, high], 'stated_90': len(sure), 'stated_90_gained': sure_gained, 'passes': passes}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('ridge', nargs='?')
    parser.add_argument('--labs', type=int, default=30)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--busy', action='store_true')
    parser.add_argument('--out', type=pathlib.Path)
    parser.add_argument('--sum', type=pathlib.Path, nargs='+', help='judges the trials of these files; runs nothing')
    options = parser.parse_args()
    if options.sum:
        trials = [t for path in options.sum for t in json.loads(path.read_text())['trials']]
    elif options.ridge:
        trials = run_labs(options.ridge, options.labs, options.seed, options.busy)
        if options.out:
            options.out.write_text(json.dumps({'trials': trials}, indent=1))
    else:
        parser.error('expected the program, or --sum')
    verdict = judge(trials)
    print(json.dumps(verdict))
    return 0 if verdict['passes'] else 1


if __name__ == '__main__':
    sys.exit(main())
