// SPDX-License-Identifier: Apache-2.0
// The panels of the engine at work. Each draws what server.js keeps.

const kStages = {
  queued: kColours[6],
  prefill: kColours[1],
  decode: kColours[0]
};
const kShownSteps = 120, kFewestSteps = 30, kShownRequests = 16, kLaneSeconds = 60, kRoofSteps = 64;
const kStates = [['free', '.'], ['cached', 'c'], ['used', 'u'], ['shared', 's']];
const kStateColours = {
  free: 'var(--rule)',
  cached: kColours[5],
  used: kColours[0],
  shared: kColours[2]
};

function stepKind(step) {
  if (step.prefill_tokens === 0) return 'decode';
  return step.decode_tokens === 0 ? 'prefill' : 'mixed';
}
const kKinds = {
  decode: kColours[0],
  prefill: kColours[1],
  mixed: kColours[3]
};

function drawFacts(box) {
  const m = server.metrics;
  const share = (part, whole) => (whole > 0 ? percent(part / whole) : '–');
  const facts = [
    ['running', integer(m.ridge_num_requests_running), 'of ' + plural(m.ridge_slots, 'slot')],
    ['waiting', integer(m.ridge_num_requests_waiting), 'in the queue'],
    ['tokens/s', digits(tokensPerSecond()), 'of the last ' + kRateSeconds + ' s'],
    ['generated', integer(m.ridge_generation_tokens_total), 'tokens'],
    ['steps', integer(m.ridge_engine_steps_total), ''],
    [
      'KV in use', percent(m.ridge_kv_cache_usage_perc),
      'of ' + plural(m.ridge_kv_cache_blocks, 'block')
    ],
    [
      'prefix hits', share(m.ridge_prefix_cache_hits_total, m.ridge_prefix_cache_queries_total),
      'of prompt tokens'
    ],
    ['MFU', m.ridge_mfu_ratio === undefined ? '–' : percent(m.ridge_mfu_ratio), 'last steps'],
    [
      'MBU', m.ridge_mbu_ratio === undefined ? '–' : percent(m.ridge_mbu_ratio),
      'last steps' + (m.ridge_mbu_ratio > 1 && server.mbuReason ? ': ' + server.mbuReason : '')
    ],
    ['preemptions', integer(m.ridge_num_preemptions_total), ''],
  ];
  box.textContent = '';
  for (const [name, value, note] of facts) {
    const entry = element(box, 'dl');
    element(entry, 'dt', name);
    element(element(entry, 'dd', value), 'small', note);
  }
}

// Appends an element with attributes to each of a selection.
function shape(parent, name, attributes) {
  const made = parent.append(name);
  for (const [key, value] of Object.entries(attributes)) made.attr(key, value);
  return made;
}

function stepPairs(step) {
  const ns = step.end_ns - step.begin_ns, count = step.read_bytes + step.written_bytes;
  return [
    'step ' + integer(step.number),
    [
      ['batch', integer(step.sequences)], ['decode tokens', integer(step.decode_tokens)],
      ['prefill tokens', integer(step.prefill_tokens)], ['time', time(ns)],
      ['FLOPs', amount(step.executed_flops)], ['bytes', bytes(count)]
    ]
  ];
}

// Three strips above each other with one axis of steps.
function drawSteps(body) {
  const shown = server.steps.slice(-kShownSteps);
  if (!shown.length) return void element(body, 'p', 'No step yet.', 'note');
  const row = 62, gap = 34, margin = {top: 22, right: 8, bottom: 40, left: 62};
  const frame = chart(body, {
    name: 'steps',
    label: 'Batch, tokens and time by step',
    saves: false,
    height: 3 * row + 2 * gap + margin.top + margin.bottom,
    margin
  });
  const last = shown[shown.length - 1].number;
  const first = Math.max(1, last - kShownSteps + 1);
  const span = Math.max(kFewestSteps, last - first + 1);  // a few steps do not fill the width
  const x = d3.scaleLinear([first - 0.5, first + span - 0.5], [0, frame.width]);
  const wide = Math.max(1, x(1) - x(0) - 1);
  const strips = [
    ['batch (sequences)', [['sequences', kColours[2]]], integer],
    ['tokens', [['decode_tokens', kKinds.decode], ['prefill_tokens', kKinds.prefill]], integer],
    ['time', [['ns', kColours[6]]], time],
  ];
  strips.forEach(([title, parts, format], i) => {
    const value = (step, name) => (name === 'ns' ? step.end_ns - step.begin_ns : step[name]);
    const sum = (step) => d3.sum(parts, ([name]) => value(step, name));
    const y = d3.scaleLinear([0, d3.max(shown, sum) || 1], [row, 0]).nice(2);
    const group = frame.plot.append('g').attr('transform', 'translate(0,' + i * (row + gap) + ')');
    const whole = format === integer ? y.ticks(3).filter(Number.isInteger) : y.ticks(3);
    shape(group, 'g', {
      class: 'axis'
    }).call(d3.axisLeft(y).tickValues(whole).tickFormat(format).tickSizeOuter(0));
    shape(group, 'text', {class: 'quiet', x: 4 - margin.left, y: -8}).text(title);
    for (const step of shown) {
      let base = 0;
      for (const [name, colour] of parts) {
        const top = base + value(step, name);
        if (top > base)
          shape(group, 'rect', {
            x: x(step.number) - wide / 2,
            width: wide,
            y: y(top),
            height: Math.max(0.5, y(base) - y(top)),
            fill: colour
          });
        base = top;
      }
    }
  });
  // One mark a step over all strips explains it.
  const marks = shape(frame.plot.selectAll('.step').data(shown).enter(), 'rect', {
    class: 'step',
    tabindex: (d) => (d.number === last ? 0 : -1),
    x: (d) => x(d.number) - wide / 2,
    width: wide,
    height: frame.height,
    fill: 'transparent'
  });
  explain(marks, stepPairs);
  axisOfSteps(frame, x);
  legend(frame.figure, [['decode', kKinds.decode], ['prefill', kKinds.prefill]]);
}

