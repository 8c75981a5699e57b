// SPDX-License-Identifier: Apache-2.0
// Inference: TTFT and TPOT by level, batch and length, modules under the roofline, the KV cache, latency, attention.

const isInference = (run) => Boolean(run.setting.task) && run.setting.task !== 'train';

function drawInference(body, {run}) {
  for (const [task, title, name] of [['prefill', 'Prefill: time to the first token (TTFT)', 'TTFT'],
                                     ['decode', 'Decode: time per output token (TPOT)', 'TPOT']])
    drawPhase(body, runs.filter((each) => each.setting.task === task), title, name);
  drawModuleRoofs(body, run);
  for (const folder of folders) {
    const study = folder.inference;
    if (!study) continue;
    if (study.kv_cache && study.kv_cache.length) drawCacheGain(body, study.kv_cache);
    if (study.latency && study.latency.length) drawLatency(body, study.latency);
    if (study.attention && study.attention.length) drawAttention(body, study);
    for (const sentence of study.left_out || []) element(body, 'p', 'Skipped: ' + sentence, 'note');
  }
}

// A bar for each level, batch size and length, in the order in which they ran.
function drawPhase(body, group, title, name) {
  if (!group.length) return;
  const row = 26;
  const {x, bars} = barChart(body, group, {
    name: name.toLowerCase(),
    title,
    row,
    most: d3.max(group, (run) => Math.max(stepNs(run), run.predicted_step_ns || 0)),
    format: time,
    unit: name,
    margin: {top: 6, right: 170, bottom: 42, left: 190},
    caption:
        'Median with its 95% interval; grey mark: predicted. Right: tokens per second and the share of the peak (' +
        (name === 'TTFT' ? 'MFU' : 'MBU') + ').'
  });
  const levels = colourScale(Array.from(new Set(group.map((run) => run.setting.level))));
  stepBars(bars, x, row - 9, (d) => levels(d.setting.level));
  labelBars(bars, 13,
            (d) => d.setting.level + ', batch ' + d.setting.batch_size + ', ' + d.setting.seq_len,
            (d) => x(Math.max(stepNs(d), d.step.high_ns || 0)) + 8,
            (d) => time(stepNs(d)) + '   ' + amount(d.tokens_per_s) + ' tok/s   ' +
                percent(name === 'TTFT' ? d.mfu : d.mbu));
  const over = Array.from(new Set(group.filter((run) => run.mbu > 1).map(mbuReason)));
  if (over.length) element(body, 'p', 'MBU over 100%: ' + over.join('; ') + '.', 'note');
  explain(bars,
          (d) => [d.text, [
            [name, time(stepNs(d))], ['95% interval', interval(d.step)],
            ['predicted', time(d.predicted_step_ns)], ['tokens/s', amount(d.tokens_per_s)],
            ['MFU', percent(d.mfu)], ['MBU', percent(d.mbu)],
            ['weights read', bytes(d.weight_bytes)], ['KV cache read', bytes(d.cache_bytes)],
            ['kernel calls', integer(d.kernel_calls)], ['owned memory', bytes(d.memory.owned_bytes)]
          ]]);
}

