// SPDX-License-Identifier: Apache-2.0
// Bench: the points of an op, a module, a graph or attention under the roofline and against their predicted time, or a model's
// tokens per second.

function drawBench(body) {
  for (const folder of folders) {
    if (!folder.bench) continue;
    if (folder.bench.kind === 'model')
      drawModelTests(body, folder.bench.result);
    else
      drawPoints(body, folder, folder.bench.result);
  }
}

// What tells a point from the others: a case's name, or the sizes, the form and the phase.
function pointName(each) {
  const shape =
      Object.entries(each.shape || {}).map(([letter, value]) => letter + '=' + value).join(',');
  return [shape || each.name, each.form, each.phase].filter(Boolean).join(' ');
}

// The time over the letter that varies: a curve for each form and phase, dashed where it is predicted.
function drawPointSweep(body, result) {
  if (!result.swept) return;
  const kinds = Array.from(
      new Set(result.cases.map((each) => [each.form, each.phase].filter(Boolean).join(', '))));
  const colour = colourScale(kinds);
  const curve = (kind, key, name, dash) => ({
    name,
    colour: colour(kind),
    dash,
    points:
        result.cases
            .filter((each) => [each.form, each.phase].filter(Boolean).join(', ') === kind &&
                        each[key] > 0)
            .map((each) => ({
                   x: each.shape[result.swept],
                   y: each[key],
                   isPlanned: key !== 'median_ns',
                   about: [
                     ['sizes', pointName(each)], ['time', each.samples ? time(each.median_ns) : ''],
                     ['predicted', time(each.predicted_ns)], ['not run', each.refused]
                   ]
                 }))
  });
  drawCurves(
      body,
      kinds.flatMap(
          (kind) => [curve(kind, 'median_ns', kind || 'measured', null),
                     curve(kind, 'predicted_ns', (kind ? kind + ', ' : '') + 'predicted', '5 4')]),
      {
        name: 'sweep',
        title: 'Time by ' + result.swept,
        xTitle: result.swept,
        yTitle: 'time of a run',
        format: time,
        caption: 'Full: the median of the runs. Dashed, hollow: predicted from the ceilings.'
      });
}

// A bar for each value of another quantity than time.
function drawValues(body, result) {
  const row = 30, format = (value) => Number(value.toPrecision(4));
  const {x, bars} = barChart(body, result.values, {
    name: 'values',
    title: result.quantity,
    row,
    most: d3.max(result.values, (each) => each.value),
    format,
    margin: {top: 6, right: 110, bottom: 24, left: 160}
  });
  bars.append('rect')
      .attr('width', (d) => x(d.value))
      .attr('height', row - 10)
      .attr('fill', kColours[0]);
  labelBars(bars, 14, (d) => d.name, (d) => x(d.value) + 8, (d) => String(format(d.value)));
}

// A bar for each form of the same work, with a mark at its predicted time.
function drawForms(body, points) {
  const timed = points.filter((each) => each.samples > 0 || each.predicted_ns > 0), row = 30;
  if (!timed.length) return;
  const length = (each) => (each.samples > 0 ? each.median_ns : each.predicted_ns);
  const {x, bars} = barChart(body, timed, {
    name: 'forms',
    title: 'Time of each form',
    row,
    most: d3.max(timed, (each) => Math.max(length(each), each.predicted_ns)),
    format: time,
    margin: {top: 6, right: 110, bottom: 24, left: 180},
    caption: 'Bar: the median, or the prediction where nothing ran. Grey mark: predicted.'
  });
  bars.append('rect')
      .attr('width', (d) => x(length(d)))
      .attr('height', row - 10)
      .attr('fill', kColours[0]);
  bars.append('line')
      .attr('x1', (d) => x(d.predicted_ns))
      .attr('x2', (d) => x(d.predicted_ns))
      .attr('y1', -3)
      .attr('y2', row - 7)
      .attr('stroke', 'var(--c6)')
      .attr('stroke-width', 3);
  labelBars(bars, 14, (d) => d.form, (d) => x(length(d)) + 8, (d) => time(length(d)));
}

