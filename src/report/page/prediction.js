// SPDX-License-Identifier: Apache-2.0
// Prediction: predicted against measured time by operation, and the passes as a waterfall of predicted cost.

// Beyond this error the prediction of a step does not describe the run.
const kPoorPrediction = 0.25;
// Smaller operations would only stretch the axes.
const kLeastShare = 2e-4;

function drawPrediction(body, {run}) {
  const measured = stepNs(run), predicted = run.predicted_step_ns;
  if (predicted > 0 && measured > 0) {
    const error = predicted / measured - 1, rows = operationRows(run);
    const errors = d3.sum(rows, (row) => Math.abs(row.predicted_ns - row.exclusive_ns)) /
        d3.sum(rows, (row) => row.exclusive_ns);
    element(body, 'p',
            'From counts and ceilings alone the step is predicted at ' + time(predicted) +
                '; it took ' + time(measured) + ' (error ' + signedPercent(error) + ').' +
                (isFinite(errors) && rows.length ? ' By operation, the absolute errors add up to ' +
                         percent(errors) + ' of the kernel time.' :
                                                   ''));
    if (Math.abs(error) > kPoorPrediction)
      element(
          body, 'p',
          'The time model does not describe this run: the step is ' +
              (error < 0 ? 'slower' : 'faster') + ' than predicted by more than ' +
              percent(kPoorPrediction) + '. ' +
              (run.step.high_ns > 1.3 * run.step.median_ns ?
                   'Its step times vary, so another program may be using the machine.' :
                   'Its kernels reach other rates than those of calibration, or wait for something that the model does not count.'),
          'warning');
  } else
    element(
        body, 'p',
        'Nothing was predicted, because the machine’s ceilings are unknown (run ridge machine).');
  drawErrors(body, run);
  drawPasses(body, run);
}

function drawErrors(body, run) {
  const known = operationRows(run).filter((row) => row.predicted_ns > 0 && row.exclusive_ns > 0);
  const rows = known.filter((row) => row.share >= kLeastShare);
  if (!rows.length) return;
  const frame = chart(body, {
    name: 'prediction',
    title: 'Predicted against measured, by operation',
    width: 640,
    height: 500,
    margin: {top: 26, right: 20, bottom: 42, left: 64},
    caption:
        'On the line the prediction is exact; the band is within 25%. Above it: slower than predicted. Area: time in a step.' +
        (known.length > rows.length ?
             ' Without ' + plural(known.length - rows.length, 'operation') + ' of less than ' +
                 (100 * kLeastShare) + '% of the step.' :
             '')
  });
  const all = rows.flatMap((row) => [row.predicted_ns, row.exclusive_ns]),
        domain = [d3.min(all) / 1.7, d3.max(all) * 1.7];
  const x = d3.scaleLog(domain, [0, frame.width]), y = d3.scaleLog(domain, [frame.height, 0]);
  axis(frame, 'left', y, {values: decades(domain), format: time, title: 'measured', grid: true});
  axis(frame, 'bottom', x, {values: decades(domain), format: time, title: 'predicted', grid: true});
  frame.plot.append('path').attr('fill', 'var(--c7)').attr('fill-opacity', 0.35).attr('d', 'M' + [
    [x(domain[0]), y(domain[0] * 1.25)], [x(domain[1] / 1.25), y(domain[1])],
    [x(domain[1]), y(domain[1])], [x(domain[1]), y(domain[1] / 1.25)],
    [x(domain[0] * 1.25), y(domain[0])], [x(domain[0]), y(domain[0])]
  ].join('L') + 'Z');
  lineAt(frame.plot, x(domain[0]), y(domain[0]), x(domain[1]), y(domain[1]), 'var(--quiet)');
  const size = d3.scaleSqrt([0, d3.max(rows, (row) => row.exclusive_ns)], [3, 18]);
  const marks = dotAt(join(frame.plot, rows), (d) => x(d.predicted_ns), (d) => y(d.exclusive_ns),
                      (d) => size(d.exclusive_ns), (d) => boundColour(d.bound))
                    .attr('tabindex', 0)
                    .attr('data-key', (d) => d.key)
                    .attr('fill-opacity', 0.55)
                    .attr('stroke', (d) => boundColour(d.bound));
  explain(marks, (d) => [d.key, [
                   ['predicted', time(d.predicted_ns)], ['measured', time(d.exclusive_ns)],
                   ['error', signedPercent(d.predicted_ns / d.exclusive_ns - 1)],
                   ['limit', d.bound], ['share of the step', percent(d.share)]
                 ]]);
  labelPoints(
      frame,
      rows.slice(0, 16).map(
          (d) => (
              {text: d.key, x: x(d.predicted_ns), y: y(d.exclusive_ns), r: size(d.exclusive_ns)})));
  boundLegend(frame.figure);
}

// Each pass takes predicted time away or adds it; the bars hang from one another.
function drawPasses(body, run) {
  const passes = (run.passes ||
                  []).filter((pass) => pass.before.predicted_ns > 0 || pass.after.predicted_ns > 0);
  if (!passes.length) {
    if ((run.passes || []).length)
      element(body, 'p', 'The passes of this run have no predicted times.', 'note');
    return;
  }
  element(body, 'h3', 'Passes');
  element(
      body, 'p',
      'Predicted cost of the graph after each pass, in the order in which they ran. A pass of another stage starts from the graph of its stage, so the bars may jump there.',
      'note');
  const row = 26, left = Math.min(230, 0.34 * body.clientWidth);
  const {frame, x, bars} = barChart(body, passes, {
    name: 'passes',
    label: 'Passes',
    row,
    most: d3.max(passes, (pass) => Math.max(pass.before.predicted_ns, pass.after.predicted_ns)),
    format: time,
    margin: {top: 6, right: 130, bottom: 24, left}
  });
  const from = (d) => Math.min(d.before.predicted_ns, d.after.predicted_ns),
        to = (d) => Math.max(d.before.predicted_ns, d.after.predicted_ns);
  const isGain = (d) => d.after.predicted_ns <= d.before.predicted_ns;
  boxAt(bars, 0, 0, (d) => x(from(d)), row - 9, 'var(--wash)');
  boxAt(bars, (d) => x(from(d)), 0, (d) => Math.max(1.5, x(to(d)) - x(from(d))), row - 9,
        (d) => (isGain(d) ? kColours[2] : kColours[1]));
  labelBars(bars, 13, (d) => fitted(d.name, left - 12), (d) => x(to(d)) + 6, (d) => {
    const change = d.after.predicted_ns - d.before.predicted_ns;
    return Math.abs(change) < 5e-4 * d.before.predicted_ns ?
        'no change' :
        (change < 0 ? '−' : '+') + time(Math.abs(change));
  });
  const change = (d, keys) =>
      columns('pass', keys)
          .map((each) => [each.title, cellText(each, d.before) + ' → ' + cellText(each, d.after)]);
  explain(bars, (d) => [d.name + ', ' + d.stage, [
                  ...change(d, 'predicted_ns kernel_calls bytes peak_bytes flops'),
                  ['trade', d.trade], ['time of the pass', time(d.elapsed_ns)]
                ]]);
  legend(frame.figure, [['time saved', kColours[2]], ['time added', kColours[1]]]);
}