// Attention and MLP of both phases, all layers together, by batch size and length.
function drawModuleRoofs(body, run) {
  const shown = runs.filter((each) => isInference(each) && each.folder === run.folder),
        isOneLevel = new Set(shown.map((each) => each.setting.level)).size === 1;
  const points =
      shown
          .flatMap((each) =>
                       (each.modules ||
                        []).map((module) => ({
                                  key: each.setting.task + ' ' + module.name + ', B ' +
                                      each.setting.batch_size + ', L ' + each.setting.seq_len +
                                      ', ' + each.setting.level,
                                  task: each.setting.task,
                                  name: module.name,
                                  flops: module.flops,
                                  macs: module.macs,
                                  bytes: module.compulsory_bytes,
                                  time_ns: module.time_ns,
                                  flops_per_byte: module.flops_per_compulsory_byte,
                                  flops_per_s:
                                      module.time_ns > 0 ? 1e9 * module.flops / module.time_ns : 0,
                                  short: module.name + ' B' + each.setting.batch_size + ' L' +
                                      each.setting.seq_len +
                                      (isOneLevel ? '' : ' ' + each.setting.level),
                                })))
          .filter((point) => point.flops_per_s > 0 && point.flops_per_byte > 0);
  const roofs = roofsOf(run.folder);
  if (!points.length || !roofs) return;
  const memory = roofs.memory[roofs.memory.length - 1], tops = roofs.arithmetic;
  const frame = chart(body, {
    name: 'module_roofline',
    title: 'Attention and MLP under the roofline',
    height: 420,
    margin: {top: 26, right: 140, bottom: 42, left: 62},
    caption:
        'All layers together, projections included, by compulsory bytes: inputs, outputs, weights and attended KV entries, each once.'
  });
  const xs = points.map((point) => point.flops_per_byte)
                 .concat(d3.max(tops, (each) => each.flops_per_s) / memory.bytes_per_s);
  const ys = points.map((point) => point.flops_per_s).concat(tops.map((each) => each.flops_per_s));
  const xDomain =
            [
              10 ** Math.floor(Math.log10(d3.min(xs) / 1.5)),
              10 ** Math.ceil(Math.log10(d3.max(xs) * 1.5))
            ],
        yDomain = [10 ** Math.floor(Math.log10(d3.min(ys) / 1.5)), d3.max(ys) * 2];
  const x = d3.scaleLog(xDomain, [0, frame.width]), y = d3.scaleLog(yDomain, [frame.height, 0]);
  axis(frame, 'bottom', x, {
    values: decades(xDomain),
    format: (v) => Number(v.toPrecision(3)),
    title: 'FLOPs per compulsory byte',
    grid: true
  });
  axis(frame, 'left', y, {values: decades(yDomain), format: amount, title: 'FLOP/s', grid: true});
  drawLines(frame,
            [
              {
                slanted: true,
                name: 'memory',
                value: memory.bytes_per_s,
                text: 'memory ' + bandwidth(memory.bytes_per_s)
              },
              ...tops.map((each) => ({
                            name: each.name,
                            value: each.flops_per_s,
                            text: each.name + ' GEMM ' + flops(each.flops_per_s)
                          }))
            ],
            x, y);
  const colour = {prefill: kColours[0], decode: kColours[1]};
  const marks = frame.plot.append('g')
                    .selectAll('path')
                    .data(points)
                    .enter()
                    .append('path')
                    .attr('tabindex', 0)
                    .attr('d',
                          (d) => d3.symbol().size(80).type(
                              d.name === 'attention' ? d3.symbolCircle : d3.symbolSquare)())
                    .attr('transform',
                          (d) => 'translate(' + x(d.flops_per_byte) + ',' + y(d.flops_per_s) + ')')
                    .attr('fill', (d) => colour[d.task] || kColours[6])
                    .attr('fill-opacity', 0.6)
                    .attr('stroke', (d) => colour[d.task] || kColours[6]);
  explain(
      marks,
      (d) => [d.key, [
        ['rate', flops(d.flops_per_s)], ['intensity', intensity(d.flops_per_byte)],
        ['time', time(d.time_ns)], ['FLOPs', amount(d.flops)], ['compulsory bytes', bytes(d.bytes)]
      ]]);
  labelPoints(
      frame,
      points.map((d) => ({text: d.short, x: x(d.flops_per_byte), y: y(d.flops_per_s), r: 5})));
  legend(frame.figure, [
    ['prefill', colour.prefill], ['decode', colour.decode],
    ['circle: attention, square: MLP', 'transparent']
  ]);
}

// Curves over a length on two logarithmic axes. A series is {name, colour, points: [{x, y, about}]}.
function drawCurves(body, series, {name, title, caption, xTitle, yTitle, format}) {
  const drawn = series.filter((each) => each.points.length),
        all = drawn.flatMap((each) => each.points);
  if (!all.length) return null;
  const frame = chart(
      body,
      {name, title, caption, height: 330, margin: {top: 26, right: 130, bottom: 42, left: 64}});
  const xs = all.map((point) => point.x),
        x = d3.scaleLog([d3.min(xs) / 1.3, d3.max(xs) * 1.3], [0, frame.width]);
  const y =
      d3.scaleLog([d3.min(all, (point) => point.y) / 1.5, d3.max(all, (point) => point.y) * 1.5],
                  [frame.height, 0]);
  const ticks = Array.from(new Set(xs)).sort(d3.ascending);
  axis(frame, 'bottom', x, {values: ticks, format: integer, title: xTitle});
  axis(frame, 'left', y, {
    values: format === bytes ? binaryPowers(y.domain()) : decades(y.domain()),
    format,
    title: yTitle,
    grid: true
  });
  const ends = [];
  for (const each of drawn) {
    const sorted = each.points.slice().sort((a, b) => a.x - b.x);
    frame.plot.append('path')
        .attr('d', d3.line().x((d) => x(d.x)).y((d) => y(d.y))(sorted))
        .attr('fill', 'none')
        .attr('stroke', each.colour)
        .attr('stroke-width', 1.8)
        .attr('stroke-dasharray', each.dash || null);
    explain(frame.plot.append('g')
                .selectAll('circle')
                .data(sorted)
                .enter()
                .append('circle')
                .attr('tabindex', 0)
                .attr('cx', (d) => x(d.x))
                .attr('cy', (d) => y(d.y))
                .attr('r', 4)
                .attr('fill', (d) => (d.isPlanned ? 'var(--paper)' : each.colour))
                .attr('stroke', each.colour),
            (d) => [each.name + (d.isPlanned ? ', not run' : ''), d.about]);
    const end = sorted[sorted.length - 1];
    let base = y(end.y) + 4;
    while (ends.some((other) => Math.abs(other - base) < 14)) base += 14;
    ends.push(base);
    frame.plot.append('text')
        .attr('class', 'halo')
        .attr('x', x(end.x) + 9)
        .attr('y', base)
        .style('fill', each.colour)
        .text(each.name);
  }
  return frame;
}

