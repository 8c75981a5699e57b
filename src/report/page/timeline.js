// SPDX-License-Identifier: Apache-2.0
// Timeline: the step with the median wall time on a canvas, with the memory curve under it.

const kLane = {
  left: 70,
  phases: 18,
  scopes: 20,
  kernels: 30,
  memory: 110,
  rank: 18,
  gap: 14
};

// Slices [row, begin, end] in lanes, so that those of a lane do not overlap.
function laneOut(run) {
  const ends = [];
  return run.spans.slice().sort((a, b) => a[1] - b[1]).map(([row, begin, end]) => {
    let lane = ends.findIndex((free) => free <= begin);
    if (lane < 0) lane = ends.length;
    ends[lane] = end;
    return {kernel: run.rows[row], begin, end, lane};
  });
}

// The slices of each rank, on the clock of all: [op, begin, end].
function rankLanes(run) {
  return ((run.folder.ranks && run.folder.ranks.lanes) || []).map((lane) => ({
    rank: lane.rank,
    slices: lane.slices.map(([op, begin, end]) => ({op: lane.ops[op], begin, end}))
                .sort((a, b) => a.begin - b.begin)
  }));
}

// Black or white, whichever is read better on a colour.
function readable(colour) {
  return d3.lab(colour).l > 58 ? '#101214' : '#ffffff';
}

// Neighbours with the same value make one slice.
function merged(slices, value) {
  const result = [];
  for (const slice of slices) {
    const last = result[result.length - 1], name = value(slice.kernel);
    if (last && last.name === name)
      last.end = Math.max(last.end, slice.end);
    else
      result.push({name, begin: slice.begin, end: slice.end});
  }
  return result;
}

// The canvas: what it shows, and the part of the step that is in sight.
class Timeline {
  constructor(figure, run, colour, width) {
    this.run = run;
    this.colour = colour;
    this.width = width;
    this.slices = laneOut(run);
    this.ranks = rankLanes(run);
    this.phases = merged(this.slices, (kernel) => kernel.phase);
    this.scopes = merged(this.slices, (kernel) => kernel.scope);
    this.live = new Map(run.points.map((point) => [point.graph + ' ' + point.node, point]));
    this.last = d3.max(this.slices.concat(...this.ranks.map((lane) => lane.slices)),
                       (slice) => slice.end);
    this.lay();
    this.canvas = element(figure, 'canvas');
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute('role', 'application');
    this.canvas.setAttribute('aria-label', 'Timeline of a step');
    this.scale = window.devicePixelRatio || 1;
    this.canvas.width = width * this.scale;
    this.canvas.height = this.height * this.scale;
    this.canvas.style.width = width + 'px';
    this.canvas.style.height = this.height + 'px';
    this.context = this.canvas.getContext('2d');
    this.whole = d3.scaleLinear([0, this.last], [kLane.left, width - 2]);
    this.x = this.whole;
    this.marked = null;
    const sides = [[kLane.left, 0], [width, this.height]];
    this.zoom = d3.zoom()
                    .scaleExtent([1, Math.max(2, this.last / 200)])
                    .translateExtent(sides)
                    .extent(sides)
                    .on('zoom', () => {
                      this.x = d3.event.transform.rescaleX(this.whole);
                      this.draw();
                    });
    this.surface = d3.select(this.canvas).call(this.zoom);
  }

  // Where each row begins.
  lay() {
    const lanes = 1 + d3.max(this.slices, (slice) => slice.lane);
    this.top = {phases: 24};
    this.top.scopes = this.top.phases + kLane.phases + 3;
    this.top.kernels = this.top.scopes + kLane.scopes + 3;
    this.top.ranks = this.top.kernels + lanes * (kLane.kernels + 2) + 4;
    this.top.memory = this.top.ranks + this.ranks.length * (kLane.rank + 2) + kLane.gap;
    this.height = this.top.memory + (this.run.points.length ? kLane.memory : 0) + 8;
    this.most = d3.max(this.run.points, liveBytes);
    this.y = d3.scaleLinear([0, this.most], [this.top.memory + kLane.memory, this.top.memory]);
  }

