// SPDX-License-Identifier: Apache-2.0
// Training: the loss of every run by step, and the times of its steps.

function drawTraining(body) {
  const trained =
      runs.filter((run) => run.loss && run.loss.all && run.loss.all.some((loss) => loss !== null));
  drawLossCurve(body, trained);
  drawStepTimes(body, trained);
}

function drawLossCurve(body, trained) {
  if (!trained.length) return;
  const colour = colourScale(trained.map((run) => run.label));
  const points = trained.map((run) => run.loss.all.map((loss, step) => ({run, step, loss}))
                                          .filter((point) => point.loss !== null));
  const all = points.flat(), [low, high] = d3.extent(all, (point) => point.loss),
        room = 0.06 * Math.max(high - low, 1e-4);
  const frame = chart(body, {
    name: 'loss',
    title: 'Loss by step',
    height: 320,
    margin: {top: 26, right: 24, bottom: 42, left: 64},
    caption: agreement(trained)
  });
  const x = d3.scaleLinear([0, Math.max(1, d3.max(all, (point) => point.step))], [0, frame.width]),
        y = d3.scaleLinear([low - room, high + room], [frame.height, 0]);
  axis(frame, 'bottom', x, {ticks: Math.min(12, frame.width / 90), title: 'measured step'});
  axis(frame, 'left', y,
       {ticks: 6, title: 'loss', grid: true, format: d3.format(high - low < 0.5 ? '.3f' : '.2f')});
  points.forEach((series, i) => {
    const name = trained[i].label;
    frame.plot.append('path')
        .attr('d', d3.line().x((d) => x(d.step)).y((d) => y(d.loss))(series))
        .attr('fill', 'none')
        .attr('stroke', colour(name))
        .attr('stroke-width', 1.6 + Math.min(2.6, 8 / points.length) * (points.length - 1 - i));
  });
  // One column a step: the losses of all runs at once.
  const hover = frame.plot.append('line')
                    .attr('y2', frame.height)
                    .attr('stroke', 'var(--quiet)')
                    .attr('display', 'none');
  frame.plot.append('rect')
      .attr('width', frame.width)
      .attr('height', frame.height)
      .attr('fill', 'transparent')
      .on('mousemove',
          function() {
            const step = Math.round(Math.max(0, x.invert(d3.mouse(this)[0])));
            hover.attr('display', null).attr('x1', x(step)).attr('x2', x(step));
            tip.show(d3.event.clientX, d3.event.clientY, 'step ' + step,
                     trained.map(
                         (run) => [run.label,
                                   run.loss.all[step] === undefined || run.loss.all[step] === null ?
                                       '–' :
                                       run.loss.all[step].toFixed(4)]));
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
    line.append('line')
        .attr('x1', x(run.step.low_ns))
        .attr('x2', x(run.step.high_ns))
        .attr('y1', y)
        .attr('y2', y)
        .attr('stroke', 'var(--ink)');
    line.selectAll('circle')
        .data(run.step_samples_ns)
        .enter()
        .append('circle')
        .attr('cx', (d) => x(d))
        .attr('cy', (d, k) => y + ((k * 7) % 5) * 2 - 4)
        .attr('r', 3)
        .attr('fill', kColours[0])
        .attr('fill-opacity', 0.45);
    line.append('rect')
        .attr('x', x(run.step.median_ns) - 1.5)
        .attr('y', y - 11)
        .attr('width', 3)
        .attr('height', 22)
        .attr('fill', kColours[1]);
    line.append('text')
        .attr('x', -10)
        .attr('y', y + 4)
        .attr('text-anchor', 'end')
        .text(fitted(run.label, left - 12));
    explain(line.attr('tabindex', 0).datum(run),
            (d) => [d.label, [
              ['median', time(d.step.median_ns)], ['95% interval', interval(d.step)],
              ['steps', integer(d.step.samples)], ['samples/s', amount(d.samples_per_s)]
            ]]);
  });
}
