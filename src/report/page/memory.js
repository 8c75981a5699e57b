// SPDX-License-Identifier: Apache-2.0
// Memory: what is live over the step by class, what is live at the peak, and every point of a sweep.

const kClassColours = Object.fromEntries(kMemoryClasses.map((name, i) => [name, kColours[i]]));

function drawMemory(body, {run}) {
  const memory = run.memory, profile = run.memory_profile || {};
  element(body, 'p',
          'Ridge allocates ' + bytes(memory.allocated_bytes) + ' (planned: ' +
              bytes(memory.owned_bytes) + '), of which ' + bytes(memory.arena_bytes) +
              ' are one arena for temporaries. With code and libraries, ' +
              bytes(memory.foreign_bytes) + ' before the first allocation, that predicts ' +
              bytes(memory.predicted_peak_bytes) + ' resident; the system reported ' +
              bytes(memory.measured_peak_bytes) + ' at most.');
  if (run.points.length) drawMemoryCurve(body, run, profile);
  if (profile.tensors_at_peak && profile.tensors_at_peak.length) drawTensors(body, profile);
  drawSweep(body);
}

// Shows the node under the pointer, or the one that the arrow keys reach from the peak.
function hoverMemory(frame, points, used, x, peak) {
  const line = frame.plot.append('line')
                   .attr('y2', frame.height)
                   .attr('stroke', 'var(--ink)')
                   .attr('display', 'none');
  const show = (i, left, base) => {
    const point = points[Math.max(0, Math.min(points.length - 1, i))];
    line.attr('display', null).attr('x1', x(i + 0.5)).attr('x2', x(i + 0.5));
    tip.show(left, base, point.op + ' %' + point.node + ', ' + bytes(liveBytes(point)) + ' live', [
      ...used.map((name) => [spelled(name), bytes(point[name])]), ['scope', point.scope],
      ['phase', point.phase]
    ]);
  };
  let at = peak;
  frame.plot.append('rect')
      .attr('width', frame.width)
      .attr('height', frame.height)
      .attr('fill', 'transparent')
      .attr('tabindex', 0)
      .attr('aria-label', 'live memory by node; arrows move')
      .on('mousemove',
          function() {
            at = Math.floor(x.invert(d3.mouse(this)[0]));
            show(at, d3.event.clientX, d3.event.clientY);
          })
      .on('mouseout',
          () => {
            line.attr('display', 'none');
            tip.hide();
          })
      .on('keydown', function() {
        const by = {ArrowLeft: -1, ArrowRight: 1}[d3.event.key];
        if (!by) return;
        d3.event.preventDefault();
        at = Math.max(0, Math.min(points.length - 1, at + by));
        const box = this.getBoundingClientRect();
        show(at, box.left + x(at), box.top);
      });
}

function drawMemoryCurve(body, run, profile) {
  const points = run.points,
        used = kMemoryClasses.filter((name) => d3.max(points, (point) => point[name]) > 0);
  const peak = d3.scan(points, (a, b) => liveBytes(b) - liveBytes(a));
  const owned = run.memory.owned_bytes;
  const frame = chart(body, {
    name: 'memory',
    title: 'Live memory over the schedule',
    height: 330,
    margin: {top: 26, right: 14, bottom: 42, left: 72},
    caption:
        'Planned bytes that are live while each node runs, by class. The arena is larger by the gaps of packing, so the owned line lies above the peak.'
  });
  const x = d3.scaleLinear([0, points.length], [0, frame.width]);
  const y = d3.scaleLinear([0, 1.2 * Math.max(owned, liveBytes(points[peak]))], [frame.height, 0]);
  const step = binaryStep(y.domain()[1]);
  axis(frame, 'bottom', x, {ticks: Math.max(3, frame.width / 110), title: 'node of the schedule'});
  axis(frame, 'left', y,
       {values: d3.range(0, y.domain()[1], step), format: bytes, title: 'live bytes', grid: true});
  const stacked = d3.stack().keys(used)(points);
  const area =
      d3.area().curve(d3.curveStepAfter).x((d, i) => x(i)).y0((d) => y(d[0])).y1((d) => y(d[1]));
  const closed =
      stacked.map((layer) => Object.assign([...layer, layer[layer.length - 1]], {key: layer.key}));
  frame.plot.selectAll('.layer')
      .data(closed)
      .enter()
      .append('path')
      .attr('class', 'layer')
      .attr('d', area)
      .attr('fill', (d) => kClassColours[d.key]);
  // Bands of the phases above the plot.
  merged(points.map((point, i) => ({kernel: point, begin: i, end: i + 1})), (point) => point.phase)
      .forEach((band) => {
        frame.plot.append('rect')
            .attr('x', x(band.begin))
            .attr('y', -5)
            .attr('width', Math.max(1, x(band.end) - x(band.begin) - 1))
            .attr('height', 4)
            .attr('fill', phaseColour(band.name));
        if (x(band.end) - x(band.begin) > 60)
          frame.plot.append('text')
              .attr('class', 'quiet')
              .attr('x', (x(band.begin) + x(band.end)) / 2)
              .attr('y', -9)
              .attr('text-anchor', 'middle')
              .text(band.name);
      });
  const atRight = x(peak) > frame.width / 2;
  frame.plot.append('line')
      .attr('x2', frame.width)
      .attr('y1', y(owned))
      .attr('y2', y(owned))
      .attr('stroke', 'var(--ink)')
      .attr('stroke-dasharray', '5 4');
  frame.plot.append('text')
      .attr('class', 'halo')
      .attr('x', atRight ? 6 : frame.width - 4)
      .attr('y', y(owned) - 5)
      .attr('text-anchor', atRight ? 'start' : 'end')
      .text('owned ' + bytes(owned));
  const top = points[peak];
  frame.plot.append('circle')
      .attr('cx', x(peak + 0.5))
      .attr('cy', y(liveBytes(top)))
      .attr('r', 4)
      .attr('fill', 'var(--ink)');
  frame.plot.append('line')
      .attr('x1', x(peak + 0.5))
      .attr('x2', x(peak + 0.5))
      .attr('y1', 12)
      .attr('y2', y(liveBytes(top)))
      .attr('stroke', 'var(--ink)');
  frame.plot.append('text')
      .attr('class', 'halo peak')
      .attr('x', x(peak + 0.5) + (atRight ? -6 : 6))
      .attr('y', 18)
      .attr('text-anchor', atRight ? 'end' : 'start')
      .text('peak ' + bytes(liveBytes(top)) + ': ' + top.op +
            (top.scope ? ' in ' + top.scope : '') + ', ' + top.phase);
  hoverMemory(frame, points, used, x, peak);
  legend(frame.figure, used.map((name) => [spelled(name), kClassColours[name]]));
}

