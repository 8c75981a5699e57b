// SPDX-License-Identifier: Apache-2.0
// Training: the loss of every run by step, and the times of its steps.

function drawTraining(body) {
  const trained = runs.filter((run) => run.loss && run.loss.curve && run.loss.curve.length);
  drawLossCurve(body, trained);
  drawStepTimes(body, trained);
}

// The points [step, loss] of each run's curve, as report/chart_model.cc has chosen them.
function drawLossCurve(body, trained) {
  if (!trained.length) return;
  const colour = colourScale(trained.map((run) => run.label));
  const all = trained.flatMap((run) => run.loss.curve), [low, high] = d3.extent(all, (d) => d[1]),
        room = 0.06 * Math.max(high - low, 1e-4);
  const frame = chart(body, {
    name: 'loss',
    title: 'Loss by step',
    height: 320,
    margin: {top: 26, right: 24, bottom: 42, left: 64},
    caption: agreement(trained)
  });
  const x = d3.scaleLinear([0, Math.max(1, d3.max(all, (d) => d[0]))], [0, frame.width]),
        y = d3.scaleLinear([low - room, high + room], [frame.height, 0]);
  axis(frame, 'bottom', x, {ticks: Math.min(12, frame.width / 90), title: 'measured step'});
  axis(frame, 'left', y,
       {ticks: 6, title: 'loss', grid: true, format: d3.format(high - low < 0.5 ? '.3f' : '.2f')});
  trained.forEach((run, i) => {
    const rest = trained.length - 1 - i;
    frame.plot.append('path')
        .attr('d', d3.line().x((d) => x(d[0])).y((d) => y(d[1]))(run.loss.curve))
        .attr('fill', 'none')
        .attr('stroke', colour(run.label))
        .attr('stroke-width', 1.6 + Math.min(2.6, 8 / trained.length) * rest);
  });
  // The losses of all runs at once, at the point that is nearest to the pointer.
  const hover = lineAt(frame.plot, 0, 0, 0, frame.height, 'var(--quiet)').attr('display', 'none');
  boxAt(frame.plot, 0, 0, frame.width, frame.height, 'transparent')
      .on('mousemove',
          function() {
            const at = x.invert(d3.mouse(this)[0]), away = (d) => Math.abs(d[0] - at);
            const nearest = trained.map(
                (run) => run.loss.curve[d3.scan(run.loss.curve, (a, b) => away(a) - away(b))]);
            const step = nearest[d3.scan(nearest, (a, b) => away(a) - away(b))][0];
            hover.attr('display', null).attr('x1', x(step)).attr('x2', x(step));
            tip.show(d3.event.clientX, d3.event.clientY, 'step ' + step,
                     trained.map((run, i) => [run.label, nearest[i][1].toFixed(4)]));
          })
      .on('mouseout', () => {
        hover.attr('display', 'none');
        tip.hide();
      });
  legend(frame.figure, trained.map((run) => [run.label, colour(run.label)]));
}

function agreement(trained) {
  const differing = trained.filter((run) => run.loss.agrees === false);
  if (differing.length)
    return 'The losses of ' + differing.map((run) => run.label).join(', ') +
        ' differ from the first run’s by more than the tolerance.';
  if (trained.length < 2)
    return 'Mean ' + trained[0].loss.mean.toFixed(4) + ', first ' +
        trained[0].loss.first.toFixed(4) + ', last ' + trained[0].loss.last.toFixed(4) + '.';
  return 'Runs of the same work agree: the largest difference is ' +
      d3.max(trained, (run) => run.loss.max_abs_difference || 0).toExponential(1) +
      '. Lines that lie on one another are drawn one inside the other.';
}

function drawStepTimes(body, trained) {
  const timed = trained.filter((run) => run.step_samples_ns && run.step_samples_ns.length);
  if (!timed.length) return;
  const row = 34, left = Math.min(240, 0.34 * body.clientWidth);
  const frame = chart(body, {
    name: 'step_times',
    title: 'Times of the plain steps',
    height: timed.length * row + 36,
    margin: {top: 8, right: 30, bottom: 24, left},
    caption: 'Each dot is a step without instruments. Bar: the median. Line: its 95% interval.'
  });
  const all = timed.flatMap((run) => run.step_samples_ns), [low, high] = d3.extent(all);
  const isWide = high > 8 * low;
  const x =
      (isWide ? d3.scaleLog() : d3.scaleLinear())
          .domain(isWide ? [low / 1.2, high * 1.2] :
                           [Math.max(0, low - 0.1 * (high - low)), high + 0.1 * (high - low) + 1])
          .range([0, frame.width]);
  axis(frame, 'bottom', x, {
    ticks: Math.max(2, frame.width / 130),
    format: (v) => (isWide && !/^[125]/.test(v.toPrecision(1)) ? '' : time(v)),
    grid: true
  });
  timed.forEach((run, i) => {
    const y = i * row + 16;
    const line = frame.plot.append('g');
    lineAt(line, x(run.step.low_ns), y, x(run.step.high_ns), y, 'var(--ink)');
    dotAt(join(line, run.step_samples_ns), (d) => x(d), (d, k) => y + ((k * 7) % 5) * 2 - 4, 3,
          kColours[0])
        .attr('fill-opacity', 0.45);
    boxAt(line, x(run.step.median_ns) - 1.5, y - 11, 3, 22, kColours[1]);
    textAt(line, -10, y + 4, fitted(run.label, left - 12), 'end');
    explain(line.attr('tabindex', 0).datum(run),
            (d) => [d.label, [
              ['median', time(d.step.median_ns)], ['95% interval', interval(d.step)],
              ['steps', integer(d.step.samples)], ...pairs('summary', 'samples_per_s', d)
            ]]);
  });
}
