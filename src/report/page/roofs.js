// SPDX-License-Identifier: Apache-2.0
// A roofline: the lines of a machine, points under them, and which roof is over some work.

// The lowest roof over some work, by the rule of src/cost/predict.cc: memory at this intensity, or the
// rate of the arithmetic that does most of the FLOPs.
function roofOver(roofs, dtype, work) {
  const memory =
      roofs.memory[roofs.memory.length - 1].bytes_per_s * work.flops / Math.max(work.bytes, 1);
  const products = roofs.arithmetic.filter((each) => each.dtype === dtype);
  const gemm =
      d3.max(products.length ? products : roofs.arithmetic.filter((each) => each.dtype === 'f32'),
             (each) => each.flops_per_s);
  const isVector = 4 * work.macs < work.flops && roofs.vector_flops_per_s > 0;
  const top = isVector ? {name: 'vector', flops_per_s: roofs.vector_flops_per_s} :
                         {name: dtype + ' GEMM', flops_per_s: gemm};
  return memory < top.flops_per_s ? {name: 'memory', flops_per_s: memory} : top;
}

// The lines to draw: {name, text, value}, `slanted` for bandwidths, `other` for those of the sheet.
function roofLines(roofs, dtype, sheet) {
  const lines = roofs.memory.map((each) => ({
                                   slanted: true,
                                   name: each.name,
                                   value: each.bytes_per_s,
                                   text: each.name + ' ' + bandwidth(each.bytes_per_s)
                                 }));
  for (const each of roofs.arithmetic)
    lines.push({
      name: each.name,
      value: each.flops_per_s,
      text: each.name + ' GEMM ' + flops(each.flops_per_s),
      main: each.dtype === dtype
    });
  if (roofs.vector_flops_per_s > 0)
    lines.push({
      name: 'vector',
      value: roofs.vector_flops_per_s,
      text: 'vector ' + flops(roofs.vector_flops_per_s),
      main: true
    });
  if (sheet) {
    lines.push({
      slanted: true,
      other: true,
      name: 'memory',
      value: sheet.bytes_per_s,
      text: sheet.title + ' ' + bandwidth(sheet.bytes_per_s)
    });
    for (const [name, value] of Object.entries(sheet.peak_flops_per_s))
      lines.push({other: true, name, value, text: name + ' ' + flops(value)});
  }
  return lines.filter((line) => line.value > 0);
}

