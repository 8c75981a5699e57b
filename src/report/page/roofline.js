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
  const state = rooflineState;
  element(
      body, 'p',
      'Each point is the sum of a group of kernels: its rate against its FLOPs per byte, its area the time. ' +
          'Slanted roofs are bandwidths, flat ones rates of arithmetic.',
      'note');
  const bar = controls(body), area = element(body, 'div'), note = element(body, 'div');
  const values = (key) => unique(run.rows.map((kernel) => kernel[key])).sort();
  const filter = (label, options, key) =>
      choice(bar, label, options, state[key], (value) => redraw({[key]: value}));
  const redraw = (change) => {
    Object.assign(state, change);
    plot();
  };
  choice(bar, 'points', kGroupings.map((each, i) => [String(i), each.name]), String(state.grouping),
         (value) => redraw({grouping: Number(value)}));
  for (const key of ['phase', 'dtype', 'module'])
    if (key !== 'dtype' || values(key).length > 1)
      filter(key, [['', 'all'], ...values(key).map((each) => [each, each || '(none)'])], key);
  const hasCompulsory = run.kernels.scopes && run.kernels.scopes.length > 0;
  if (hasCompulsory)
    filter('bytes', [['planned', 'planned'], ['compulsory', 'compulsory, by module']], 'bytes');
  searchField(bar, 'operation', (value) => redraw({text: value})).value = state.text;
  filter('roofs of',
         [['', 'this machine'], ...page.hardware.map((each) => [each.name, 'and ' + each.title])],
         'sheet');

  function plot() {
    area.textContent = '';
    note.textContent = '';
    const kernels =
        run.rows.filter((kernel) => ['phase', 'dtype', 'module'].every(
                                        (key) => !state[key] || kernel[key] === state[key]) &&
                            kernel.op.toLowerCase().includes(state.text));
    const isCompulsory = hasCompulsory && state.bytes === 'compulsory';
    const groups =
        isCompulsory ? compulsoryGroups(run) : grouped(kernels, kGroupings[state.grouping]);
    const points =
        groups.filter((group) => group.flops > 0 && group.bytes > 0 && group.time_ns > 0);
    drawRoofs(area, run.roofline, points, {
      sheet: page.hardware.find((each) => each.name === state.sheet),
      bytes: state.bytes,
      more: (d) => [...pairs('operation', 'time_ns calls flops macs read_bytes written_bytes', d),
                    ['share of the step', percent(d.exclusive_ns / run.kernels_wall_ns)],
                    ['mostly', d.phase]]
    });
    explainPoints(note, groups, points, run.roofline);
  }
  plot();
}

// Modules by their compulsory bytes. They hold for whole modules only, so no filter applies but that
// by module.
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
function explainPoints(note, groups, points, roofline) {
  const shareOf = (point) => point.flops_per_s / roofOver(roofline, point).flops_per_s,
        above = points.filter((point) => shareOf(point) > 1);
  if (above.length)
    element(
        note, 'p',
        'Above the roof: ' +
            above.slice(0, 6)
                .map((point) => point.key + ' (' + percent(shareOf(point)) + ')')
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