// A study of inference: for each phase, type and length a bar for each technique at each batch size, hollow where the time is
// predicted, with grey marks at the prediction of what ran.
function drawTechniques(body, cases) {
  const lengthOf = (each) => each.shape.t || each.shape.c, row = 26,
        nsOf = (each) => (each.samples > 0 ? each.median_ns : each.predicted_ns);
  const colour = colourScale(Array.from(new Set(cases.map((each) => each.form))));
  const groups = new Map();
  for (const each of cases.filter((one) => nsOf(one) > 0)) {
    const key = [each.phase, each.dtype, lengthOf(each)].join(' ');
    groups.set(key, [...(groups.get(key) || []), each]);
  }
  for (const [key, points] of Array.from(groups).sort(
           (a, b) => (a[0].startsWith('prefill') ? 0 : 1) - (b[0].startsWith('prefill') ? 0 : 1))) {
    const {phase, dtype} = points[0], decodes = phase === 'decode';
    points.sort((a, b) => a.shape.b - b.shape.b);
    const {x, bars} = barChart(body, points, {
      name: key.replace(/ /g, '_'),
      title: (decodes ? 'Decode: time of a token after ' : 'Prefill: time of ') +
          plural(lengthOf(points[0]), 'token') + ', ' + dtype,
      row,
      most: d3.max(points, (each) => Math.max(nsOf(each), each.predicted_ns)),
      format: time,
      margin: {top: 6, right: 150, bottom: 24, left: 190},
      caption:
          'Full: the median of the runs; grey mark: predicted. Hollow: predicted, because it did not run.'
    });
    bars.append('rect')
        .attr('width', (d) => x(nsOf(d)))
        .attr('height', row - 8)
        .attr('fill', (d) => (d.samples > 0 ? colour(d.form) : 'none'))
        .attr('stroke', (d) => colour(d.form));
    bars.filter((d) => d.samples > 0)
        .append('line')
        .attr('x1', (d) => x(d.predicted_ns))
        .attr('x2', (d) => x(d.predicted_ns))
        .attr('y1', -3)
        .attr('y2', row - 5)
        .attr('stroke', 'var(--c6)')
        .attr('stroke-width', 3);
    labelBars(bars, 13, (d) => 'batch ' + d.shape.b + ', ' + d.form, (d) => x(nsOf(d)) + 8,
              (d) => time(nsOf(d)) + (d.speedup ? ', ' + d.speedup.toFixed(2) + '×' : ''));
    explain(
        bars,
        (d) => [pointName(d), [
          ['time', d.samples > 0 ? time(d.median_ns) : 'not run'],
          ['predicted', time(d.predicted_ns)],
          ['speed-up', d.speedup ? d.speedup.toFixed(2) + '×' : ''],
          ...Object.entries(d.published_ns || {}).map(([source, ns]) => [source, time(ns)])
        ]]);
  }
}

