// SPDX-License-Identifier: Apache-2.0
// Bench: the cases of one op under the roofline and against their predicted time, or a model's tokens per second.

function drawBench(body) {
  for (const folder of folders) {
    if (!folder.bench) continue;
    if (folder.bench.kind === 'op') drawOpCases(body, folder, folder.bench.result);
    if (folder.bench.kind === 'model') drawModelTests(body, folder.bench.result);
  }
}

function drawOpCases(body, folder, result) {
  const ran = result.cases.filter((each) => !each.refused), roofs = roofsOf(folder),
        dtype = productType(result);
  element(body, 'p',
          result.op + ', ' + result.dtype + ', on ' + result.device + ', ' +
              plural(result.threads, 'thread') + ': ' + plural(ran.length, 'case') + '.');
  const cases = ran.map((each) => Object.assign({
    key: each.name + ' ' + each.inputs,
    time_ns: each.median_ns,
    flops_per_byte: each.bytes > 0 ? each.flops / each.bytes : 0,
    flops_per_s: 1e9 * each.flops / each.median_ns,
    bytes_per_s: 1e9 * each.bytes / each.median_ns,
    colour: kBoundColours[each.bound]
  },
                                                each));
  const points = cases.filter((each) => each.flops_per_s > 0 && each.flops_per_byte > 0);
  if (roofs && points.length) {
    drawRoofs(body, roofs, dtype, points, null, 'planned',
              (point) => [['case', point.name], ['inputs', point.inputs],
                          ['median', time(point.median_ns)],
                          ['95% interval', time(point.low_ns) + ' – ' + time(point.high_ns)],
                          ['predicted', time(point.predicted_ns)],
                          ['limit', point.bound + (point.level ? ' (' + point.level + ')' : '')]]);
    element(
        body, 'p',
        'Each run uses the same operands, so small ones stay in a cache and lie above the roof of memory.',
        'note');
  }
  table(body, {
    name: 'bench_' + result.op,
    rows: cases,
    columns: [
      {title: 'case', value: (row) => row.name, isText: true},
      {title: 'inputs', value: (row) => row.inputs, isText: true},
      {title: 'median', value: (row) => row.median_ns, text: time},
      {title: 'low', value: (row) => row.low_ns, text: time},
      {title: 'high', value: (row) => row.high_ns, text: time},
      {title: 'FLOPs', value: (row) => row.flops, text: amount},
      {title: 'bytes', value: (row) => row.bytes, text: bytes},
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
    element(body, 'p', 'Not run: ' + each.name + ': ' + each.refused, 'note');
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
