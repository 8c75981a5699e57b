// SPDX-License-Identifier: Apache-2.0
// Ladder: the levels of the same work as bars with intervals, and what each one gains.

const workOf = (run) => JSON.stringify([
  run.folderIndex, run.setting.task, run.setting.model, run.setting.batch_size, run.setting.seq_len,
  run.setting.micro_batches
]);

function drawLadder(body) {
  for (const group of d3.nest().key(workOf).entries(runs).map((entry) => entry.values)) {
    if (group.length < 2 && runs.length > 1) continue;
    drawRungs(body, group);
  }
  // A figure of 0 is not known.
  const known = (column) => ({...column, value: (run) => column.value(run) || null});
  const shown = [
    {title: 'run', value: (run) => run.text, isText: true},
    {title: 'step', value: stepNs, text: time},
    {
      title: '95% interval',
      value: (run) => (run.step.samples > 1 ? interval(run.step) : null),
      isText: true
    },
    ...columns('summary', 'predicted_step_ns ' + (runs.length > 1 ? 'speed_up ' : '') +
                   'tokens_per_s mfu kernel_calls').map(known),
    ...columns('run', 'planned_bytes'),
    {title: 'owned memory', value: (run) => run.memory.owned_bytes, text: bytes},
    {title: 'mean loss', value: (run) => run.loss && run.loss.mean, text: (x) => x.toFixed(4)},
  ];
  if (folders.length > 1)
    shown.unshift({title: 'folder', value: (run) => run.folder.name, isText: true});
  // A column that no run has a value in says nothing.
  const told = shown.filter((column) => runs.some((run) => column.value(run)));
  table(body, {name: 'runs', columns: told, rows: runs});
}

// A run in a few pairs.
const aboutRun =
    (run) => [['median', time(stepNs(run))], ['95% interval', interval(run.step)],
              ...pairs('summary', 'predicted_step_ns tokens_per_s mfu kernel_calls', run),
              ['owned memory', bytes(run.memory.owned_bytes)]];

function drawRungs(body, group) {
  const row = 30, first = group[0].setting;
  const left = Math.min(210, 0.32 * body.clientWidth);
  const most = d3.max(group,
                      (run) => Math.max(stepNs(run), run.predicted_step_ns || 0,
                                        Math.min(run.step.high_ns || 0, 1.5 * stepNs(run))));
  const {x, bars} = barChart(body, group, {
    name: 'ladder',
    row,
    most,
    format: time,
    margin: {top: 6, right: 120, bottom: 24, left},
    title: first.model + (first.task && first.task !== 'train' ? ', ' + first.task : '') +
        (first.batch_size > 0 ? ', batch ' + first.batch_size + ', length ' + first.seq_len : ''),
    caption: 'Median step time' +
        (group.some((run) => run.step.samples > 1) ? ' with its 95% interval.' : '.') +
        (group.some((run) => run.predicted_step_ns > 0) ? ' Grey mark: the predicted time.' : '') +
        (group.length > 1 ? ' Right: speed-up over the first.' : ''),
  });
  stepBars(bars, x, row - 10, kColours[0]);
  labelBars(bars, 14,
            (d) => shortened(d.setting.level + (d.setting.pass ? ' ' + d.setting.pass : ''), 28),
            (d) => x(Math.max(stepNs(d), d.step.high_ns || 0)) + 8,
            (d) => time(stepNs(d)) +
                (d.speed_up && group.length > 1 ? '  ' + times(d.speed_up) : ''));
  explain(bars, (d) => [d.text, [
                  ...aboutRun(d), ['speed-up', d.speed_up ? times(d.speed_up) : ''],
                  ...pairs('run', 'planned_bytes', d)
                ]]);
}
