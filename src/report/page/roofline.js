// SPDX-License-Identifier: Apache-2.0
// Roofline: the machine's roofs and a point for each group of kernels, with filters and other machines.

const rooflineState = {
  grouping: 0,
  phase: '',
  dtype: '',
  module: '',
  text: '',
  sheet: '',
  bytes: 'planned'
};

function drawRoofline(body, {run}) {
  const roofs = roofsOf(run.folder), dtype = productType(run.setting), state = rooflineState;
  element(
      body, 'p',
      'Each point is the sum of a group of kernels: its rate against its FLOPs per byte, its area the time. ' +
          'Slanted roofs are bandwidths, flat ones rates of arithmetic.',
      'note');
  const bar = controls(body), area = element(body, 'div'), note = element(body, 'div');
  const values = (key) => [['', 'all'],
                           ...Array.from(new Set(run.rows.map((kernel) => kernel[key])))
                               .sort()
                               .map((each) => [each, each || '(none)'])];
  const redraw = (change) => {
    Object.assign(state, change);
    plot();
  };
  choice(bar, 'points', kGroupings.map((each, i) => [String(i), each.name]), String(state.grouping),
         (value) => redraw({grouping: Number(value)}));
  choice(bar, 'phase', values('phase'), state.phase, (value) => redraw({phase: value}));
  if (values('dtype').length > 2)
    choice(bar, 'dtype', values('dtype'), state.dtype, (value) => redraw({dtype: value}));
  choice(bar, 'module', values('module'), state.module, (value) => redraw({module: value}));
  const hasCompulsory = run.kernels.scopes && run.kernels.scopes.length > 0;
  if (hasCompulsory)
    choice(bar, 'bytes', [['planned', 'planned'], ['compulsory', 'compulsory, by module']],
           state.bytes, (value) => redraw({bytes: value}));
  searchField(bar, 'operation', (value) => redraw({text: value})).value = state.text;
  choice(bar, 'roofs of',
         [['', 'this machine'], ...page.hardware.map((each) => [each.name, 'and ' + each.title])],
         state.sheet, (value) => redraw({sheet: value}));

  function plot() {
    area.textContent = '';
    note.textContent = '';
    const kernels =
        run.rows.filter((kernel) => (!state.phase || kernel.phase === state.phase) &&
                            (!state.dtype || kernel.dtype === state.dtype) &&
                            (!state.module || kernel.module === state.module) &&
                            (!state.text || kernel.op.toLowerCase().includes(state.text)));
    const isCompulsory = hasCompulsory && state.bytes === 'compulsory';
    const groups =
        isCompulsory ? compulsoryGroups(run) : grouped(kernels, kGroupings[state.grouping]);
    const points =
        groups.filter((group) => group.flops > 0 && group.bytes > 0 && group.time_ns > 0);
    const sheet = page.hardware.find((each) => each.name === state.sheet);
    drawRoofs(
        area, roofs, dtype, points, sheet, state.bytes,
        (d) => [[
          'time',
          time(d.time_ns) + ', ' + percent(d.exclusive_ns / run.kernels_wall_ns) + ' of the step'
        ],
                ['calls', integer(d.calls)], ['FLOPs', amount(d.flops)], ['MACs', amount(d.macs)],
                ['bytes read', bytes(d.read_bytes)], ['bytes written', bytes(d.written_bytes)],
                ['mostly', d.phase]]);
    explainPoints(note, groups, points, roofs, dtype);
  }
  plot();
}

// Modules by their compulsory bytes. They hold for whole modules only, so no filter applies but that by module.
function compulsoryGroups(run) {
  const chosen = kGroupings[rooflineState.grouping];
  const grouping = chosen.isScope ? chosen : kGroupings.find((each) => each.isScope);
  const known = compulsoryBytes(run, grouping.key);
  const kernels =
      run.rows.filter((kernel) => known.has(grouping.key(kernel)) &&
                          (!rooflineState.module || kernel.module === rooflineState.module));
  return grouped(kernels, grouping).map((group) => {
    const count = known.get(group.key);
    return Object.assign(group, {
      bytes: count,
      flops_per_byte: group.flops / count,
      bytes_per_s: 1e9 * count / group.time_ns
    });
  });
}

// Points above their roof, with the reason, and groups that have no place in the plot.
function explainPoints(note, groups, points, roofs, dtype) {
  const above =
      points.filter((point) => point.flops_per_s > roofOver(roofs, dtype, point).flops_per_s);
  if (above.length)
    element(
        note, 'p',
        'Above the roof: ' +
            above.slice(0, 6)
                .map((point) => point.key + ' (' +
                         percent(point.flops_per_s / roofOver(roofs, dtype, point).flops_per_s) +
                         ')')
                .join(', ') +
            (above.length > 6 ? ' and ' + (above.length - 6) + ' more' : '') +
            '. Their operands came from a cache instead of memory, or the roof was measured too low (ridge machine --remeasure).',
        'note');
  const left = groups.length - points.length;
  if (left)
    element(note, 'p',
            plural(left, 'group') + ' without FLOPs or without time ' +
                (left === 1 ? 'has' : 'have') + ' no place here.',
            'note');
}