function drawPoints(body, folder, result) {
  const ran = result.cases.filter((each) => !each.refused), roofs = roofsOf(folder),
        dtype = productType(result),
        name = result.op || result[folder.bench.kind] || folder.bench.kind;
  element(body, 'p',
          name + ', ' + result.dtype + ', on ' + result.device +
              (result.threads ? ', ' + plural(result.threads, 'thread') : '') + ': ' +
              plural(ran.length, 'point') + '.');
  if (result.claim) element(body, 'p', 'Claim: ' + result.claim);
  for (const sentence of [result.prediction && 'Predicted: ' + result.prediction,
                          result.finding && 'Measured: ' + result.finding]
           .filter(Boolean))
    element(body, 'p', sentence);
  if (result.values) drawValues(body, result);
  if (!result.swept && result.claim) drawForms(body, ran);
  if (folder.bench.kind === 'study')
    drawTechniques(body, result.cases);
  else
    drawPointSweep(body, result);
  // The time is the measured one, or the predicted one where nothing ran.
  const shown = folder.bench.kind === 'study' ? result.cases : ran;
  const cases = shown.map((each) => {
    const ns = each.median_ns > 0 ? each.median_ns : each.predicted_ns;
    return Object.assign({}, each, {
      key:
          pointName(each) + (each.shape && Object.keys(each.shape).length ? '' : ' ' + each.inputs),
      time_ns: ns,
      flops_per_byte: each.bytes > 0 ? each.flops / each.bytes : 0,
      flops_per_s: ns > 0 ? 1e9 * each.flops / ns : 0,
      bytes_per_s: ns > 0 ? 1e9 * each.bytes / ns : 0,
      colour: kBoundColours[each.bound]
    });
  });
  const points = cases.filter((each) => each.flops_per_s > 0 && each.flops_per_byte > 0);
  if (roofs && points.length) {
    drawRoofs(
        body, roofs, dtype, points, null, 'planned',
        (point) => [
            ['case', point.name], ['inputs', point.inputs],
            ['median', point.samples ? time(point.median_ns) : 'not run'],
            ['95% interval', point.samples ? time(point.low_ns) + ' – ' + time(point.high_ns) : ''],
            ['predicted', time(point.predicted_ns)],
            ['limit', point.bound + (point.level ? ' (' + point.level + ')' : '')]]);
    if (folder.bench.kind !== 'study') element(
        body, 'p',
        'Each run uses the same operands, so small ones stay in a cache and lie above the roof of memory.',
        'note');
  }
  table(body, {
    name: 'bench_' + name,
    rows: cases,
    columns: [
      {title: 'case', value: (row) => row.name, isText: true},
      {title: 'sizes', value: (row) => pointName(row), isText: true},
      {title: 'inputs', value: (row) => row.inputs, isText: true},
      {title: 'median', value: (row) => row.median_ns, text: time},
      {title: 'low', value: (row) => row.low_ns, text: time},
      {title: 'high', value: (row) => row.high_ns, text: time},
      {title: 'FLOPs', value: (row) => row.flops, text: amount},
      {title: 'bytes', value: (row) => row.bytes, text: bytes},
      {title: 'compulsory bytes', value: (row) => row.compulsory_bytes, text: bytes},
      {title: 'FLOP/B', value: (row) => row.flops_per_byte, text: (x) => Number(x.toPrecision(3))},
      {title: 'rate', value: (row) => row.flops_per_s, text: flops},
      {title: 'bandwidth', value: (row) => row.bytes_per_s, text: bandwidth},
      {title: 'predicted', value: (row) => row.predicted_ns, text: time}, {
        title: 'limit',
        value: (row) => row.bound + (row.level ? ' (' + row.level + ')' : ''),
        isText: true
      },
      {title: 'of limit', value: (row) => row.share_of_limit, text: percent}
    ]
  });
  for (const each of result.cases.filter((one) => one.refused))
    element(body, 'p', 'Not run: ' + pointName(each) + ': ' + each.refused, 'note');
  for (const sentence of [...(result.teaches || []), ...(result.notes || [])])
    element(body, 'p', sentence, 'note');
  for (const fit of result.fits || [])
    element(body, 'p',
            'Fit' + (fit.form ? ' of ' + fit.form : '') + ': time = ' + time(fit.factor_ns) +
                ' × ' + fit.letter + '^' + fit.power.toFixed(2) + ' over ' +
                plural(fit.points, 'size') + '.',
            'note');
  for (const cliff of result.cliffs || [])
    element(body, 'p',
            'Cliff at ' + cliff.point + ': ' + cliff.ratio.toFixed(2) +
                ' times the time that its neighbours give' +
                (cliff.reason ? '; ' + cliff.reason : '') + '.',
            'note');
}

function drawModelTests(body, result) {
  element(body, 'p',
          result.model + ' (' + result.format + ', ' + amount(result.parameters) +
              ' parameters) on ' + result.device + ', level ' + result.level + ', batch ' +
              result.batch + '.');
  const tests = result.tests || [], row = 34;
  if (!tests.length) return;
  const {x, bars} = barChart(body, tests, {
    name: 'tokens_per_s',
    title: 'Tokens per second',
    row,
    most: d3.max(tests, (test) => d3.max(test.samples)),
    format: amount,
    margin: {top: 6, right: 110, bottom: 24, left: 120},
    caption:
        'Bar: the median. Dots: the runs. pp: prefill of a prompt, tg: generated tokens, as llama-bench names them.'
  });
  bars.append('rect')
      .attr('width', (d) => x(d.tokens_per_s))
      .attr('height', row - 12)
      .attr('fill', (d) => (d.test.startsWith('pp') ? kColours[0] : kColours[1]));
  labelBars(bars, 15, (d) => d.test, (d) => x(d3.max(d.samples)) + 8,
            (d) => amount(d.tokens_per_s) + ' tok/s');
  bars.each(function(d) {
    d3.select(this)
        .selectAll('circle')
        .data(d.samples)
        .enter()
        .append('circle')
        .attr('cx', (s) => x(s))
        .attr('cy', (s, i) => 6 + (i % 3) * 5)
        .attr('r', 2.5)
        .attr('fill', 'var(--ink)')
        .attr('fill-opacity', 0.6);
  });
  explain(
      bars,
      (d) => [d.test, [
        ['tokens/s', amount(d.tokens_per_s)], ['interval', amount(d.low) + ' – ' + amount(d.high)],
        ['tokens', integer(d.tokens)], ['runs', integer(d.samples.length)]
      ]]);
}
