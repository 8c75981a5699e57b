// SPDX-License-Identifier: Apache-2.0
// The page's data: runs, their kernels, and the sums and roofs that the panels share.

const page = cleaned(JSON.parse(document.getElementById('data').textContent));
const folders = page.folders;

// Rows of a table by columns, as objects.
function objects(columns, rows) {
  return rows.map((row) => Object.fromEntries(columns.map((name, i) => [name, row[i]])));
}

const kMemoryClasses =
    ['parameters', 'gradients', 'optimizer_state', 'kv_cache', 'activations', 'workspace', 'data'];
const liveBytes = (point) => d3.sum(kMemoryClasses, (name) => point[name]);
const kMemoryColumns = ['graph', 'node', 'op', 'scope', 'phase', ...kMemoryClasses];

// "layer.3/attention" -> "layer.*/attention", as in the tables of the terminal.
const folded = (scope) => scope.replace(/\.\d+(?=\/|$)/g, '.*');

// The runs of all folders. `kernels` and `memory` are empty for runs that are not reported in detail.
const runs = [];
folders.forEach((folder, index) => {
  for (const run of folder.runs) {
    const kernels = run.kernels ? objects(run.kernels.columns, run.kernels.rows) : [];
    kernels.forEach((kernel, row) => {
      kernel.row = row;
      kernel.bytes = kernel.read_bytes + kernel.written_bytes;
      kernel.module = folded(kernel.scope);
      kernel.dtype = (/^[a-z0-9_]+/.exec(kernel.shape || '') || [''])[0];
      kernel.call_min_ns =
          kernel.min_ns === null ? kernel.time_ns / kernel.calls : kernel.min_ns / kernel.calls;
      kernel.call_max_ns =
          kernel.max_ns === null ? kernel.time_ns / kernel.calls : kernel.max_ns / kernel.calls;
    });
    const profile = run.memory_profile || {};
    runs.push(Object.assign(run, {
      index: runs.length,
      folder,
      folderIndex: index,
      rows: kernels,
      spans: run.kernels ? run.kernels.spans : [],
      // The whole that shares of the kernels refer to. Older folders have the kernels of one step only.
      kernels_wall_ns: run.kernels && run.kernels.is_one_step ?
          d3.max(run.kernels.spans, (span) => span[2]) :
          run.attribution && run.attribution.wall_ns,
      points: profile.timeline ? objects(kMemoryColumns, profile.timeline) : [],
    }));
  }
});
// The name of a run in charts: without what all runs share.
const isOneModel = new Set(runs.map((run) => run.setting.model)).size <= 1;
for (const run of runs)
  run.label = (folders.length > 1 ? run.folder.name + ': ' : '') +
      (isOneModel ? run.text.slice(run.setting.model.length + 1) : run.text);

const detailed = runs.filter((run) => run.rows.length > 0 || run.operations);

const stepNs = (run) => (run.step.samples > 0 ? run.step.median_ns : run.predicted_step_ns);

// The amounts of a group of kernels. Counts and times are exact sums.
function total(kernels) {
  const sum = {nodes: kernels.length, kernels};
  for (const name of ['calls', 'time_ns', 'exclusive_ns', 'flops', 'macs', 'bytes', 'read_bytes',
                      'written_bytes', 'predicted_ns', 'parameters'])
    sum[name] = d3.sum(kernels, (kernel) => kernel[name]);
  sum.call_min_ns = d3.min(kernels, (kernel) => kernel.call_min_ns);
  sum.call_mean_ns = sum.calls > 0 ? sum.time_ns / sum.calls : NaN;
  sum.call_max_ns = d3.max(kernels, (kernel) => kernel.call_max_ns);
  sum.flops_per_byte = sum.bytes > 0 ? sum.flops / sum.bytes : 0;
  // Rates refer to the time of the kernels whose work or bytes are known.
  sum.counted_ns =
      d3.sum(kernels, (kernel) => (kernel.flops > 0 || kernel.bytes > 0 ? kernel.time_ns : 0));
  sum.flops_per_s = sum.counted_ns > 0 ? 1e9 * sum.flops / sum.counted_ns : 0;
  sum.bytes_per_s = sum.counted_ns > 0 ? 1e9 * sum.bytes / sum.counted_ns : 0;
  // A share of the limit refers to the time of the kernels that have one.
  const limited_ns = d3.sum(kernels, (kernel) => (kernel.predicted_ns > 0 ? kernel.exclusive_ns : 0));
  sum.limit_share = limited_ns > 0 ? sum.predicted_ns / limited_ns : 0;
  sum.phase = largest(kernels, 'phase');
  sum.bound = largest(kernels, 'bound', 'predicted_ns');
  return sum;
}

// The value of `key` with the largest sum of `weight`.
function largest(kernels, key, weight = 'time_ns') {
  if (kernels.length === 1) return kernels[0][key];
  let best = '', most = -1;
  d3.nest()
      .key((kernel) => kernel[key])
      .rollup((group) => d3.sum(group, (kernel) => kernel[weight]))
      .entries(kernels)
      .forEach((entry) => {
        if (entry.value > most) [best, most] = [entry.key, entry.value];
      });
  return best;
}

const kGroupings = [
  {name: 'operation', key: (kernel) => kernel.op},
  {name: 'operation and shape', key: (kernel) => kernel.op + ' ' + kernel.shape},
  {name: 'module', isScope: true, key: (kernel) => kernel.module || '(no scope)'},
  {
    name: 'operation and module',
    key: (kernel) => kernel.op + ' · ' + (kernel.module || '(no scope)')
  },
  {name: 'scope', isScope: true, key: (kernel) => kernel.scope || '(no scope)'},
  {name: 'phase', key: (kernel) => kernel.phase},
  {name: 'kernel', key: (kernel) => kernel.graph + ' %' + kernel.node + ' ' + kernel.op},
];

function grouped(kernels, grouping) {
  return d3.nest()
      .key(grouping.key)
      .entries(kernels)
      .map((entry) => Object.assign(total(entry.values), {key: entry.key}))
      .sort((a, b) => b.time_ns - a.time_ns);
}

// Compulsory bytes by `key` of a scope, which is the whole of it over all phases. Scopes with others
// inside them are left out, because their kernels are not all of theirs.
function compulsoryBytes(run, key) {
  const scopes = (run.kernels && run.kernels.scopes) || [];
  const names = new Set(scopes.map((each) => each[1]));
  const outer = new Set();
  for (const name of names)
    for (let end = name.lastIndexOf('/'); end > 0; end = name.lastIndexOf('/', end - 1))
      outer.add(name.slice(0, end));
  const sums = new Map();
  for (const [, scope, count] of scopes)
    if (!outer.has(scope))
      sums.set(key({scope, module: folded(scope)}),
               (sums.get(key({scope, module: folded(scope)})) || 0) + count);
  return sums;
}

// Whether another program measured the run, as of an imported trace: the times are then of one step.
const isOfAnotherProgram = (run) => /median wall time/.test(run.folder.operation_times || '');
