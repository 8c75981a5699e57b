// SPDX-License-Identifier: Apache-2.0
// Bench: the points of an op, a module, a graph or attention under the roofline and against their
// predicted time, or a model's tokens per second.

function drawBench(body) {
  for (const {bench} of folders) {
    if (!bench) continue;
    if (bench.kind === 'model')
      drawModelTests(body, bench.result);
    else
      drawPoints(body, bench);
  }
}

// The measured time, or the predicted one where nothing ran.
const timeOf = (each) => (each.median_ns > 0 ? each.median_ns : each.predicted_ns);
const formOf = (each) => [each.form, each.phase].filter(Boolean).join(', ');
const limitOf = (each) => each.bound + (each.level ? ' (' + each.level + ')' : '');

// A case's name, or the sizes, the form and the phase: they tell a point from the others.
function pointName(each) {
  const shape =
      Object.entries(each.shape || {}).map(([letter, value]) => letter + '=' + value).join(',');
  return [shape || each.name, each.form, each.phase].filter(Boolean).join(' ');
}

// The time over the letter that varies: a curve for each form and phase, dashed where it is predicted.
function drawPointSweep(body, result) {
  if (!result.swept) return;
  const kinds = unique(result.cases.map(formOf)), colour = colourScale(kinds);
  const curve = (kind, key, name, dash) => ({
    name,
    colour: colour(kind),
    dash,
    points: result.cases.filter((each) => formOf(each) === kind && each[key] > 0)
                .map((each) => ({
                       x: each.shape[result.swept],
                       y: each[key],
                       isPlanned: key !== 'median_ns',
                       about: [
                         ['sizes', pointName(each)],
                         ...pairs('bench', 'median_ns predicted_ns refused', each)
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
        xTitle: result.axis ? result.axis + ' (' + result.swept + ')' : result.swept,
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
  boxAt(bars, 0, 0, (d) => x(d.value), row - 10, kColours[0]);
  labelBars(bars, 14, (d) => d.name, (d) => x(d.value) + 8, (d) => String(format(d.value)));
}

// A bar for the time of each point, hollow where it is predicted, with a grey mark at the prediction
// of what ran.
function drawTimes(body, points, {name, title, label, colour}) {
  const timed = points.filter((each) => timeOf(each) > 0), row = 26;
  if (!timed.length) return;
  const {x, bars} = barChart(body, timed, {
    name,
    title,
    row,
    most: d3.max(timed, (each) => Math.max(timeOf(each), each.predicted_ns)),
    format: time,
    margin: {top: 6, right: 150, bottom: 24, left: 190},
    caption:
        'Full: the median of the runs; grey mark: predicted. Hollow: predicted, because it did not run.'
  });
  boxAt(bars, 0, 0, (d) => x(timeOf(d)), row - 8, (d) => (d.samples > 0 ? colour(d.form) : 'none'))
      .attr('stroke', (d) => colour(d.form));
  markAt(bars.filter((d) => d.samples > 0 && d.predicted_ns > 0), (d) => x(d.predicted_ns),
         row - 8);
  labelBars(bars, 13, label, (d) => x(timeOf(d)) + 8,
            (d) => time(timeOf(d)) + (d.speedup ? ', ' + times(d.speedup) : ''));
  explain(bars, (d) => [pointName(d), [
                  ...pairs('bench', 'median_ns predicted_ns', d),
                  ['speed-up', d.speedup ? times(d.speedup) : ''],
                  ...Object.entries(d.published_ns || {}).map(([source, ns]) => [source, time(ns)])
                ]]);
}

// A study of inference: for each phase, type and length the techniques at each batch size.
function drawTechniques(body, cases) {
  const lengthOf = (each) => each.shape.t || each.shape.c;
  const colour = colourScale(unique(cases.map((each) => each.form)));
  const groups =
      d3.nest().key((each) => [each.phase, each.dtype, lengthOf(each)].join('_')).entries(cases);
  const isDecode = ({values}) => (values[0].phase === 'decode' ? 1 : 0);
  for (const group of groups.sort((a, b) => isDecode(a) - isDecode(b))) {
    const points = group.values.sort((a, b) => a.shape.b - b.shape.b);
    drawTimes(body, points, {
      name: group.key,
      title: (isDecode(group) ? 'Decode: time of a token after ' : 'Prefill: time of ') +
          plural(lengthOf(points[0]), 'token') + ', ' + points[0].dtype,
      label: (d) => 'batch ' + d.shape.b + ', ' + d.form,
      colour
    });
  }
}

function drawPointTable(body, name, cases) {
  table(body, {
    name: 'bench_' + name,
    rows: cases,
    columns: [
      ...columns('bench', 'name'),
      {title: 'sizes', value: pointName, isText: true},
      ...columns(
          'bench',
          'inputs median_ns low_ns high_ns flops bytes compulsory_bytes flops_per_byte flops_per_s ' +
              'bytes_per_s predicted_ns'),
      {title: 'limit', value: limitOf, isText: true},
      ...columns('bench', 'share_of_limit'),
    ]
  });
}

function drawPoints(body, {kind, result, roofline}) {
  const ran = result.cases.filter((each) => !each.refused), isStudy = kind === 'study',
        name = result.op || result[kind] || kind, note = (text) => element(body, 'p', text, 'note');
  element(body, 'p',
          name + ', ' + result.dtype + ', on ' + result.device +
              (result.threads ? ', ' + plural(result.threads, 'thread') : '') + ': ' +
              plural(ran.length, 'point') + '.');
  for (const [about, sentence] of [['Claim', result.claim], ['Predicted', result.prediction],
                                   ['Measured', result.finding]])
    if (sentence) element(body, 'p', about + ': ' + sentence);
  if (result.values) drawValues(body, result);
  if (!result.swept && result.claim)
    drawTimes(body, ran, {
      name: 'forms',
      title: 'Time of each form',
      label: (d) => d.form,
      colour: () => kColours[0]
    });
  if (isStudy)
    drawTechniques(body, result.cases);
  else
    drawPointSweep(body, result);
  const cases = (isStudy ? result.cases : ran).map((each) => Object.assign({}, each, {
    key: pointName(each) + (each.shape && Object.keys(each.shape).length ? '' : ' ' + each.inputs),
    time_ns: timeOf(each),
    colour: boundColour(each.bound)
  }));
  const points = cases.filter((each) => each.flops_per_s > 0 && each.flops_per_byte > 0);
  if (roofline && points.length) {
    drawRoofs(body, roofline, points, {
      more: (d) => [...pairs('bench', 'name inputs median_ns predicted_ns', d),
                    ['95% interval', interval(d)], ['limit', limitOf(d)]]
    });
    if (!isStudy)
      note(
          'Each run uses the same operands, so small ones stay in a cache and lie above the roof of memory.');
  }
  drawPointTable(body, name, cases);
  for (const each of result.cases)
    if (each.refused) note('Not run: ' + pointName(each) + ': ' + each.refused);
  [...(result.teaches || []), ...(result.notes || [])].forEach(note);
  for (const fit of result.fits || [])
    note('Fit' + (fit.form ? ' of ' + fit.form : '') + ': time = ' + time(fit.factor_ns) + ' × ' +
         fit.letter + '^' + fit.power.toFixed(2) + ' over ' + plural(fit.points, 'size') + '.');
  for (const cliff of result.cliffs || [])
    note('Cliff at ' + cliff.point + ': ' + cliff.ratio.toFixed(2) +
         ' times the time that its neighbours give' + (cliff.reason ? '; ' + cliff.reason : '') +
         '.');
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
  boxAt(bars, 0, 0, (d) => x(d.tokens_per_s), row - 12,
        (d) => (d.test.startsWith('pp') ? kColours[0] : kColours[1]));
  labelBars(bars, 15, (d) => d.test, (d) => x(d3.max(d.samples)) + 8,
            (d) => amount(d.tokens_per_s) + ' tok/s');
  dotAt(join(bars, (d) => d.samples), x, (s, i) => 6 + (i % 3) * 5, 2.5, 'var(--ink)')
      .attr('fill-opacity', 0.6);
  explain(
      bars,
      (d) => [d.test, [
        ['tokens/s', amount(d.tokens_per_s)], ['interval', amount(d.low) + ' – ' + amount(d.high)],
        ['tokens', integer(d.tokens)], ['runs', integer(d.samples.length)]
      ]]);
}