function axisOfSteps(frame, x) {
  axis(frame, 'bottom', x, {ticks: Math.max(2, frame.width / 90), format: integer, title: 'step'});
  // The arrows go from step to step.
  const marks = frame.plot.selectAll('.step').nodes();
  marks.forEach((mark, i) => mark.addEventListener('keydown', (event) => {
    const next = marks[i + ({ArrowLeft: -1, ArrowRight: 1}[event.key] || 0)];
    if (next && next !== mark) next.focus();
  }));
}

function drawRequests(body) {
  const all = requestList();
  if (!all.length) return void element(body, 'p', 'No request yet.', 'note');
  const end = (request) => (request.end_ns === null ? server.nowNs : request.end_ns);
  const latest = d3.max(all, end);
  const shown =
      all.filter((each) => latest - end(each) < kLaneSeconds * 1e9).slice(-kShownRequests);
  const from = Math.max(d3.min(shown, (each) => each.stages[0][1]), latest - kLaneSeconds * 1e9);
  const row = 18, margin = {top: 8, right: 12, bottom: 42, left: 62};
  const frame = chart(body, {
    name: 'requests',
    label: 'Requests as lanes: queued, prefill, decode',
    saves: false,
    height: shown.length * row + margin.top + margin.bottom,
    margin
  });
  const x = d3.scaleLinear([0, Math.max((latest - from) / 1e9, 1e-3)], [0, frame.width]);
  axis(frame, 'bottom', x, {
    ticks: Math.max(2, frame.width / 110),
    format: (s) => time(1e9 * s),
    title: 'time',
    grid: true
  });
  const lanes =
      shape(frame.plot.selectAll('.lane').data(shown).enter(), 'g',
            {class: 'lane', tabindex: 0, transform: (d, i) => 'translate(0,' + i * row + ')'});
  shape(lanes, 'text', {x: -10, y: 13, 'text-anchor': 'end'}).text((d) => '#' + d.id);
  const slices = (request) =>
      request.stages
          .map(([stage, begin], i) => ({
                 stage,
                 begin: Math.max(begin, from),
                 end: i + 1 < request.stages.length ? request.stages[i + 1][1] : end(request)
               }))
          .filter((slice) => slice.end > slice.begin);
  const at = (ns) => x((ns - from) / 1e9);
  shape(lanes.selectAll(null).data(slices).enter(), 'rect', {
    x: (d) => at(d.begin),
    width: (d) => Math.max(1, at(d.end) - at(d.begin)),
    y: 3,
    height: row - 5,
    fill: (d) => kStages[d.stage]
  });
  explain(lanes, (d) => ['request ' + d.id, [
                   ['prompt tokens', integer(d.prompt_tokens)],
                   ['cached', integer(d.cached_tokens)], ['generated', integer(d.generated_tokens)],
                   ['TTFT', d.first_ns === null ? 'not yet' : time(ttftNs(d))],
                   ['end', d.finish_reason === null ? 'running' : d.finish_reason]
                 ]]);
  legend(frame.figure, Object.entries(kStages));
}

const ttftNs = (request) => request.first_ns - request.stages[0][1];
const tpotNs = (request) => (request.last_ns - request.first_ns) / (request.generated_tokens - 1);

// By nearest rank, as ridge bench serve has it.
function percentile(sorted, share) {
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)];
}

