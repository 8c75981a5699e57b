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
  link: kColours[5],
  '-': kColours[6]
};
const phaseColour = (phase) => kPhaseColours[phase] || kColours[6];
const boundColour = (bound) => kBoundColours[bound] || kColours[6];
const boundLegend = (figure) => legend(
    figure, ['compute', 'memory', 'overhead', 'link'].map((each) => [each + ' limit', boundColour(each)]));
const unique = (list) => Array.from(new Set(list));
const moved = (x, y) => 'translate(' + x + ',' + y + ')';
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
  const plot = svg.append('g').attr('transform', moved(margin.left, margin.top));
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

// Shapes, to a selection or to those that join() enters. A coordinate is a number or a function of
// the item.
const join = (parent, items) => parent.selectAll(null).data(items).enter();
function lineAt(parent, x1, y1, x2, y2, stroke = null) {
  return parent.append('line').attr('x1', x1).attr('y1', y1).attr('x2', x2).attr('y2', y2).attr(
      'stroke', stroke);
}
function boxAt(parent, x, y, width, height, fill = null) {
  return parent.append('rect')
      .attr('x', x)
      .attr('y', y)
      .attr('width', width)
      .attr('height', height)
      .attr('fill', fill);
}
function dotAt(parent, cx, cy, r, fill = null) {
  return parent.append('circle').attr('cx', cx).attr('cy', cy).attr('r', r).attr('fill', fill);
}
function textAt(parent, x, y, text = '', className = null) {
  return parent.append('text').attr('class', className).attr('x', x).attr('y', y).text(text);
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
        .attr('transform', side === 'left' ? null : moved(0, frame.height))
        .call(lines)
        .select('.domain')
        .remove();
  }
  const group = frame.plot.append('g')
                    .attr('class', 'axis')
                    .attr('transform', side === 'left' ? null : moved(0, frame.height))
                    .call(make);
  if (title) {
    const label = textAt(frame.plot, 0, 0, title, 'quiet');
    if (side === 'left')
      label.attr('x', 4 - frame.margin.left).attr('y', -12);
    else
      label.attr('x', frame.width).attr('y', frame.height + 34).attr('text-anchor', 'end');
  }
  return group;
}

// A round step in powers of two for an axis of bytes.
const binaryStep = (most) => 2 ** Math.ceil(Math.log2(most / 6));

// A chart with a bar for each item, one below the other. `most` is the end of the scale. Returns the
// frame, the scale and a group for each item whose origin is the start of its bar; `row` is the
// distance of two bars.
function barChart(parent, items, {row, most, format, nice = 5, unit, ...figure}) {
  const frame =
      chart(parent,
            {...figure, height: items.length * row + figure.margin.top + figure.margin.bottom + 6});
  const step = format === bytes ? binaryStep(most) : null,
        end = step ? step * Math.ceil(most / step) : most,
        x = d3.scaleLinear([0, end], [0, frame.width]).clamp(true);
  if (!step) x.nice(nice);
  axis(frame, 'bottom', x, {
    ticks: Math.max(2, frame.width / 110),
    values: step && d3.range(0, end + 1, step),
    format,
    title: unit,
    grid: true
  });
  const bars = join(frame.plot, items)
                   .append('g')
                   .attr('tabindex', 0)
                   .attr('transform', (d, i) => moved(0, i * row + 4));
  return {frame, x, bars};
}

// The name of each bar before it, and a text behind `end`, in pixels. Returns the names.
function labelBars(bars, y, name, end, text) {
  textAt(bars, end, y, text, 'halo');
  return textAt(bars, -10, y, name, 'end');
}

// A grey mark at a predicted time.
function markAt(bars, x, height) {
  return lineAt(bars, x, -3, x, height + 3, 'var(--c6)').attr('stroke-width', 3);
}

// The median of each run's step with its interval, and a mark at the predicted time.
function stepBars(bars, x, height, fill) {
  boxAt(bars, 0, 0, (d) => x(stepNs(d)), height, fill);
  lineAt(bars, (d) => x(d.step.low_ns), height / 2, (d) => x(d.step.high_ns), height / 2,
         'var(--ink)')
      .attr('stroke-width', 1.5);
  markAt(bars.filter((d) => d.predicted_step_ns > 0), (d) => x(d.predicted_step_ns), height);
}

// Powers of a base in a domain, thinned to at most `most`.
function powers(base, [low, high], most) {
  const log = (value) => Math.log(value) / Math.log(base);
  const all = d3.range(Math.ceil(log(low) - 1e-9), Math.floor(log(high) + 1e-9) + 1);
  const step = Math.ceil(all.length / most);
  return all.filter((_, i) => i % step === 0).map((each) => base ** each);
}
const decades = (domain, most = 8) => powers(10, domain, most);
const binaryPowers = (domain, most = 7) => powers(2, domain, most);

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
  const phases = unique(run.rows.map((kernel) => kernel.phase));
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

// A stacked bar for each item: its parts [{name, value, colour}] one after the other. `about` gets a
// part with its `item`.
function stackedBars(bars, x, height, partsOf, about) {
  const placed = (item) => {
    let to = 0;
    return partsOf(item)
        .filter((part) => part.value > 0)
        .map((part) => ({...part, item, from: to, to: to += part.value}));
  };
  bars.attr('tabindex', null);
  explain(boxAt(join(bars, placed), (d) => x(d.from), 0, (d) => Math.max(0.5, x(d.to) - x(d.from)),
                height, (d) => d.colour)
              .attr('tabindex', 0),
          about);
}

// Names next to points {text, x, y, r}, the most important first; left out where they would cover
// another.
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
    textAt(frame.plot, place[0], place[1], text, 'halo').attr('pointer-events', 'none');
  });
}
