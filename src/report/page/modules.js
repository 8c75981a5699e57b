// SPDX-License-Identifier: Apache-2.0
// Modules: a flame graph of the scopes, and the same tree with counts, times and formulas.

const modulesState = {
  folds: true,
  phase: ''
};

// Scopes as a tree; the leaves are operations. A node is {name, kernels, children}.
function scopeTree(run, kernels, folds) {
  const root = {name: run.setting.model, kernels: [], children: new Map()};
  for (const kernel of kernels) {
    let at = root;
    at.kernels.push(kernel);
    const scope = folds ? kernel.module : kernel.scope;
    for (const name of [...(scope ? scope.split('/') : []), '\u0000' + kernel.op]) {
      if (!at.children.has(name)) at.children.set(name, {name, kernels: [], children: new Map()});
      at = at.children.get(name);
      at.kernels.push(kernel);
    }
  }
  const finish = (node, path) => {
    node.isOp = node.name.startsWith('\u0000');
    node.name = node.isOp ? node.name.slice(1) : node.name;
    node.path = path ? path + '/' + node.name : node.name;
    node.sum = total(node.kernels);
    // A parameter belongs to the forward kernel that reads it first.
    node.sum.parameters =
        d3.sum(node.kernels, (kernel) => (kernel.phase === 'forward' ? kernel.parameters : 0));
    node.children = Array.from(node.children.values())
                        .map((child) => finish(child, node.path))
                        .sort((a, b) => b.sum.time_ns - a.sum.time_ns);
    return node;
  };
  return finish(root, '');
}

function drawModules(body, {run}) {
  const state = modulesState, bar = controls(body), area = element(body, 'div');
  checkbox(bar, 'all layers together', state.folds, (value) => {
    state.folds = value;
    plot();
  });
  phaseChoice(bar, run, state, plot);
  function plot() {
    area.textContent = '';
    const root =
        scopeTree(run, run.rows.filter((kernel) => !state.phase || kernel.phase === state.phase),
                  state.folds);
    drawFlame(area, run, root);
    drawTree(area, run, root);
  }
  plot();
}

function aboutNode(run, node) {
  const sum = node.sum;
  return [
    node.path,
    [
      ['time', time(sum.time_ns)],
      ['share of the step', percent(sum.exclusive_ns / run.kernels_wall_ns)],
      ['parameters', sum.parameters ? integer(sum.parameters) : ''], ['FLOPs', amount(sum.flops)],
      ['MACs', amount(sum.macs)], ['bytes', bytes(sum.bytes)], ['rate', flops(sum.flops_per_s)],
      ['intensity', intensity(sum.flops_per_byte)], ['calls', integer(sum.calls)]
    ]
  ];
}

// Width is time, depth is nesting; a click makes a node as wide as the plot.
function drawFlame(area, run, root) {
  const levels = d3.hierarchy(root);
  levels.each((node) => {
    node.value = node.data.sum.time_ns;
  });
  const row = 25;
  const frame = chart(area, {
    name: 'flame',
    title: 'Flame graph of the scopes',
    height: (levels.height + 1) * row + 6,
    margin: {top: 2, right: 1, bottom: 4, left: 1},
    caption: 'Width is time in a step. Select a box to enlarge it; select it again to go back.'
  });
  d3.partition().size([1, 1])(levels);
  const nodes = levels.descendants().filter((node) => node.value > 0);
  const x = d3.scaleLinear([0, 1], [0, frame.width]);
  const clip = frame.plot.append('g');
  const boxes = join(clip, nodes).append('g').attr('tabindex', 0).style('cursor', 'pointer');
  boxAt(boxes, 0, 0, 0, row - 1.5, (d) => phaseColour(d.data.sum.phase))
      .attr('fill-opacity', (d) => (d.data.isOp ? 0.42 : 0.2))
      .attr('stroke', 'var(--paper)');
  textAt(boxes, 5, 16);
  let zoomed = null;
  function place(target) {
    x.domain(target ? [target.x0, target.x1] : [0, 1]);
    boxes.style('display', (d) => (x(d.x1) <= 0 || x(d.x0) >= frame.width ? 'none' : null))
        .attr('transform', (d) => moved(Math.max(0, x(d.x0)), d.depth * row));
    const wide = (d) => Math.max(0, Math.min(frame.width, x(d.x1)) - Math.max(0, x(d.x0)));
    boxes.select('rect').attr('width', wide);
    boxes.select('text').text((d) => {
      const room = Math.floor((wide(d) - 10) / 6.7), name = d.data.name;
      return room < 3 ? '' :
          name.length + 7 < room ?
                        name + '  ' + percent(d.data.sum.exclusive_ns / run.kernels_wall_ns) :
                        shortened(name, room);
    });
  }
  const act = (d) => {
    zoomed = zoomed === d ? null : d;
    place(zoomed);
  };
  boxes.on('click', act).on('keydown', (d) => {
    if (d3.event.key === 'Enter') act(d);
  });
  explain(boxes, (d) => aboutNode(run, d.data));
  place(null);
  legend(frame.figure,
         Array.from(new Set(nodes.map((node) => node.data.sum.phase)))
             .map((phase) => ['mostly ' + phase, phaseColour(phase)]));
}