function drawCacheGain(body, gains) {
  const points = (key) => gains.filter((gain) => gain[key].median_ns > 0).map((gain) => ({x: gain.context, y: gain[key].median_ns, about: [['context', integer(gain.context) + ' tokens'],
    ['time', time(gain[key].median_ns)], ['95% interval', interval(gain[key])], ['gain of the cache', (gain.without.median_ns / gain.with.median_ns).toFixed(1) + 'x'], ['cache', bytes(gain.cache_bytes)], ['max abs difference of logits', gain.logits_difference.toExponential(1)]]}));
  drawCurves(body,
             [
               {name: 'without the cache', colour: kColours[1], points: points('without')},
               {name: 'with the cache', colour: kColours[0], points: points('with')}
             ],
             {
               name: 'kv_cache',
               title: 'One more token, with and without the KV cache',
               xTitle: 'tokens of context',
               yTitle: 'time of a token',
               format: time,
               caption: 'At batch 1. With the cache a token is ' +
                   gains
                       .map((gain) => (gain.without.median_ns / gain.with.median_ns).toFixed(1) +
                                ' times as fast after ' + integer(gain.context))
                       .join(', ') +
                   ' tokens.'
             });
}

function drawLatency(body, latencies) {
  element(body, 'h3', 'Latency of whole generations');
  table(body, {
    name: 'latency',
    rows: latencies,
    columns: [
      {title: 'batch', value: (row) => row.batch_size},
      {title: 'prompt', value: (row) => row.prompt_tokens},
      {title: 'tokens', value: (row) => row.tokens},
      {title: 'TTFT', value: (row) => row.ttft_ns, text: time},
      {title: 'TPOT', value: (row) => row.tpot.median_ns, text: time},
      {title: 'wall', value: (row) => row.wall_ns, text: time},
      {title: 'TTFT + TPOT × (n − 1)', value: (row) => row.predicted_ns, text: time},
      {title: 'error', value: (row) => row.error, text: signedPercent},
      {title: 'tokens/s', value: (row) => row.tokens_per_s, text: amount},
      {title: 'session', value: (row) => row.session_ns, text: time},
      {title: 'first generation', value: (row) => row.first_generation_ns, text: time}
    ]
  });
}

function drawAttention(body, study) {
  const sizes = Array.from(new Set(study.attention.map((each) => each.head_size))),
        colour = colourScale(sizes.map(String));
  const series = sizes.flatMap((size) => ['standard', 'flash'].map((form) => ({
    name: form + ', head ' + size, colour: colour(String(size)), dash: form === 'standard' ? '5 4' : null,
    points: study.attention.filter((each) => each.head_size === size && (each[form].time.median_ns > 0 || each[form].predicted_ns > 0)).map((each) => ({
      x: each.seq_len, y: each[form].skipped ? each[form].predicted_ns : each[form].time.median_ns, isPlanned: Boolean(each[form].skipped), arena: each[form].arena_bytes, about: [
      ['length', integer(each.seq_len)], ['time', each[form].skipped ? '' : time(each[form].time.median_ns)], ['95% interval', interval(each[form].time)], ['predicted', time(each[form].predicted_ns)],
      ['temporaries', bytes(each[form].arena_bytes)], ['measured memory', each[form].measured_bytes ? bytes(each[form].measured_bytes) : ''], ['bytes moved', bytes(each[form].planned_bytes)], ['kernel calls', integer(each[form].kernel_calls)]]})),
  })));
  const skipped = study.attention.flatMap(
      (each) => ['standard', 'flash']
                    .filter((form) => each[form].skipped)
                    .map((form) => form + ' at length ' + integer(each.seq_len) + ', head ' +
                             each.head_size + ': ' + each[form].skipped));
  const fits =
      (study.standard_attention_fits || [])
          .map((reach) => 'at head size ' + reach.head_size + ' standard attention fills ' +
                   bytes(reach.memory_bytes) + ' at a length of ' + integer(reach.seq_len));
  drawCurves(body, series, {
    name: 'attention_time',
    title: 'Standard and flash attention: time',
    xTitle: 'length',
    yTitle: 'time of a call',
    format: time,
    caption:
        'Causal attention of one head in fp32. Hollow points were not run: their time is predicted.' +
        (fits.length ? ' By plan, ' + fits.join('; ') + '.' : '')
  });
  drawCurves(body, series.map((each) => Object.assign({}, each, {
    points: each.points.map((point) => Object.assign({}, point, {y: point.arena}))
                .filter((point) => point.y > 0)
  })),
             {
               name: 'attention_memory',
               title: 'Standard and flash attention: temporaries',
               xTitle: 'length',
               yTitle: 'planned bytes',
               format: bytes,
               caption: 'Planned bytes of the arena, exact also where nothing was run.'
             });
  if (skipped.length) {
    const box = element(body, 'details', undefined, 'note');
    element(box, 'summary', plural(skipped.length, 'point') + ' not run');
    for (const sentence of skipped) element(box, 'div', sentence);
  }
}
