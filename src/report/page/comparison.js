// SPDX-License-Identifier: Apache-2.0
// Comparison of two runs: by operation with intervals, what explains the difference, and what is noise.

const comparisonState = {
  a: null,
  b: null
};

const comparable = () => runs.filter((run) => run.operations || run.rows.length > 0);

// The rule of `ridge diff`: intervals of the medians that overlap are noise; "?" where they cover less than 95%.
function judged(a, b) {
  if (!a || !(a.samples > 0)) return 'only in B';
  if (!b || !(b.samples > 0)) return 'only in A';
  if (a.low_ns <= b.high_ns && b.low_ns <= a.high_ns) return 'noise';
  return (b.median_ns < a.median_ns ? 'faster' : 'slower') +
      (Math.min(a.coverage, b.coverage) < 0.95 ? '?' : '');
}

// The other run to begin with: the same work in another folder, or another level of it.
function firstPair(list) {
  const same = (a, b) => a.setting.task === b.setting.task && a.setting.model === b.setting.model &&
      a.setting.batch_size === b.setting.batch_size && a.setting.seq_len === b.setting.seq_len;
  const b = list[list.length - 1];
  const others = list.filter((run) => run !== b);
  return [
    others.find((run) => run.folder !== b.folder && same(run, b) &&
                    run.setting.level === b.setting.level) ||
        others.find((run) => run.folder !== b.folder && same(run, b)) ||
        others.find((run) => same(run, b)) || others[0],
    b
  ];
}

function drawComparison(body) {
  const list = comparable(), state = comparisonState;
  if (!list.includes(state.a)) [state.a, state.b] = firstPair(list);
  const bar = controls(body), area = element(body, 'div');
  const options = list.map((run) => [String(run.index), run.label]);
  choice(bar, 'A', options, String(state.a.index), (value) => {
    state.a = runs[Number(value)];
    plot();
  });
  choice(bar, 'B', options, String(state.b.index), (value) => {
    state.b = runs[Number(value)];
    plot();
  });
  function plot() {
    area.textContent = '';
    const {a, b} = state, verdict = judged(a.step, b.step);
    element(area, 'p',
            'A takes ' + time(a.step.median_ns) + ' per step, B ' + time(b.step.median_ns) + ': ' +
                signedPercent(b.step.median_ns / a.step.median_ns - 1) +
                (verdict === 'noise' ?
                     ', but the intervals overlap, so this is noise.' :
                     ', ' + verdict.replace('?', ' (with fewer than six samples)') + '.'));
    const machines = [a, b].map((run) => (run.folder.machine || {}).device);
    if (machines[0] !== machines[1])
      element(
          area, 'p',
          'The machines differ (' + machines.join(' and ') + '), so the times are not comparable.',
          'warning');
    const rows = compared(a, b);
    drawDifference(area, rows, a, b);
    table(area, {
      name: 'comparison',
      rows,
      columns: [
        {title: 'operation', value: (row) => row.key, isText: true},
        {title: 'A', value: (row) => row.before.time_ns, text: time},
        {title: 'interval of A', value: (row) => interval(row.before.samples), isText: true},
        {title: 'B', value: (row) => row.after.time_ns, text: time},
        {title: 'interval of B', value: (row) => interval(row.after.samples), isText: true}, {
          title: 'difference',
          value: (row) => row.difference,
          text: (ns) => (ns < 0 ? '−' : '+') + time(Math.abs(ns))
        },
        {title: 'calls', value: (row) => row.before.calls + ' → ' + row.after.calls},
        {title: 'verdict', value: (row) => row.verdict, isText: true}
      ]
    });
  }
  plot();
}

// Rows by operation of both runs, largest difference first.
function compared(a, b) {
  const none = {time_ns: 0, exclusive_ns: 0, calls: 0, samples: null};
  const before = new Map(operationRows(a).map((row) => [row.key, row])),
        after = new Map(operationRows(b).map((row) => [row.key, row]));
  return Array.from(new Set([...before.keys(), ...after.keys()]))
      .map((key) => {
        const [from, to] = [before.get(key) || none, after.get(key) || none];
        return {
          key,
          before: from,
          after: to,
          difference: to.exclusive_ns - from.exclusive_ns,
          verdict: judged(from.samples, to.samples)
        };
      })
      .sort((x, y) => Math.abs(y.difference) - Math.abs(x.difference));
}

// A waterfall from A's step to B's: the ten largest differences and all others.
function drawDifference(area, rows, a, b) {
  const shown = rows.slice(0, 10), rest = d3.sum(rows.slice(10), (row) => row.difference);
  const start = a.attribution.wall_ns, end = b.attribution.wall_ns;
  const outside = end - start - d3.sum(rows, (row) => row.difference);
  const steps =
      [...shown.map((row) => ({name: row.key, change: row.difference, verdict: row.verdict, row}))];
  if (rows.length > 10)
    steps.push({name: plural(rows.length - 10, 'other operation'), change: rest, verdict: ''});
  steps.push({name: 'idle and host', change: outside, verdict: ''});
  let at = start;
  for (const step of steps) {
    step.from = at;
    at += step.change;
    step.to = at;
  }
  const row = 24, items = [{name: 'A', whole: start}, ...steps, {name: 'B', whole: end}];
  const {frame, x, bars} = barChart(area, items, {
    name: 'comparison',
    title: 'What explains the difference',
    row,
    most: d3.max(items, (bar) => Math.max(bar.whole || 0, bar.from || 0, bar.to || 0)),
    format: time,
    margin: {top: 6, right: 150, bottom: 24, left: 170},
    caption:
        'From A to B. Pale bars: the intervals of the operation overlap, so the difference is noise.'
  });
  const low = (d) => (d.whole !== undefined ? 0 : Math.min(d.from, d.to)),
        high = (d) => (d.whole !== undefined ? d.whole : Math.max(d.from, d.to));
  boxAt(bars, (d) => x(low(d)), 0, (d) => Math.max(1.5, x(high(d)) - x(low(d))), row - 8,
        (d) => (d.whole !== undefined ? kColours[6] :
                    d.change <= 0     ? kColours[2] :
                                        kColours[1]))
      .attr('fill-opacity', (d) => (d.verdict === 'noise' ? 0.35 : 1));
  labelBars(bars, 12, (d) => shortened(d.name, 25), (d) => x(high(d)) + 6,
            (d) => (d.whole !== undefined ? time(d.whole) :
                                            (d.change <= 0 ? '−' : '+') + time(Math.abs(d.change)) +
                            (d.verdict === 'noise' ? ' (noise)' : '')));
  explain(
      bars,
      (d) => [d.name,
              d.row ?
                  [
                    ['A', time(d.row.before.exclusive_ns) + ', ' + interval(d.row.before.samples)],
                    ['B', time(d.row.after.exclusive_ns) + ', ' + interval(d.row.after.samples)],
                    ['verdict', d.verdict]
                  ] :
                  [['time', time(d.whole !== undefined ? d.whole : d.change)]]]);
  legend(frame.figure, [['faster in B', kColours[2]], ['slower in B', kColours[1]]]);
}
