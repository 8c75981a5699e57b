// SPDX-License-Identifier: Apache-2.0
// Operations and kernels: a table of groups of kernels, and the kernels of the chosen group.

const operationsState = {
  grouping: 0,
  phase: ''
};

// Columns of what is counted, empty where nothing is.
const counted = (list) => list.map((column) => Object.assign(column, {
  value: ((value) => (row) => (value(row) === '-' ? null : value(row) || null))(column.value)
}));

function kernelColumns(run) {
  return [
    ...columns('operation', 'calls time_ns'),
    {
      title: 'share',
      value: (row) => row.exclusive_ns / run.kernels_wall_ns,
      text: percent,
      help: page.figures.operation.share[2],
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
    ...counted([
      ...columns('operation', 'flops macs'), {
        title: 'bytes',
        value: (row) => row.bytes,
        text: bytes,
        help: page.figures.operation.read_bytes[2]
      },
      ...columns('operation', 'flops_per_byte flops_per_s bytes_per_s bound predicted_ns')
    ]),
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
          setting.device === 'cpu' ? 'Run on ' +
                  [setting.isa, setting.threads ? plural(setting.threads, 'thread') : '']
                      .filter(Boolean)
                      .join(', ') +
                  '.' :
                                     'Run on ' + setting.device + '.',
          'note');
  // The heading, or a column of the groups, shows the names that all rows have.
  const differ = (key) => new Set(group.kernels.map((kernel) => kernel[key])).size > 1;
  const names = ['op', 'scope', 'phase', 'shape'].filter(
      (key) => group.kernels.length === 1 || key === 'shape' || differ(key));
  table(detail, {
    name: 'kernels',
    rows: group.kernels.map((kernel) => Object.assign(total([kernel]), kernel)),
    columns: [
      {title: 'node', value: (row) => '%' + row.node, isText: true},
      ...columns('kernel', names.join(' ')),
      {title: 'inputs', value: (row) => row.inputs, isText: true},
      ...kernelColumns(run)
    ],
  });
}