// `bytes` says which they are, `more` gives further pairs for the tooltip of a point.
function drawRoofs(area, roofs, dtype, points, sheet, bytes, more,
                   {labels = 14, radius = 26, saves = true} = {}) {
  const drawn = roofLines(roofs, dtype, sheet);
  const slowest = d3.min(drawn.filter((line) => line.slanted), (line) => line.value);
  const top = d3.max(drawn.filter((line) => !line.slanted), (line) => line.value);
  const xs = [...points.map((point) => point.flops_per_byte), top / slowest];
  const ys = [
    ...points.map((point) => point.flops_per_s),
    ...drawn.filter((line) => !line.slanted).map((line) => line.value)
  ];
  const xDomain = [
    10 ** Math.floor(Math.log10(d3.min(xs) / 1.6)), 10 ** Math.ceil(Math.log10(d3.max(xs) * 1.6))
  ];
  const yDomain = [10 ** Math.floor(Math.log10(d3.min(ys) / 1.6)), d3.max(ys) * 2.2];
  const frame = chart(area, {
    name: 'roofline',
    label: 'Roofline',
    saves,
    height: Math.round(Math.min(560, Math.max(380, 0.52 * area.clientWidth))),
    margin: {
      top: 26,
      right:
          Math.ceil(d3.max(drawn, (line) => (line.slanted ? 0 : 0.92 * textWidth(line.text)))) + 10,
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
  axis(frame, 'left', y,
       {values: decades(yDomain), format: (v) => amount(v), title: 'FLOP/s', grid: true});
  drawLines(frame, drawn, x, y, top);

  const most = d3.max(points, (point) => point.time_ns);
  const size = d3.scaleSqrt([0, most], [2.5, radius]);
  const marks = frame.plot.append('g')
                    .selectAll('circle')
                    .data(points)
                    .enter()
                    .append('circle')
                    .attr('tabindex', 0)
                    .attr('class', 'point')
                    .attr('data-key', (d) => d.key)
                    .attr('cx', (d) => x(d.flops_per_byte))
                    .attr('cy', (d) => y(d.flops_per_s))
                    .attr('r', (d) => size(d.time_ns))
                    .attr('fill', (d) => d.colour || phaseColour(d.phase))
                    .attr('fill-opacity', 0.55)
                    .attr('stroke', (d) => d.colour || phaseColour(d.phase));
  explain(marks, (d) => {
    const roof = roofOver(roofs, dtype, d);
    return [
      d.key,
      [
        ['roof', roof.name + ', ' + flops(roof.flops_per_s)],
        ['share of roof', percent(d.flops_per_s / roof.flops_per_s)],
        ['rate', flops(d.flops_per_s)], ['intensity', intensity(d.flops_per_byte)],
        ['bandwidth', bandwidth(d.bytes_per_s)], ...more(d)
      ]
    ];
  });
  labelPoints(
      frame,
      points.slice(0, labels).map(
          (d) => ({text: d.key, x: x(d.flops_per_byte), y: y(d.flops_per_s), r: size(d.time_ns)})));
  legend(frame.figure,
         Array.from(new Set(points.map((point) => point.phase).filter(Boolean)))
             .map((phase) => ['mostly ' + phase, phaseColour(phase)]));
}

function drawLines(frame, lines, x, y, top) {
  const [low, high] = x.domain(), bottom = y.domain()[0];
  const group = frame.plot.append('g');
  const flats = [], slants = [];
  for (const line of lines) {
    const colour = line.other ? 'var(--c3)' : 'var(--ink)';
    const ceiling =
        d3.max(lines.filter((each) => !each.slanted && Boolean(each.other) === Boolean(line.other)),
               (each) => each.value) ||
        top;
    const fastest =
        d3.max(lines.filter((each) => each.slanted && Boolean(each.other) === Boolean(line.other)),
               (each) => each.value);
    const from =
        line.slanted ? Math.max(low, bottom / line.value) : Math.max(low, line.value / fastest);
    const to = line.slanted ? Math.min(high, ceiling / line.value) : high;
    if (!(from < to)) continue;
    const at = (value) => (line.slanted ? y(value * line.value) : y(line.value));
    group.append('line')
        .attr('x1', x(from))
        .attr('y1', at(from))
        .attr('x2', x(to))
        .attr('y2', at(to))
        .attr('stroke', colour)
        .attr('stroke-width', line.main || line.name === 'memory' ? 1.6 : 1)
        .attr('stroke-dasharray', line.main || line.name === 'memory' || line.other ? null : '4 3');
    const label = group.append('text')
                      .attr('class', 'halo')
                      .attr('font-size', 11)
                      .style('fill', colour)
                      .text(line.text);
    if (line.slanted) {
      const turn = Math.atan2(at(to) - at(from), x(to) - x(from)) * 180 / Math.PI;
      // Labels of bandwidths that lie close together stand one after the other along their lines.
      const along = 8 +
          slants.filter((each) => Math.abs(each - at(from)) < 15).length * 120 *
              Math.cos(turn * Math.PI / 180);
      slants.push(at(from));
      label.attr('transform',
                 'translate(' + (x(from) + along) + ',' +
                     (at(from) - 4 + along * Math.tan(turn * Math.PI / 180)) + ') rotate(' + turn +
                     ')');
    } else {
      flats.push({label: label.attr('x', frame.width + 6), y: y(line.value)});
    }
  }
  // Beside the plot, pushed apart where roofs lie close together.
  let last = -Infinity;
  for (const flat of flats.sort((a, b) => a.y - b.y)) {
    last = Math.max(flat.y, last + 12);
    flat.label.attr('y', last + 4);
  }
}
