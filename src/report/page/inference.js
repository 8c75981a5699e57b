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
  const levels = colourScale(unique(group.map((run) => run.setting.level)));
  stepBars(bars, x, row - 9, (d) => levels(d.setting.level));
  labelBars(bars, 13,
            (d) => d.setting.level + ', batch ' + d.setting.batch_size + ', ' + d.setting.seq_len,
            (d) => x(Math.max(stepNs(d), d.step.high_ns || 0)) + 8,
            (d) => time(stepNs(d)) + '   ' + amount(d.tokens_per_s) + ' tok/s   ' +
                percent(name === 'TTFT' ? d.mfu : d.mbu));
  const over = unique(group.filter((run) => run.mbu > 1).map(mbuReason));
  if (over.length) element(body, 'p', 'MBU over 100%: ' + over.join('; ') + '.', 'note');
  explain(bars, (d) => [d.text, [
                  ...aboutRun(d), ['MBU', percent(d.mbu)], ['weights read', bytes(d.weight_bytes)],
                  ['KV cache read', bytes(d.cache_bytes)]
                ]]);
}

// Attention and MLP of both phases, all layers together, by batch size and length.
function drawModuleRoofs(body, run) {
  const shown = runs.filter((each) => isInference(each) && each.folder === run.folder),
        isOneLevel = unique(shown.map((each) => each.setting.level)).length === 1,
        colours = {prefill: kColours[0], decode: kColours[1]};
  const points =
      shown
          .flatMap(({setting, modules = []}) => modules.map((module) => Object.assign({}, module, {
            key: setting.task + ' ' + module.name + ', B ' + setting.batch_size + ', L ' +
                setting.seq_len + ', ' + setting.level,
            short: module.name + ' B' + setting.batch_size + ' L' + setting.seq_len +
                (isOneLevel ? '' : ' ' + setting.level),
            bytes: module.compulsory_bytes,
            flops_per_byte: module.flops_per_compulsory_byte,
            flops_per_s: module.time_ns > 0 ? 1e9 * module.flops / module.time_ns : 0,
            colour: colours[setting.task],
            symbol: module.name === 'attention' ? d3.symbolCircle : d3.symbolSquare
          })))
          .filter((point) => point.flops_per_s > 0 && point.flops_per_byte > 0);
  if (!points.length || !run.roofline) return;
  const frame = drawRoofs(body, run.roofline, points, {
    name: 'module_roofline',
    title: 'Attention and MLP under the roofline',
    caption:
        'All layers together, projections included, by compulsory bytes: inputs, outputs, weights and attended KV entries, each once.',
    bytes: 'compulsory',
    labels: points.length,
    radius: 9,
    more: (d) => pairs('module', 'time_ns flops compulsory_bytes', d)
  });
  legend(frame.figure,
         [...Object.entries(colours), ['circle: attention, square: MLP', 'transparent']]);
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
  const ticks = unique(xs).sort(d3.ascending);
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
    explain(dotAt(frame.plot.append('g').selectAll('circle').data(sorted).enter(), (d) => x(d.x),
                  (d) => y(d.y), 4, (d) => (d.isPlanned ? 'var(--paper)' : each.colour))
                .attr('tabindex', 0)
                .attr('stroke', each.colour),
            (d) => [each.name + (d.isPlanned ? ', not run' : ''), d.about]);
    const end = sorted[sorted.length - 1];
    let base = y(end.y) + 4;
    while (ends.some((other) => Math.abs(other - base) < 14)) base += 14;
    ends.push(base);
    textAt(frame.plot, x(end.x) + 9, base, each.name, 'halo').style('fill', each.colour);
  }
  return frame;
}

function drawCacheGain(body, gains) {
  const gainOf = (gain) => (gain.without.median_ns / gain.with.median_ns).toFixed(1);
  const curve = (key, colour) => ({
    name: key + ' the cache',
    colour,
    points:
        gains.filter((gain) => gain[key].median_ns > 0)
            .map((gain) => ({
                   x: gain.context,
                   y: gain[key].median_ns,
                   about: [
                     ['context', plural(gain.context, 'token')],
                     ['time', time(gain[key].median_ns)], ['95% interval', interval(gain[key])],
                     ['gain of the cache', gainOf(gain) + 'x'], ['cache', bytes(gain.cache_bytes)],
                     ['max abs difference of logits', gain.logits_difference.toExponential(1)]
                   ]
                 }))
  });
  drawCurves(body, [curve('without', kColours[1]), curve('with', kColours[0])], {
    name: 'kv_cache',
    title: 'One more token, with and without the KV cache',
    xTitle: 'tokens of context',
    yTitle: 'time of a token',
    format: time,
    caption: 'At batch 1. With the cache a token is ' +
        gains.map((gain) => gainOf(gain) + ' times as fast after ' + integer(gain.context))
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
      ...columns('latency', 'batch_size prompt_tokens tokens ttft_ns'),
      {title: 'TPOT', value: (row) => row.tpot.median_ns, text: time},
      ...columns('latency',
                 'wall_ns predicted_ns error tokens_per_s session_ns first_generation_ns')
    ]
  });
}

function drawAttention(body, study) {
  const sizes = unique(study.attention.map((each) => each.head_size)),
        forms = ['standard', 'flash'], colour = colourScale(sizes.map(String));
  const point = (length, form) => ({
    x: length,
    y: form.skipped ? form.predicted_ns : form.time.median_ns,
    isPlanned: Boolean(form.skipped),
    arena: form.arena_bytes,
    about: [
      ['length', integer(length)], ['time', form.skipped ? '' : time(form.time.median_ns)],
      ['95% interval', interval(form.time)],
      ...pairs('attention', 'predicted_ns arena_bytes measured_bytes planned_bytes kernel_calls',
               form)
    ]
  });
  const series = sizes.flatMap(
      (size) => forms.map((form) => ({
                            name: form + ', head ' + size,
                            colour: colour(String(size)),
                            dash: form === 'standard' ? '5 4' : null,
                            points: study.attention.filter((each) => each.head_size === size)
                                        .map((each) => point(each.seq_len, each[form]))
                                        .filter((each) => each.y > 0)
                          })));
  const skipped = study.attention.flatMap(
      (each) => forms.filter((form) => each[form].skipped)
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
  const arenas = series.map(
      (each) => ({
        ...each,
        points: each.points.map((one) => ({...one, y: one.arena})).filter((one) => one.y > 0)
      }));
  drawCurves(body, arenas, {
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
