// SPDX-License-Identifier: Apache-2.0
// A roofline: the lines that report/chart_model.cc has chosen, points under them, and which roof is
// over some work.

// The lowest roof over some work, by the rule of cost::roof: memory at this intensity, or the rate of
// the arithmetic that does most of the FLOPs.
function roofOver(roofline, work) {
  const memory = roofline.memory_bytes_per_s * work.flops / Math.max(work.bytes, 1),
        isVector = 4 * work.macs < work.flops && roofline.vector_flops_per_s > 0,
        top = isVector ? {name: 'vector', flops_per_s: roofline.vector_flops_per_s} : roofline.gemm;
  return memory < top.flops_per_s ? {name: 'memory', flops_per_s: memory} : top;
}

// The lines of another machine's data sheet: memory, and the types that have a line here.
function sheetLines(sheet, lines) {
  if (!sheet) return [];
  const isDrawn = (type) => lines.some((line) => line.name.startsWith(type + ' '));
  return [
    {name: sheet.title, per_s: sheet.bytes_per_s, is_slanted: true, isOther: true},
    ...Object.entries(sheet.peak_flops_per_s)
        .filter(([type]) => isDrawn(type))
        .map(([name, per_s]) => ({name, per_s, isOther: true}))
  ].filter((line) => line.per_s > 0);
}

const lineText = (line) => line.name + ' ' + (line.is_slanted ? bandwidth : flops)(line.per_s);
const power = (value, round) => 10 ** round(Math.log10(value));

// A point is {key, flops, macs, bytes, time_ns, flops_per_byte, flops_per_s, phase}, its area the
// time. It may have a `colour`, a `symbol` and a `short` label. `more` gives pairs for its tooltip.
function drawRoofs(area, roofline, points, {
  name = 'roofline',
  title,
  caption,
  bytes = 'planned',
  sheet,
  more = () => [],
  labels = 14,
  radius = 26,
  saves = true
} = {}) {
  const lines = [...roofline.lines, ...sheetLines(sheet, roofline.lines)];
  const flat = lines.filter((line) => !line.is_slanted).map((line) => line.per_s),
        slowest = d3.min(lines.filter((line) => line.is_slanted), (line) => line.per_s);
  const xs = [...points.map((point) => point.flops_per_byte), d3.max(flat) / slowest],
        ys = [...points.map((point) => point.flops_per_s), ...flat];
  const xDomain = [power(d3.min(xs) / 1.6, Math.floor), power(d3.max(xs) * 1.6, Math.ceil)],
        yDomain = [power(d3.min(ys) / 1.6, Math.floor), d3.max(ys) * 2.2];
  const labelled = lines.filter((line) => !line.is_slanted);
  const frame = chart(area, {
    name,
    title,
    caption,
    label: title || 'Roofline',
    saves,
    height: Math.round(Math.min(560, Math.max(380, 0.52 * area.clientWidth))),
    margin: {
      top: 26,
      right: Math.ceil(d3.max(labelled, (line) => 0.92 * textWidth(lineText(line)))) + 10,
      bottom: 42,
      left: 62
    }
  });
  const x = d3.scaleLog(xDomain, [0, frame.width]), y = d3.scaleLog(yDomain, [frame.height, 0]);
  axis(frame, 'bottom', x, {
    values: decades(xDomain, frame.width / 70),
    format: (v) => Number(v.toPrecision(3)),
    title: 'FLOPs per ' + bytes + ' byte',
    grid: true
  });
  axis(frame, 'left', y, {values: decades(yDomain), format: amount, title: 'FLOP/s', grid: true});
  drawLines(frame, lines, x, y);

  const size = d3.scaleSqrt([0, d3.max(points, (point) => point.time_ns)], [2.5, radius]);
  const colour = (d) => d.colour || phaseColour(d.phase);
  const marks = join(frame.plot.append('g'), points)
                    .append('path')
                    .attr('tabindex', 0)
                    .attr('class', 'point')
                    .attr('data-key', (d) => d.key)
                    .attr('transform', (d) => moved(x(d.flops_per_byte), y(d.flops_per_s)))
                    .attr('d',
                          (d) => d3.symbol()
                                     .type(d.symbol || d3.symbolCircle)
                                     .size(Math.PI * size(d.time_ns) ** 2)())
                    .attr('fill', colour)
                    .attr('fill-opacity', 0.55)
                    .attr('stroke', colour);
  explain(marks, (d) => {
    const roof = roofOver(roofline, d);
    return [
      d.key,
      [
        ['roof', roof.name + ', ' + flops(roof.flops_per_s)],
        ['share of roof', percent(d.flops_per_s / roof.flops_per_s)],
        ['rate', flops(d.flops_per_s)], ['intensity', intensity(d.flops_per_byte)],
        ['bandwidth', d.bytes_per_s > 0 ? bandwidth(d.bytes_per_s) : ''], ...more(d)
      ]
    ];
  });
  labelPoints(frame, points.slice(0, labels).map((d) => ({
                                                   text: d.short || d.key,
                                                   x: x(d.flops_per_byte),
                                                   y: y(d.flops_per_s),
                                                   r: size(d.time_ns)
                                                 })));
  legend(frame.figure,
         unique(points.map((point) => point.phase).filter(Boolean))
             .map((phase) => ['mostly ' + phase, phaseColour(phase)]));
  return frame;
}

// Slanted lines end at the highest flat one of their machine, flat ones begin at its fastest slanted
// one. Those of data sheets are dashed.
function drawLines(frame, lines, x, y) {
  const [low, high] = x.domain(), bottom = y.domain()[0], group = frame.plot.append('g');
  const flats = [], slants = [];
  const most = (line, slanted) => d3.max(
      lines.filter((each) => Boolean(each.is_slanted) === slanted && each.isOther === line.isOther),
      (each) => each.per_s);
  for (const line of lines) {
    const slanted = line.is_slanted, rate = line.per_s,
          colour = line.isOther ? 'var(--c3)' : 'var(--ink)',
          from = Math.max(low, slanted ? bottom / rate : rate / most(line, true)),
          to = slanted ? Math.min(high, (most(line, false) || y.domain()[1]) / rate) : high;
    if (!(from < to)) continue;
    const at = (value) => y(slanted ? value * rate : rate);
    lineAt(group, x(from), at(from), x(to), at(to), colour)
        .attr('stroke-width', line.is_sheet ? 1 : 1.6)
        .attr('stroke-dasharray', line.is_sheet ? '4 3' : null);
    const label =
        textAt(group, 0, 0, lineText(line), 'halo').attr('font-size', 11).style('fill', colour);
    if (slanted) {
      const turn = Math.atan2(at(to) - at(from), x(to) - x(from)) * 180 / Math.PI;
      // Labels of bandwidths that lie close together stand one after the other along their lines.
      const along = 8 +
          slants.filter((each) => Math.abs(each - at(from)) < 15).length * 120 *
              Math.cos(turn * Math.PI / 180);
      slants.push(at(from));
      label.attr('transform',
                 moved(x(from) + along, at(from) - 4 + along * Math.tan(turn * Math.PI / 180)) +
                     ' rotate(' + turn + ')');
    } else {
      flats.push({label: label.attr('x', frame.width + 6), y: y(rate)});
    }
  }
  // They stand next to the plot, pushed apart where roofs lie close together.
  let last = -Infinity;
  for (const flat of flats.sort((a, b) => a.y - b.y)) {
    last = Math.max(flat.y, last + 12);
    flat.label.attr('y', last + 4);
  }
}