function drawLatency(body) {
  const ended = requestList().filter((each) => each.end_ns !== null);
  const rows = [
    [
      'TTFT', ended.filter((each) => each.first_ns !== null).map(ttftNs),
      'ridge_time_to_first_token_seconds'
    ],
    [
      'TPOT', ended.filter((each) => each.generated_tokens > 1).map(tpotNs),
      'ridge_time_per_output_token_seconds'
    ],
  ];
  const whole = element(body, 'table'), head = element(element(whole, 'thead'), 'tr');
  for (const title of ['', 'p50', 'p90', 'p99', 'mean since start', 'requests'])
    element(head, 'th', title).scope = 'col';
  const list = element(whole, 'tbody');
  for (const [name, values, metric] of rows) {
    const line = element(list, 'tr'), sorted = values.sort((a, b) => a - b);
    const count = server.metrics[metric + '_count'] || 0;
    element(line, 'td', name);
    for (const share of [0.5, 0.9, 0.99])
      element(line, 'td', sorted.length ? time(percentile(sorted, share)) : '–');
    element(line, 'td', count ? time(1e9 * server.metrics[metric + '_sum'] / count) : '–');
    element(line, 'td', integer(count));
  }
  element(body, 'p', 'Percentiles are of the last ' + plural(ended.length, 'ended request') + '.',
          'note');
}

function drawBlocks(body) {
  const blocks = server.blocks, cells = blocks.cells;
  const side = cells.length > 2048 ? 6 : cells.length > 512 ? 9 : 12;
  const columns = Math.max(1, Math.floor((body.clientWidth || 600) / side));
  const rows = Math.ceil(cells.length / columns), ratio = window.devicePixelRatio || 1;
  const figure = element(body, 'figure'), canvas = element(figure, 'canvas');
  const used = blocks.used + blocks.shared;
  canvas.setAttribute('role', 'img');
  canvas.setAttribute(
      'aria-label',
      'Map of ' + plural(blocks.blocks, 'KV block') + ', ' + integer(used) + ' in use');
  canvas.width = columns * side * ratio;
  canvas.height = rows * side * ratio;
  canvas.style.width = columns * side + 'px';
  canvas.style.height = rows * side + 'px';
  const context = canvas.getContext('2d');
  context.scale(ratio, ratio);
  const colours =
      Object.fromEntries(kStates.map(([name, mark]) => [mark, resolved(kStateColours[name])]));
  for (let i = 0; i < cells.length; ++i) {
    context.fillStyle = colours[cells[i]];
    context.fillRect(i % columns * side, Math.floor(i / columns) * side, side - 1, side - 1);
  }
  legend(figure,
         kStates.map(([name]) => [name + ' ' + integer(blocks[name]), kStateColours[name]]));
  const each = blocks.blocks_per_cell > 1 ?
      'A cell is ' + plural(blocks.blocks_per_cell, 'block') + '. ' :
      '';
  element(body, 'p',
          each + 'A block holds ' + server.about.block_tokens +
              ' positions. Cached: nobody uses it, and a prompt that ' +
              'begins alike can. Shared: by several requests.',
          'note');
}

function drawStepRoofline(body) {
  const shown = server.steps.slice(-kRoofSteps).filter((step) => step.executed_flops > 0);
  const last = shown[shown.length - 1];
  if (!last) return void element(body, 'p', 'No step yet.', 'note');
  const points = shown.map((step) => {
    const ns = step.end_ns - step.begin_ns, count = step.read_bytes + step.written_bytes,
          kind = stepKind(step);
    return {
      key: 'step ' + integer(step.number),
      step,
      time_ns: ns,
      flops: step.executed_flops,
      macs: step.executed_flops / 2,
      bytes: count,
      flops_per_byte: step.executed_flops / count,
      flops_per_s: 1e9 * step.executed_flops / ns,
      bytes_per_s: 1e9 * count / ns,
      colour: kKinds[kind]
    };
  });
  const newest = points[points.length - 1];
  const roofs = server.about.roofs, roofline = roofs && (roofs[last.product_type] || roofs.f32);
  if (!roofline)
    return void element(
        body, 'p',
        'The ceilings of this machine are unknown: run ridge machine once. The last step: ' +
            flops(newest.flops_per_s) + ' at ' + intensity(newest.flops_per_byte) + '.',
        'note');
  drawRoofs(body, roofline, points,
            {more: (d) => stepPairs(d.step)[1].slice(0, 3), labels: 0, radius: 9, saves: false});
  legend(body, Object.entries(kKinds));
  element(body, 'p',
          'Each point is one of the last ' + integer(points.length) + ' steps, its area the time.',
          'note');
}