  kernelTop(slice) {
    return this.top.kernels + slice.lane * (kLane.kernels + 2);
  }

  rankTop(lane) {
    return this.top.ranks + lane * (kLane.rank + 2);
  }

  // Slices are sorted by begin.
  inSight(list) {
    const [from, to] = this.x.domain();
    return list.slice(0, d3.bisector((slice) => slice.begin).right(list, to))
        .filter((slice) => slice.end >= from);
  }

  box(slice, top, size, fill, text, ink) {
    const {context, x} = this;
    const begin = Math.max(kLane.left, x(slice.begin)), end = Math.max(begin + 0.4, x(slice.end));
    context.fillStyle = fill;
    context.fillRect(begin, top, end - begin, size);
    if (end - begin < 30) return;
    context.fillStyle = this.ink.paper;
    context.fillRect(end - 0.5, top, 0.5, size);
    context.save();
    context.beginPath();
    context.rect(begin, top, end - begin - 3, size);
    context.clip();
    context.fillStyle = ink || readable(fill);
    context.fillText(text, begin + 4, top + size / 2 + 4);
    context.restore();
  }

  label(text, base) {
    this.context.fillStyle = this.ink.paper;
    this.context.fillRect(0, base - 12, kLane.left - 2, 16);
    this.context.fillStyle = this.ink.quiet;
    this.context.fillText(text, 0, base);
  }

  pointOf(slice) {
    return this.live.get(slice.kernel.graph + ' ' + slice.kernel.node);
  }

  drawTicks() {
    const {context, x} = this, [from, to] = x.domain();
    for (const tick of x.ticks(Math.max(2, (this.width - kLane.left) / 120))) {
      context.fillStyle = this.ink.rule;
      context.fillRect(x(tick), 14, 1, this.height - 14);
      context.fillStyle = this.ink.quiet;
      const text = to - from < 1e4 ? integer(Math.round(tick)) + ' ns' : time(tick);
      context.fillText(text, Math.min(x(tick) + 3, this.width - context.measureText(text).width),
                       11);
    }
  }

  drawMemory() {
    const {x, y, context} = this;
    const known = this.inSight(this.slices).filter((slice) => this.pointOf(slice));
    const base = known.map(() => 0);
    for (const name of kMemoryClasses) {
      context.fillStyle = resolved(kClassColours[name]);
      known.forEach((slice, i) => {
        const begin = Math.max(kLane.left, x(slice.begin));
        const next = i + 1 < known.length ? x(known[i + 1].begin) : x(slice.end);
        const to = base[i] + this.pointOf(slice)[name];
        context.fillRect(begin, y(to), Math.max(0.5, next - begin + 0.3), y(base[i]) - y(to));
        base[i] = to;
      });
    }
    this.label('live memory', this.top.memory + 11);
    this.label(bytes(this.most), this.top.memory + 26);
  }

  draw() {
    const {context, top} = this;
    this.ink = {};
    for (const name of ['paper', 'ink', 'quiet', 'rule', 'wash'])
      this.ink[name] = resolved('var(--' + name + ')');
    context.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    context.font = '11.5px ' + getComputedStyle(document.body).fontFamily;
    this.drawTicks();
    for (const slice of this.inSight(this.phases))
      this.box(slice, top.phases, kLane.phases, resolved(phaseColour(slice.name)), slice.name);
    for (const slice of this.inSight(this.scopes))
      this.box(slice, top.scopes, kLane.scopes, this.ink.wash, slice.name, this.ink.ink);
    for (const slice of this.inSight(this.slices))
      this.box(slice, this.kernelTop(slice), kLane.kernels, resolved(this.colour(slice.kernel.op)),
               slice.kernel.op);
    this.ranks.forEach((lane, i) => {
      for (const slice of this.inSight(lane.slices))
        this.box(slice, this.rankTop(i), kLane.rank, resolved(this.colour(slice.op)), slice.op);
    });
    const marked = this.slices.find((slice) => slice.kernel === this.marked);
    if (marked) {
      context.strokeStyle = this.ink.ink;
      context.lineWidth = 2;
      context.strokeRect(this.x(marked.begin), this.kernelTop(marked),
                         Math.max(2, this.x(marked.end) - this.x(marked.begin)), kLane.kernels);
    }
    if (this.run.points.length) this.drawMemory();
    this.label('phases', top.phases + 13);
    this.label('scopes', top.scopes + 14);
    this.label('kernels', top.kernels + 19);
    this.ranks.forEach((lane, i) => this.label('rank ' + lane.rank, this.rankTop(i) + 13));
  }

