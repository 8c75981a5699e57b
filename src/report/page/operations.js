// SPDX-License-Identifier: Apache-2.0
// Operations and kernels: a table of groups of kernels, and the kernels of the chosen group.

const operationsState = {
  grouping: 0,
  phase: ''
};

function kernelColumns(run) {
  const wall = run.kernels_wall_ns;
  return [
    {title: 'calls', value: (row) => row.calls, text: integer},
    {
      title: 'time',
      value: (row) => row.time_ns,
      text: time,
      help: 'mean over the middle half of the instrumented steps, so rows add up'
    },
    {
      title: 'share',
      value: (row) => row.exclusive_ns / wall,
      text: percent,
      help: 'exclusive time over the wall time of the step',
      bar: (row) => phaseColour(row.phase)
    },
    {
      title: 'call, min',
      value: (row) => row.call_min_ns,
      text: time,
      help: 'the fastest call of a kernel in any instrumented step'
    },
    {title: 'mean', value: (row) => row.call_mean_ns, text: time},
    {title: 'max', value: (row) => row.call_max_ns, text: time},
    {title: 'FLOPs', value: (row) => row.flops, text: amount},
    {title: 'MACs', value: (row) => row.macs, text: amount},
    {
      title: 'bytes',
      value: (row) => row.bytes,
      text: bytes,
      help: 'planned: each operand of each kernel once'
    },
    {
      title: 'FLOP/B',
      value: (row) => row.flops_per_byte,
      text: (x) => (x >= 100 ? x.toFixed(0) : x.toPrecision(3))
    },
    {title: 'rate', value: (row) => row.flops_per_s, text: flops},
    {title: 'bandwidth', value: (row) => row.bytes_per_s, text: bandwidth},
    {
      title: 'limit',
      value: (row) => row.bound,
      isText: true,
      help: 'what limits the predicted time'
    },
    {title: 'predicted', value: (row) => row.predicted_ns, text: time},
    {
      title: 'of limit',
      value: (row) => (row.predicted_ns > 0 ? row.limit_share : null),
      text: percent,
      help: 'predicted over exclusive time; 100% is as fast as the ceilings allow'
    },
  ];
}

function drawOperations(body, {run}) {
  const state = operationsState;
  const bar = controls(body), area = element(body, 'div'), detail = element(body, 'div');
  choice(bar, 'group by', kGroupings.map((each, i) => [String(i), each.name]),
         String(state.grouping), (value) => {
           state.grouping = Number(value);
           list();
         });
  phaseChoice(bar, run, state, list);
  let shown;
  searchField(bar, 'search', (text) => shown.filter(text));

  function list() {
    area.textContent = '';
    detail.textContent = '';
    const kernels = run.rows.filter((kernel) => !state.phase || kernel.phase === state.phase);
    const grouping = kGroupings[state.grouping];
    shown = table(area, {
      name: 'operations',
      rows: grouped(kernels, grouping),
      foot: Object.assign(total(kernels), {key: 'total'}),
      columns:
          [{title: grouping.name, value: (row) => row.key, isText: true}, ...kernelColumns(run)],
      choose: (row) => drawGroup(detail, run, row),
    });
    element(area, 'p', 'Select a row to see its kernels.', 'note');
  }
  list();
}

// The kernels of a group one by one, and the formula of its operation.
function drawGroup(detail, run, group) {
  detail.textContent = '';
  element(detail, 'h3', group.key + ': ' + plural(group.nodes, 'kernel'));
  const formulas = run.folder.formulas || {}, op = largest(group.kernels, 'op');
  if (formulas[op]) element(detail, 'p', op + ': ' + formulas[op], 'formula');
  const setting = run.setting;
  element(detail, 'p',
          setting.device === 'cpu' ?
              'Run on ' + [setting.isa, plural(setting.threads, 'thread')].join(', ') + '.' :
              'Run on ' + setting.device + '.',
          'note');
  table(detail, {
    name: 'kernels',
    rows: group.kernels.map((kernel) => Object.assign(total([kernel]), kernel)),
    columns: [
      {title: 'node', value: (row) => '%' + row.node, isText: true},
      {title: 'operation', value: (row) => row.op, isText: true},
      {title: 'scope', value: (row) => row.scope, isText: true},
      {title: 'phase', value: (row) => row.phase, isText: true},
      {title: 'output', value: (row) => row.shape, isText: true},
      {title: 'operands', value: (row) => row.inputs, text: (x) => shortened(x, 60), isText: true},
      ...kernelColumns(run)
    ],
  });
}
