// SPDX-License-Identifier: Apache-2.0
// What all charts share: the figure with its caption and its SVG to save, axes, the tooltip, legends, controls.

const kColours = d3.range(8).map((i) => 'var(--c' + i + ')');
const kPhaseColours = {
  forward: kColours[0],
  backward: kColours[1],
  optimizer: kColours[2],
  load: kColours[6]
};
const kBoundColours = {
  compute: kColours[0],
  memory: kColours[1],
  overhead: kColours[4],
  '-': kColours[6]
};
const phaseColour = (phase) => kPhaseColours[phase] || kColours[6];
const spelled = (name) => name.replace(/_/g, ' ');

// The width of a label in a chart, in pixels.
function textWidth(text) {
  const context =
      textWidth.context || (textWidth.context = document.createElement('canvas').getContext('2d'));
  context.font = '12px ' + getComputedStyle(document.body).fontFamily;
  return context.measureText(text).width;
}

// A text that fits into a width.
function fitted(text, width) {
  let short = text;
  for (let length = text.length; length > 1 && textWidth(short) > width; --length)
    short = shortened(text, length);
  return short;
}

// A CSS colour as the canvas needs it.
function resolved(colour) {
  const name = /^var\((.*)\)$/.exec(colour);
  return name ? getComputedStyle(document.documentElement).getPropertyValue(name[1]).trim() :
                colour;
}

// Colours for the first seven keys of a list; the others share the eighth.
function colourScale(keys) {
  const colours = new Map(keys.slice(0, 7).map((key, i) => [key, kColours[i]]));
  return (key) => colours.get(key) || kColours[7];
}

function element(parent, tag, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  parent.appendChild(made);
  return made;
}

// Fills a list of [term, value] pairs; a pair without a value is left out.
function describe(parent, pairs) {
  const list = element(parent, 'dl');
  for (const [term, value] of pairs) {
    if (value === undefined || value === null || value === '') continue;
    element(list, 'dt', term);
    element(list, 'dd', value);
  }
}

const tip = {
  node: document.getElementById('tip'),
  show(x, y, title, pairs) {
    this.node.textContent = '';
    element(this.node, 'b', title);
    describe(this.node, pairs);
    this.node.hidden = false;
    const box = this.node.getBoundingClientRect();
    this.node.style.left = Math.max(4, Math.min(x + 14, window.innerWidth - box.width - 8)) + 'px';
    this.node.style.top =
        Math.max(4, y + 14 + box.height > window.innerHeight ? y - box.height - 10 : y + 14) + 'px';
  },
  hide() {
    this.node.hidden = true;
  },
};

// Makes marks explain themselves to the mouse and to the keyboard. `about` returns [title, pairs].
function explain(marks, about) {
  const name = (d) => {
    const [title, pairs] = about(d);
    return title + ': ' + pairs.slice(0, 4).map((pair) => pair.join(' ')).join(', ');
  };
  // Thousands of marks get their names when they are reached.
  if (marks.size() < 200) marks.attr('aria-label', name);
  return marks.on('mousemove', (d) => tip.show(d3.event.clientX, d3.event.clientY, ...about(d)))
      .on('mouseout', () => tip.hide())
      .on('focus',
          function(d) {
            const box = this.getBoundingClientRect();
            this.setAttribute('aria-label', name(d));
            tip.show(box.right, box.bottom, ...about(d));
          })
      .on('blur', () => tip.hide());
}

// A figure of the width of its panel. Returns the plot's selection and its inner size; `margin` is
// {top, right, bottom, left}. `name` is the file's name when it is saved.
function chart(parent,
               {name, width: most = 1e9, height, margin, title, caption, label, saves = true}) {
  const figure = element(parent, 'figure');
  if (title) element(figure, 'h3', title);
  const width = Math.min(most, Math.max(280, Math.floor(parent.clientWidth || 800)));
  const svg = d3.select(figure)
                  .append('svg')
                  .attr('width', width)
                  .attr('height', height)
                  .attr('viewBox', '0 0 ' + width + ' ' + height)
                  .attr('role', 'img')
                  .attr('aria-label', label || title || name);
  const plot =
      svg.append('g').attr('transform', 'translate(' + margin.left + ',' + margin.top + ')');
  if (caption) element(figure, 'figcaption', caption);
  if (saves) button(figure, 'Save as SVG', () => saveSvg(svg.node(), name), 'save');
  return {
    figure,
    svg,
    plot,
    margin,
    width: width - margin.left - margin.right,
    height: height - margin.top - margin.bottom
  };
}

