// SPDX-License-Identifier: Apache-2.0
// Ladder: the levels of the same work as bars with intervals, and what each one gains.

const workOf = (run) => JSON.stringify([
  run.folderIndex, run.setting.task, run.setting.model, run.setting.batch_size, run.setting.seq_len,
  run.setting.micro_batches
]);

function drawLadder(body) {
  const known = (format) => (number) => (number > 0 ? format(number) : '–');
  for (const group of d3.nest().key(workOf).entries(runs).map((entry) => entry.values)) {
    if (group.length < 2 && runs.length > 1) continue;
    drawRungs(body, group);
  }
  const columns = [
    {title: 'run', value: (run) => run.text, isText: true},
    {title: 'step', value: (run) => stepNs(run), text: time},
    {title: '95% interval', value: (run) => interval(run.step), isText: true},
    {title: 'predicted', value: (run) => run.predicted_step_ns, text: known(time)},
    {title: 'speed-up', value: (run) => run.speed_up, text: (x) => x.toFixed(2) + 'x'},
    {title: 'tokens/s', value: (run) => run.tokens_per_s, text: known(amount)},
    {title: 'MFU', value: (run) => run.mfu, text: known(percent)},
    {title: 'kernel calls', value: (run) => run.kernel_calls, text: integer},
    {title: 'bytes moved', value: (run) => run.planned_bytes, text: bytes},
    {title: 'owned memory', value: (run) => run.memory.owned_bytes, text: known(bytes)},
    {title: 'mean loss', value: (run) => run.loss && run.loss.mean, text: (x) => x.toFixed(4)},
  ];
  if (folders.length > 1)
    columns.unshift({title: 'folder', value: (run) => run.folder.name, isText: true});
  table(body, {name: 'runs', columns, rows: runs});
}

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
        ', batch ' + first.batch_size + ', length ' + first.seq_len,
    caption:
        'Median step time with its 95% interval. Grey mark: the predicted time. Right: speed-up over the first.',
  });
  stepBars(bars, x, row - 10, kColours[0]);
  labelBars(bars, 14,
            (d) => shortened(d.setting.level + (d.setting.pass ? ' ' + d.setting.pass : ''), 28),
            (d) => x(Math.max(stepNs(d), d.step.high_ns || 0)) + 8,
            (d) => time(stepNs(d)) + '  ' + (d.speed_up ? d.speed_up.toFixed(2) + 'x' : ''));
  explain(bars,
          (d) => [d.text, [
            ['step, median', time(stepNs(d))], ['95% interval', interval(d.step)],
            ['predicted', time(d.predicted_step_ns)],
            ['speed-up', d.speed_up ? d.speed_up.toFixed(2) + 'x' : ''],
            ['tokens/s', amount(d.tokens_per_s)], ['MFU', percent(d.mfu)],
            ['kernel calls', integer(d.kernel_calls)], ['bytes moved', bytes(d.planned_bytes)],
            ['owned memory', bytes(d.memory.owned_bytes)]
          ]]);
}