  // The slice under the pointer; with `memory`, where the pointer is on the memory curve.
  at(event) {
    const rect = this.canvas.getBoundingClientRect(), px = event.clientX - rect.left,
          py = event.clientY - rect.top;
    const when = this.x.invert(px), slack = this.x.invert(px + 2) - when;
    if (py >= this.top.memory && this.run.points.length) {
      const slice = this.slices[d3.bisector((each) => each.begin).right(this.slices, when) - 1];
      return slice && {slice, memory: this.pointOf(slice)};
    }
    const other = this.ranks[Math.floor((py - this.top.ranks) / (kLane.rank + 2))];
    if (other && py >= this.top.ranks) {
      const slice = other.slices.find((each) => each.begin - slack <= when && each.end + slack >= when);
      return slice ? {slice, rank: other.rank} : null;
    }
    const lane = Math.floor((py - this.top.kernels) / (kLane.kernels + 2));
    const found =
        this.slices.filter((slice) => slice.begin - slack <= when && slice.end + slack >= when &&
                               (lane < 0 || slice.lane === lane));
    const distance = (slice) => Math.abs(slice.begin + slice.end - 2 * when);
    return found.length ? {slice: found[d3.scan(found, (a, b) => distance(a) - distance(b))]} :
                          null;
  }

  // Shows the step from one moment to another.
  move(from, to) {
    const span = Math.min(this.last, Math.max(to - from, 100)),
          begin = Math.max(0, Math.min(from, this.last - span));
    const factor = this.last / span;
    this.surface.call(
        this.zoom.transform,
        d3.zoomIdentity.translate(kLane.left - factor * this.whole(begin), 0).scale(factor));
  }

  // Brings a kernel into sight.
  show(kernel) {
    const slice = this.slices.find((each) => each.kernel === kernel), [from, to] = this.x.domain();
    if (!slice || (slice.begin >= from && slice.end <= to)) return;
    const span = Math.max(to - from, 2 * (slice.end - slice.begin)),
          middle = (slice.begin + slice.end) / 2;
    this.move(middle - span / 2, middle + span / 2);
  }
}

function aboutSlice({slice, memory, rank}) {
  const kernel = slice.kernel;
  if (!kernel)
    return [
      slice.op + ' of rank ' + rank,
      [['time', time(slice.end - slice.begin)], ['begins', time(slice.begin)]]
    ];
  if (memory)
    return [
      kernel.op,
      [
        ['live', bytes(liveBytes(memory))],
        ...kMemoryClasses.map((name) => [spelled(name), memory[name] ? bytes(memory[name]) : ''])
      ]
    ];
  return [
    kernel.op,
    [
      ['time', time(slice.end - slice.begin)], ['begins', time(slice.begin)],
      ['scope', kernel.scope], ['phase', kernel.phase], ['output', kernel.shape],
      ['FLOPs', amount(kernel.flops)], ['bytes', bytes(kernel.bytes)]
    ]
  ];
}

function drawTimeline(body, {run}) {
  const byTime = grouped(run.rows, kGroupings[0]).map((group) => group.key),
        colour = colourScale(byTime);
  element(
      body, 'p',
      'One instrumented step, the one with the median wall time. Scroll or pinch to zoom, drag to pan, click a slice for its node; ' +
          'with the keyboard: arrows pan and zoom, Home shows all.' +
          (run.folder.ranks && run.folder.ranks.lanes.length ? ' The same step of all ranks is below, on one clock.' : ''),
      'note');
  const bar = controls(body), figure = element(body, 'figure');
  const timeline = new Timeline(figure, run, colour, Math.max(300, body.clientWidth));
  legend(figure,
         byTime.slice(0, 7)
             .map((op) => [op, colour(op)])
             .concat(byTime.length > 7 ? [['other operations', kColours[7]]] : []));
  const detail = element(body, 'div', 'Select a slice.', 'detail');
  const select = (kernel) => {
    timeline.marked = kernel;
    drawNode(detail, run, kernel, (other) => {
      select(other);
      timeline.show(other);
    });
    timeline.draw();
  };
  steer(timeline, bar, select);
  timeline.draw();
}