// The styles that a drawing keeps outside of this page.
const kKept = [
  'fill', 'stroke', 'stroke-width', 'stroke-dasharray', 'stroke-linejoin', 'opacity',
  'fill-opacity', 'stroke-opacity', 'font-family', 'font-size', 'font-weight', 'text-anchor',
  'paint-order'
];

function saveSvg(svg, name) {
  const copy = svg.cloneNode(true);
  const from = [svg, ...svg.querySelectorAll('*')], to = [copy, ...copy.querySelectorAll('*')];
  from.forEach((node, i) => {
    const style = getComputedStyle(node);
    for (const property of kKept)
      to[i].style.setProperty(property, style.getPropertyValue(property));
    to[i].removeAttribute('tabindex');
  });
  copy.setAttribute('xmlns', 'http://www.w3.org/2000/svg');
  copy.style.background = resolved('var(--paper)');
  saveFile(name + '.svg', 'image/svg+xml', new XMLSerializer().serializeToString(copy));
}

function saveFile(name, type, text) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([text], {type}));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// An axis with its title at the end. `side` is "left" or "bottom".
function axis(frame, side, scale, {ticks = 6, format, title, grid = false, values} = {}) {
  const make = side === 'left' ? d3.axisLeft(scale) : d3.axisBottom(scale);
  make.ticks(ticks).tickSizeOuter(0);
  if (values) make.tickValues(values);
  if (format) make.tickFormat(format);
  if (grid) {
    const lines = (side === 'left' ? d3.axisLeft(scale).tickSize(-frame.width) :
                                     d3.axisBottom(scale).tickSize(-frame.height))
                      .ticks(ticks)
                      .tickFormat('');
    if (values) lines.tickValues(values);
    frame.plot.append('g')
        .attr('class', 'grid')
        .attr('transform', side === 'left' ? null : 'translate(0,' + frame.height + ')')
        .call(lines)
        .select('.domain')
        .remove();
  }
  const group = frame.plot.append('g')
                    .attr('class', 'axis')
                    .attr('transform', side === 'left' ? null : 'translate(0,' + frame.height + ')')
                    .call(make);
  if (title) {
    const label = frame.plot.append('text').attr('class', 'quiet').text(title);
    if (side === 'left')
      label.attr('x', 4 - frame.margin.left).attr('y', -12);
    else
      label.attr('x', frame.width).attr('y', frame.height + 34).attr('text-anchor', 'end');
  }
  return group;
}

// A chart with a bar for each item, one below the other. `most` is the end of the scale. Returns the
// frame, the scale and a group for each item whose origin is the start of its bar; `row` is the
// distance of two bars.
function barChart(parent, items, {row, most, format, nice = 5, unit, ...figure}) {
  const frame =
      chart(parent,
            {...figure, height: items.length * row + figure.margin.top + figure.margin.bottom + 6});
  const x = d3.scaleLinear([0, most], [0, frame.width]).nice(nice).clamp(true);
  axis(frame, 'bottom', x,
       {ticks: Math.max(2, frame.width / 110), format, title: unit, grid: true});
  const bars = frame.plot.selectAll(null)
                   .data(items)
                   .enter()
                   .append('g')
                   .attr('tabindex', 0)
                   .attr('transform', (d, i) => 'translate(0,' + (i * row + 4) + ')');
  return {frame, x, bars};
}

// The name of each bar before it, and a text behind `end`, in pixels.
function labelBars(bars, y, name, end, text) {
  bars.append('text').attr('x', -10).attr('y', y).attr('text-anchor', 'end').text(name);
  bars.append('text').attr('class', 'halo').attr('x', end).attr('y', y).text(text);
}

// The median of each run's step with its interval, and a mark at the predicted time.
function stepBars(bars, x, height, fill) {
  const line = (some, from, to, top, bottom) =>
      some.append('line').attr('x1', from).attr('x2', to).attr('y1', top).attr('y2', bottom);
  bars.append('rect').attr('width', (d) => x(stepNs(d))).attr('height', height).attr('fill', fill);
  line(bars, (d) => x(d.step.low_ns), (d) => x(d.step.high_ns), height / 2, height / 2)
      .attr('stroke', 'var(--ink)')
      .attr('stroke-width', 1.5);
  const predicted = (d) => x(d.predicted_step_ns);
  line(bars.filter((d) => d.predicted_step_ns > 0), predicted, predicted, -3, height + 3)
      .attr('stroke', 'var(--c6)')
      .attr('stroke-width', 3);
}

