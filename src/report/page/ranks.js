// SPDX-License-Identifier: Apache-2.0
// Ranks: how the processes of a run share its time, and how fast they exchanged.

const kRankParts = [
  ['computing and other', (r) => r.step_ns - r.exposed_ns, kColours[0]],
  ['communication, transfer', (r) => r.exposed_ns - Math.min(r.waiting_ns, r.exposed_ns), kColours[5]],
  ['communication, waiting', (r) => Math.min(r.waiting_ns, r.exposed_ns), kColours[4]],
];

// Figures of a rank in a step, instead of their sums.
function rankRows(run) {
  const each = ['step_ns', 'communication_ns', 'overlapped_ns', 'exposed_ns', 'waiting_ns',
                'transfer_ns', 'late_ns'];
  return run.folder.ranks.ranks.map((rank) => Object.assign(
      {}, rank,
      Object.fromEntries(each.map((name) => [name, rank[name] / Math.max(1, rank.steps)]))));
}

function drawRanks(body, {run}) {
  const rows = rankRows(run), most = d3.max(rows, (rank) => rank.step_ns);
  element(body, 'p',
          'Clocks: ' + run.folder.ranks.clock +
              (run.folder.ranks.clock_error_ns > 0 ? ', within ' + time(run.folder.ranks.clock_error_ns) : '') +
              '. Times are of a step.',
          'note');
  const row = 26, left = 90;
  const {frame, x, bars} = barChart(body, rows, {
    name: 'ranks',
    title: 'Where the time of each rank goes',
    row,
    most,
    format: time,
    margin: {top: 6, right: 90, bottom: 24, left},
    caption: 'Communication is what other kernels do not hide. Waiting: until the last rank of the group has arrived.',
  });
  stackedBars(bars, x, row - 9,
              (rank) => kRankParts.map(([name, value, colour]) => ({name, value: value(rank), colour})),
              (d) => [d.name, [['time', time(d.value)], ['share', percent(d.value / d.item.step_ns)]]]);
  labelBars(bars, 13, (rank) => 'rank ' + rank.rank, (rank) => x(rank.step_ns) + 6,
            (rank) => time(rank.step_ns));
  legend(frame.figure, kRankParts.map(([name, , colour]) => [name, colour]));
  table(body, {
    name: 'rank_times',
    columns: columns('rank_times',
                     'rank host step_ns communication_ns overlapped_ns exposed_ns waiting_ns ' +
                         'transfer_ns late_ns last owned_bytes peak_bytes'),
    rows
  });
  if (!run.folder.ranks.collectives.length) return;
  drawBusBandwidth(body, run.folder.ranks.collectives.filter((each) => each.bus_bytes_per_s > 0));
  table(body, {
    name: 'collectives',
    columns: columns('collective_times',
                     'op group ranks bytes calls transfer_ns waiting_ns skew_ns bus_bytes_per_s ' +
                         'predicted_bytes_per_s'),
    rows: run.folder.ranks.collectives
  });
}

// The bus bandwidth of each kind of collective beside that of the link.
function drawBusBandwidth(body, rows) {
  if (!rows.length) return;
  const row = 26, left = 220;
  const {x, bars} = barChart(body, rows, {
    name: 'bus_bandwidth',
    title: 'Bus bandwidth of the collectives',
    row,
    most: d3.max(rows, (each) => Math.max(each.bus_bytes_per_s, each.predicted_bytes_per_s || 0)),
    format: bandwidth,
    margin: {top: 6, right: 110, bottom: 24, left},
    caption:
        'Bars: bytes that a rank sends over the time from the last arrival on, median of the calls. Mark: the same by the link’s ceiling.',
  });
  boxAt(bars, 0, 0, (each) => x(each.bus_bytes_per_s), row - 9, () => kColours[5]);
  lineAt(bars.filter((each) => each.predicted_bytes_per_s > 0),
         (each) => x(each.predicted_bytes_per_s), 0, (each) => x(each.predicted_bytes_per_s),
         row - 9, 'var(--ink)');
  labelBars(bars, 13, (each) => fitted(each.op + ' ' + bytes(each.bytes), left - 12),
            (each) => x(each.bus_bytes_per_s) + 6, (each) => bandwidth(each.bus_bytes_per_s));
  explain(bars, (each) => [each.op, [
                  ['message', bytes(each.bytes)], ['transfer', time(each.transfer_ns)],
                  ['bus bandwidth', bandwidth(each.bus_bytes_per_s)],
                  ['by the link', bandwidth(each.predicted_bytes_per_s)],
                  ['waiting', time(each.waiting_ns)], ['skew', time(each.skew_ns)]
                ]]);
}