// A round step in powers of two for an axis of bytes.
function binaryStep(most) {
  return 2 ** Math.ceil(Math.log2(most / 6));
}

function drawTensors(body, profile) {
  element(body, 'h3', 'Live at the peak');
  const peak = profile.peak_at || {};
  const shown = profile.tensors_at_peak;
  element(body, 'p',
          plural(shown.length, 'buffer') + ' add up to ' +
              bytes(d3.sum(shown, (each) => each.bytes)) + ' while ' + peak.op + ' runs.',
          'note');
  const most = d3.sum(shown, (each) => each.bytes);
  table(body, {
    name: 'tensors_at_peak',
    rows: shown,
    most: 200,
    columns: [
      {title: 'tensor', value: (row) => row.name || row.op, isText: true},
      {title: 'class', value: (row) => spelled(row.class), isText: true},
      {title: 'scope', value: (row) => row.scope, isText: true},
      {title: 'phase', value: (row) => row.phase, isText: true},
      {title: 'type', value: (row) => row.type, isText: true},
      {title: 'bytes', value: (row) => row.bytes, text: bytes}, {
        title: 'share',
        value: (row) => row.bytes / most,
        text: percent,
        bar: (row) => kClassColours[row.class] || kColours[6]
      }
    ]
  });
}

// Peaks by class of every run that has them; the totals of the others.
function drawSweep(body) {
  const rows = runs.filter((run) => run.memory && run.memory.owned_bytes > 0);
  if (rows.length < 2) return;
  const row = 26, left = Math.min(240, 0.34 * body.clientWidth);
  const frame = chart(body, {
    name: 'memory_by_run',
    title: 'Memory of every run',
    height: rows.length * row + 36,
    margin: {top: 6, right: 90, bottom: 24, left},
    caption:
        'Bars: owned memory, by class at the peak where it is known. Mark: the resident memory that the system reported at most.'
  });
  const most =
      d3.max(rows, (run) => Math.max(run.memory.owned_bytes, run.memory.measured_peak_bytes || 0));
  const step = binaryStep(most), end = step * Math.ceil(most / step);
  const x = d3.scaleLinear([0, end], [0, frame.width]);
  axis(frame, 'bottom', x, {values: d3.range(0, end + 1, step), format: bytes, grid: true});
  rows.forEach((run, i) => {
    const y = i * row + 4, peak = run.memory_profile && run.memory_profile.peak_at;
    const parts = peak ?
        kMemoryClasses.map(
            (name) =>
                ({name: spelled(name), value: peak.bytes[name], colour: kClassColours[name]})) :
        [];
    parts.push({
      name: peak ? 'gaps of packing' : 'owned',
      value: run.memory.owned_bytes - d3.sum(parts, (part) => part.value),
      colour: 'var(--c7)'
    });
    stackedBar(frame.plot, parts, x, y, row - 9,
               (d) => [run.text, [
                 [d.name, bytes(d.value)], ['owned', bytes(run.memory.owned_bytes)],
                 ['predicted resident', bytes(run.memory.predicted_peak_bytes)],
                 ['measured resident', bytes(run.memory.measured_peak_bytes)]
               ]]);
    frame.plot.append('text')
        .attr('x', -10)
        .attr('y', y + 13)
        .attr('text-anchor', 'end')
        .text(fitted(run.label, left - 12));
    if (run.memory.measured_peak_bytes > 0)
      frame.plot.append('line')
          .attr('x1', x(run.memory.measured_peak_bytes))
          .attr('x2', x(run.memory.measured_peak_bytes))
          .attr('y1', y - 2)
          .attr('y2', y + row - 7)
          .attr('stroke', 'var(--ink)')
          .attr('stroke-width', 2);
    frame.plot.append('text')
        .attr('class', 'halo')
        .attr('x', x(Math.max(run.memory.owned_bytes, run.memory.measured_peak_bytes || 0)) + 6)
        .attr('y', y + 13)
        .text(bytes(run.memory.owned_bytes));
  });
}