function drawTree(area, run, root) {
  const wall = run.kernels_wall_ns, formulas = run.folder.formulas || {};
  element(area, 'h3', 'Module tree');
  const box = element(area, 'div', undefined, 'scroll');
  box.tabIndex = 0;
  const whole = element(box, 'table', undefined, 'tree');
  const head = element(element(whole, 'thead'), 'tr'), rows = element(whole, 'tbody');
  whole.setAttribute('role', 'treegrid');
  const columns = [
    ['parameters', (s) => (s.parameters ? integer(s.parameters) : '')],
    ['FLOPs', (s) => (s.flops ? amount(s.flops) : '')],
    ['MACs', (s) => (s.macs ? amount(s.macs) : '')],
    ['bytes', (s) => (s.bytes ? bytes(s.bytes) : '')], ['time', (s) => time(s.time_ns)],
    ['share', (s) => percent(s.exclusive_ns / wall)],
    ['rate', (s) => (s.flops ? flops(s.flops_per_s) : '')], ['calls', (s) => integer(s.calls)]
  ].filter(([, text]) => text(root.sum));
  for (const title of ['module', ...columns.map((each) => each[0])])
    element(head, 'th', title).scope = 'col';

  // Adds a node before a row of the table, and its children when it is open.
  function add(node, depth, before) {
    const line = document.createElement('tr');
    rows.insertBefore(line, before);
    line.setAttribute('aria-level', depth + 1);
    const first = element(line, 'td');
    first.style.paddingLeft = depth * 18 + 'px';
    let lines = [];
    const toggle = button(first, node.children.length ? '▸' : '', () => {
      const open = lines.length === 0;
      toggle.textContent = open ? '▾' : '▸';
      line.setAttribute('aria-expanded', open);
      if (open)
        lines = node.children.flatMap((child) => add(child, depth + 1, line.nextFollowing()));
      else {
        lines.forEach((each) => each.clear());
        lines = [];
      }
    });
    toggle.disabled = !node.children.length;
    toggle.setAttribute('aria-label', 'open ' + node.name);
    const name = middleCut(node.name);
    first.appendChild(document.createTextNode(name));
    for (const [, text] of columns) element(line, 'td', text(node.sum));
    if (name !== node.name) first.title = node.name;
    if (node.isOp && formulas[node.name]) first.title = formulas[node.name];
    line.clear = () => {
      lines.forEach((each) => each.clear());
      lines = [];
      line.remove();
    };
    // The row after the last row of this node's subtree.
    line.nextFollowing = () => {
      let next = line.nextSibling;
      while (next && Number(next.getAttribute('aria-level')) > depth + 1) next = next.nextSibling;
      return next;
    };
    line.open = () => {
      if (node.children.length && !lines.length) toggle.click();
    };
    return [line];
  }

  const [top] = add(root, 0, null);
  top.open();
  rows.querySelectorAll('tr[aria-level="2"]').forEach((line) => line.open());
}
