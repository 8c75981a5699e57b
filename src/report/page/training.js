// SPDX-License-Identifier: Apache-2.0
// Training: the loss of every run by step, and the times of its steps.

function drawTraining(body) {
  const trained = runs.filter((run) => run.loss && run.loss.curve && run.loss.curve.length);
  drawLossCurves(body, lossCurves(trained), trained);
  drawStepTimes(body, trained);
}

// The losses of runs and of the logs of trainings.
function lossCurves(trained) {
  const points = (pairs) => (pairs || []).map(([step, loss]) => ({step, loss}));
  // The points of a run's curve are those that report/chart_model.cc has chosen.
  const ofRuns =
      trained.map((run) => ({
                    label: run.label,
                    training: points(run.loss.curve),
                    validation: points(run.loss.validation).filter((point) => point.loss !== null)
                  }));
  const ofLogs =
      folders.filter((folder) => folder.log).map((folder) => ({
                                                   label: folder.name,
                                                   training: points(folder.log.training),
                                                   validation: points(folder.log.validation)
                                                 }));
  return ofRuns.concat(ofLogs).filter((curve) => curve.training.length + curve.validation.length);
}

function drawLossCurves(body, curves, trained) {
  if (!curves.length) return;
  const colour = colourScale(curves.map((curve) => curve.label));
  const all = curves.flatMap((curve) => curve.training.concat(curve.validation)),
        [low, high] = d3.extent(all, (point) => point.loss),
        room = 0.06 * Math.max(high - low, 1e-4);
  const hasValidation = curves.some((curve) => curve.validation.length);
  const frame = chart(body, {
    name: 'loss',
    title: 'Loss by step',
    height: 320,
    margin: {top: 26, right: 24, bottom: 42, left: 64},
    caption: (trained.length ? agreement(trained) : '') +
        (hasValidation ? ' Dots: validations, after so many steps.' : '')
  });
  const x = d3.scaleLinear([0, Math.max(1, d3.max(all, (point) => point.step))], [0, frame.width]),
        y = d3.scaleLinear([low - room, high + room], [frame.height, 0]);
  axis(frame, 'bottom', x,
       {ticks: Math.min(12, frame.width / 90), title: trained.length ? 'measured step' : 'step'});
  axis(frame, 'left', y,
       {ticks: 6, title: 'loss', grid: true, format: d3.format(high - low < 0.5 ? '.3f' : '.2f')});
  const path = d3.line().x((d) => x(d.step)).y((d) => y(d.loss));
  curves.forEach((curve, i) => {
    const wide = 1.6 + Math.min(2.6, 8 / curves.length) * (curves.length - 1 - i);
    for (const [series, isValidation] of [[curve.training, false], [curve.validation, true]])
      if (series.length)
        frame.plot.append('path')
            .attr('class', isValidation ? 'validation' : null)
            .attr('d', path(series))
            .attr('fill', 'none')
            .attr('stroke', colour(curve.label))
            .attr('stroke-opacity', hasValidation && !isValidation ? 0.5 : 1)
            .attr('stroke-width', isValidation ? 2.2 : wide);
    frame.plot.selectAll(null)
        .data(curve.validation)
        .enter()
        .append('circle')
        .attr('class', 'validation')
        .attr('cx', (d) => x(d.step))
        .attr('cy', (d) => y(d.loss))
        .attr('r', 3.5)
        .attr('fill', colour(curve.label));
  });
  showLosses(frame, x, curves);
  legend(frame.figure, curves.map((curve) => [curve.label, colour(curve.label)]));
}

// One column a step: the losses of all curves at once, and the validation up to there.
function showLosses(frame, x, curves) {
  const hover = frame.plot.append('line')
                    .attr('y2', frame.height)
                    .attr('stroke', 'var(--quiet)')
                    .attr('display', 'none');
  const before = (points, step) => {
    const at = d3.bisector((point) => point.step).right(points, step);
    return at > 0 ? points[at - 1].loss.toFixed(4) : '–';
  };
  frame.plot.append('rect')
      .attr('width', frame.width)
      .attr('height', frame.height)
      .attr('fill', 'transparent')
      .on('mousemove',
          function() {
            const step = Math.round(Math.max(0, x.invert(d3.mouse(this)[0])));
            hover.attr('display', null).attr('x1', x(step)).attr('x2', x(step));
            const rows = [];
            for (const curve of curves) {
              rows.push([curve.label, before(curve.training, step)]);
              if (curve.validation.length)
                rows.push(['validation of it', before(curve.validation, step)]);
            }
            tip.show(d3.event.clientX, d3.event.clientY, 'step ' + step, rows);
          })
      .on('mouseout', () => {
        hover.attr('display', 'none');
        tip.hide();
      });
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