// Powers of ten in a domain, thinned to at most `most`.
function decades([low, high], most = 8) {
  const all = d3.range(Math.ceil(Math.log10(low) - 1e-9), Math.floor(Math.log10(high) + 1e-9) + 1);
  const step = Math.ceil(all.length / most);
  return all.filter((_, i) => i % step === 0).map((power) => 10 ** power);
}

// Powers of two in a domain, thinned to at most `most`.
function binaryPowers([low, high], most = 7) {
  const all = d3.range(Math.ceil(Math.log2(low) - 1e-9), Math.floor(Math.log2(high) + 1e-9) + 1);
  const step = Math.ceil(all.length / most);
  return all.filter((_, i) => i % step === 0).map((power) => 2 ** power);
}

function legend(parent, entries) {
  const list = element(parent, 'div', undefined, 'legend');
  for (const [name, colour] of entries) {
    const entry = element(list, 'span');
    element(entry, 'i').style.background = colour;
    entry.appendChild(document.createTextNode(name));
  }
  return list;
}

// Controls in a row above a chart.
function controls(parent) {
  return element(parent, 'div', undefined, 'bar');
}

function choice(bar, label, options, chosen, change) {
  const box = element(bar, 'label', label + ' ');
  const select = element(box, 'select');
  options.forEach(([value, text]) => {
    const option = element(select, 'option', text);
    option.value = value;
    option.selected = value === chosen;
  });
  select.addEventListener('change', () => change(select.value));
  return select;
}

// A choice among the phases of a run's kernels, kept in `state`.
function phaseChoice(bar, run, state, redraw) {
  const phases = Array.from(new Set(run.rows.map((kernel) => kernel.phase)));
  choice(bar, 'phase', [['', 'all'], ...phases.map((each) => [each, each])], state.phase,
         (value) => {
           state.phase = value;
           redraw();
         });
}

function checkbox(bar, label, checked, change) {
  const box = element(bar, 'label');
  const input = element(box, 'input');
  input.type = 'checkbox';
  input.checked = checked;
  box.appendChild(document.createTextNode(label));
  input.addEventListener('change', () => change(input.checked));
  return input;
}

function searchField(bar, label, change) {
  const box = element(bar, 'label', label + ' ');
  const input = element(box, 'input');
  input.type = 'search';
  input.addEventListener('input', () => change(input.value.trim().toLowerCase()));
  return input;
}

function button(parent, text, click, className) {
  const made = element(parent, 'button', text, className);
  made.type = 'button';
  made.addEventListener('click', click);
  return made;
}

// A stacked bar of parts [{name, value, colour}] that add up to `sum`, with direct labels where they fit.
function stackedBar(group, parts, x, y, height, about) {
  let at = 0;
  const placed = parts.filter((part) => part.value > 0).map((part) => {
    const from = at;
    at += part.value;
    return Object.assign({from, to: at}, part);
  });
  explain(group.selectAll(null)
              .data(placed)
              .enter()
              .append('rect')
              .attr('tabindex', 0)
              .attr('x', (d) => x(d.from))
              .attr('y', y)
              .attr('width', (d) => Math.max(0.5, x(d.to) - x(d.from)))
              .attr('height', height)
              .attr('fill', (d) => d.colour),
          about);
}

// Names beside points {text, x, y, r}, the most important first; left out where they would cover another.
function labelPoints(frame, points) {
  const taken =
      points.map((point) => [point.x - point.r, point.y + point.r, 2 * point.r, 2 * point.r]);
  const covers = (a, b) =>
      a[0] < b[0] + b[2] && b[0] < a[0] + a[2] && a[1] - a[3] < b[1] && b[1] - b[3] < a[1];
  points.forEach((point, i) => {
    const text = shortened(point.text, 30), wide = textWidth(text), {x, y, r} = point;
    const places = [
      [x + r + 4, y + 4], [x - r - 4 - wide, y + 4], [x - wide / 2, y - r - 5],
      [x - wide / 2, y + r + 13]
    ];
    const place = places.find(
        ([left, base]) => left > 0 && left + wide < frame.width && base > 8 &&
            base < frame.height &&
            !taken.some((other, k) => k !== i && covers([left, base, wide, 12], other)));
    if (!place) return;
    taken.push([place[0], place[1], wide, 12]);
    frame.plot.append('text')
        .attr('class', 'halo')
        .attr('x', place[0])
        .attr('y', place[1])
        .attr('pointer-events', 'none')
        .text(text);
  });
}