// Pointer, keys and buttons.
function steer(timeline, bar, select) {
  timeline.surface
      .on('click.node',
          () => {
            const hit = timeline.at(d3.event);
            if (hit && hit.slice.kernel) select(hit.slice.kernel);
          })
      .on('mousemove.node',
          () => {
            const hit = timeline.at(d3.event);
            if (hit)
              tip.show(d3.event.clientX, d3.event.clientY, ...aboutSlice(hit));
            else
              tip.hide();
          })
      .on('mouseout.node', () => tip.hide());
  // Moves by parts of what is in sight.
  const by = (left, right) => {
    const [from, to] = timeline.x.domain();
    timeline.move(from + left * (to - from), to + right * (to - from));
  };
  const all = () => timeline.move(0, timeline.last);
  const keys = {
    ArrowLeft: () => by(-0.2, -0.2),
    ArrowRight: () => by(0.2, 0.2),
    ArrowUp: () => by(0.2, -0.2),
    ArrowDown: () => by(-0.25, 0.25),
    Home: all
  };
  timeline.canvas.addEventListener('keydown', (event) => {
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  button(bar, 'Zoom in', () => by(0.25, -0.25));
  button(bar, 'Zoom out', () => by(-0.5, 0.5));
  button(bar, 'Show all', all);
  searchField(bar, 'find', (text) => {
    const found = text &&
        timeline.slices.find(
            (slice) => (slice.kernel.op + ' ' + slice.kernel.scope).toLowerCase().includes(text));
    if (!found) return;
    select(found.kernel);
    timeline.show(found.kernel);
  });
}

// A node with its cost and its neighbours in the graph.
function drawNode(detail, run, kernel, follow) {
  detail.textContent = '';
  element(detail, 'b', kernel.op + ' %' + kernel.node);
  const sum = total([kernel]);
  describe(detail, [
    ['scope', kernel.scope], ['phase', kernel.phase], ['output', kernel.shape],
    ['operands', kernel.inputs],
    [
      'time',
      time(kernel.time_ns) + ' per step (' + percent(kernel.exclusive_ns / run.kernels_wall_ns) +
          '), ' + plural(kernel.calls, 'call')
    ],
    ['predicted', time(kernel.predicted_ns) + ', ' + kernel.bound + ' limit'],
    [
      'parts',
      kernel.compute_ns === null ? '' :
                                   'compute ' + time(kernel.compute_ns) + ', memory ' +
              time(kernel.memory_ns) + ', overhead ' + time(kernel.overhead_ns)
    ],
    ['FLOPs', amount(kernel.flops) + ', ' + amount(kernel.macs) + ' MACs'],
    ['bytes', bytes(kernel.read_bytes) + ' read, ' + bytes(kernel.written_bytes) + ' written'],
    [
      'rate',
      flops(sum.flops_per_s) + ', ' + bandwidth(sum.bytes_per_s) + ', ' +
          intensity(sum.flops_per_byte)
    ],
    ['formula', (run.folder.formulas || {})[kernel.op]]
  ]);
  const known = new Map(
      run.rows.filter((each) => each.graph === kernel.graph).map((each) => [each.node, each]));
  const links = (title, nodes) => {
    if (!nodes.length) return;
    const line = element(detail, 'div', title + ' ');
    nodes.slice(0, 24).forEach(
        (node) => button(line, node.op + ' %' + node.node, () => follow(node), 'plain'));
    if (nodes.length > 24) element(line, 'span', 'and ' + (nodes.length - 24) + ' more');
  };
  if (kernel.producers === null) return;
  links('reads from', kernel.producers.map((node) => known.get(node)).filter(Boolean));
  links('read by',
        run.rows.filter((each) =>
                            each.graph === kernel.graph && each.producers.includes(kernel.node)));
}
