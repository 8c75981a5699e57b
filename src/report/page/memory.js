// SPDX-License-Identifier: Apache-2.0
// Memory: what is live over the step by class, what is live at the peak, and every point of a sweep.

const kClassColours = Object.fromEntries(kMemoryClasses.map((name, i) => [name, kColours[i]]));

function drawMemory(body, {run}) {
  const memory = run.memory, profile = run.memory_profile || {};
  if (memory.allocated_bytes > 0)
    element(body, 'p',
            'Ridge allocates ' + bytes(memory.allocated_bytes) + ' (planned: ' +
                bytes(memory.owned_bytes) + '), of which ' + bytes(memory.arena_bytes) +
                ' are one arena for temporaries. With code and libraries, ' +
                bytes(memory.foreign_bytes) + ' before the first allocation, that predicts ' +
                bytes(memory.predicted_peak_bytes) + ' resident; the system reported ' +
                bytes(memory.measured_peak_bytes) + ' at most.');
  else
    element(body, 'p',
            'The trace reports ' + bytes(memory.measured_peak_bytes) + ' in use at most.');
  if (run.points.length) drawMemoryCurve(body, run, profile);
  if (profile.tensors_at_peak && profile.tensors_at_peak.length) drawTensors(body, profile);
  drawSweep(body);
}

// Shows the node under the pointer, or the one that the arrow keys reach from the peak.
function hoverMemory(frame, points, used, x, peak) {
  const line = lineAt(frame.plot, 0, 0, 0, frame.height, 'var(--ink)').attr('display', 'none');
  const show = (i, left, base) => {
    const point = points[Math.max(0, Math.min(points.length - 1, i))];
    line.attr('display', null).attr('x1', x(i + 0.5)).attr('x2', x(i + 0.5));
    tip.show(left, base, point.op + ' %' + point.node + ', ' + bytes(liveBytes(point)) + ' live', [
      ...used.map((name) => [spelled(name), bytes(point[name])]), ['scope', point.scope],
      ['phase', point.phase]
    ]);
  };
  let at = peak;
  boxAt(frame.plot, 0, 0, frame.width, frame.height, 'transparent')
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
  join(frame.plot, closed)
      .append('path')
      .attr('class', 'layer')
      .attr('d', area)
      .attr('fill', (d) => kClassColours[d.key]);
  // Bands of the phases above the plot.
  merged(points.map((point, i) => ({kernel: point, begin: i, end: i + 1})), (point) => point.phase)
      .forEach((band) => {
        boxAt(frame.plot, x(band.begin), -5, Math.max(1, x(band.end) - x(band.begin) - 1), 4,
              phaseColour(band.name));
        if (x(band.end) - x(band.begin) > 60)
          textAt(frame.plot, (x(band.begin) + x(band.end)) / 2, -9, band.name, 'quiet middle');
      });
  const atRight = x(peak) > frame.width / 2;
  lineAt(frame.plot, 0, y(owned), frame.width, y(owned), 'var(--ink)')
      .attr('stroke-dasharray', '5 4');
  textAt(frame.plot, atRight ? 6 : frame.width - 4, y(owned) - 5, 'owned ' + bytes(owned), 'halo')
      .attr('text-anchor', atRight ? 'start' : 'end');
  const top = points[peak];
  dotAt(frame.plot, x(peak + 0.5), y(liveBytes(top)), 4, 'var(--ink)');
  lineAt(frame.plot, x(peak + 0.5), 12, x(peak + 0.5), y(liveBytes(top)), 'var(--ink)');
  textAt(frame.plot, x(peak + 0.5) + (atRight ? -6 : 6), 18,
         'peak ' + bytes(liveBytes(top)) + ': ' + top.op + (top.scope ? ' in ' + top.scope : '') +
             ', ' + top.phase,
         'halo peak')
      .attr('text-anchor', atRight ? 'end' : 'start');
  hoverMemory(frame, points, used, x, peak);
  legend(frame.figure, used.map((name) => [spelled(name), kClassColours[name]]));
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
      ...columns('tensor', 'scope phase type bytes'), {
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
  const reached = (run) => Math.max(run.memory.owned_bytes, run.memory.measured_peak_bytes || 0);
  const {x, bars} = barChart(body, rows, {
    name: 'memory_by_run',
    title: 'Memory of every run',
    row,
    most: d3.max(rows, reached),
    format: bytes,
    margin: {top: 6, right: 90, bottom: 24, left},
    caption:
        'Bars: owned memory, by class at the peak where it is known. Mark: the resident memory that the system reported at most.'
  });
  const partsOf = (run) => {
    const peak = run.memory_profile && run.memory_profile.peak_at;
    const parts =
        (peak ? kMemoryClasses : [])
            .map((name) =>
                     ({name: spelled(name), value: peak.bytes[name], colour: kClassColours[name]}));
    const rest = run.memory.owned_bytes - d3.sum(parts, (part) => part.value);
    return [...parts, {name: peak ? 'gaps of packing' : 'owned', value: rest, colour: kColours[7]}];
  };
  stackedBars(
      bars, x, row - 9, partsOf,
      (d) => [d.item.text, [
        [d.name, bytes(d.value)],
        ...pairs('memory', 'owned_bytes predicted_peak_bytes measured_peak_bytes', d.item.memory)
      ]]);
  labelBars(bars, 13, (d) => fitted(d.label, left - 12), (d) => x(reached(d)) + 6,
            (d) => bytes(d.memory.owned_bytes));
  const measured = bars.filter((d) => d.memory.measured_peak_bytes > 0),
        end = (d) => x(d.memory.measured_peak_bytes);
  lineAt(measured, end, -2, end, row - 7, 'var(--ink)').attr('stroke-width', 2);
}
