// SPDX-License-Identifier: Apache-2.0
// Overview: the verdict, where a step's time goes, and what holds it up.

// The rows of the table by operation, from the summary; the sums of the kernels where it has none.
function operationRows(run) {
  if (run.operations) return run.operations.by_op;
  return grouped(run.rows, kGroupings[0]).map((row) => Object.assign(row, {
    share: row.exclusive_ns / run.attribution.wall_ns
  }));
}

// Where the wall time of an instrumented step goes. The parts add up to it.
function stepParts(run) {
  const a = run.attribution;
  let computing = a.computing_ns, moving = a.moving_data_ns;
  if (computing === undefined) {  // older folders
    const rows = run.operations ? run.operations.by_op : [];
    computing = d3.sum(rows, (row) => (row.flops > 0 ? row.exclusive_ns : 0));
    moving = (a.busy_ns !== undefined ? a.busy_ns : a.kernel_ns - a.overlapped_ns) - computing;
  }
  // Kernels of an imported trace whose work nobody knows neither compute nor move data.
  const uncounted =
      d3.sum(run.rows || [], (row) => (row.flops > 0 || row.bytes > 0 ? 0 : row.exclusive_ns));
  return [
    ['computing', computing, kColours[0], 'kernels with arithmetic'],
    [
      'moving data', moving - uncounted, kColours[5],
      'kernels without arithmetic: copies, gathers, casts'
    ],
    ['not counted', uncounted, kColours[7], 'kernels whose arithmetic and bytes are not known'],
    [
      'idle before the first kernel', a.idle_before_first_ns, kColours[4],
      'from the start of a graph to its first kernel'
    ],
    ['gaps', a.idle_ns - a.idle_before_first_ns, kColours[6], 'idle time after the first kernel'],
    ['host', a.host_ns, kColours[3], page.figures.step.host_ns[2]],
  ].map(([name, value, colour, help]) => ({name, value, colour, help}));
}

// Where the operations lose time against their limit, largest loss first.
function bottlenecks(run) {
  const wall = run.attribution.wall_ns;
  return operationRows(run)
      .map((row) => ({
             key: row.key,
             share: row.share,
             bound: row.bound,
             time: row.exclusive_ns,
             target: row.predicted_ns,
             // Without a limit there is no loss.
             gain: wall > 0 && row.predicted_ns > 0 ?
                 Math.max(0, row.exclusive_ns - row.predicted_ns) / wall :
                 0,
             flops_per_s: row.flops_per_s,
             bytes_per_s: row.bytes_per_s,
           }))
      .filter((row) => row.share > 0)
      .sort((a, b) => b.gain - a.gain);
}

// Why a run read faster than memory delivers; older folders have none.
function mbuReason(run) {
  return run.mbu_reason || 'caches are faster than memory, or it was measured too low';
}

function verdict(run) {
  const rows = operationRows(run).slice().sort((a, b) => b.share - a.share);
  const utilisation = [];
  if (run.mfu > 0)
    utilisation.push(percent(run.mfu) + ' of the ' +
                     (run.mfu_peak ? run.mfu_peak.source + ' ' : '') + 'GEMM peak');
  if (run.mbu > 0)
    utilisation.push(percent(run.mbu) + ' of the memory bandwidth' +
                     (run.mbu > 1 ? ' (' + mbuReason(run) + ')' : ''));
  let text = run.text + ' takes ' + time(stepNs(run)) +
      (run.setting.task === 'decode'      ? ' per decode step' :
           run.setting.task === 'prefill' ? ' per prefill' :
                                            ' per step') +
      (run.tokens_per_s > 0 ? ', ' + amount(run.tokens_per_s) + ' tokens/s' : '') +
      (utilisation.length ? ': ' + utilisation.join(' and ') : '') + '. ';
  if (!rows.length) return text;
  const top = rows[0], loss = bottlenecks(run)[0], a = run.attribution;
  const idle = a && a.wall_ns > 0 ? a.idle_ns / a.wall_ns : 0;
  if (idle > top.share) text += 'No kernel runs for ' + percent(idle) + ' of the step; ';
  text += percent(top.share) + ' of the step is ' + middleCut(top.key);
  text += top.predicted_ns > 0 ?
      ', at ' + percent(top.predicted_ns / top.exclusive_ns) + ' of its ' + top.bound + ' limit' :
      '';
  if (loss && loss.gain >= 0.01)
    text += '; the largest loss is in ' + middleCut(loss.key) + ', which would save ' +
        percent(loss.gain) + ' of the step at the limit';
  else if (rows.some((row) => row.predicted_ns > 0))
    text += '; no operation would save more than 1% of the step at its limit';
  return text + '.';
}

function drawOverview(body, {run}) {
  element(body, 'p', verdict(run), 'verdict');
  const facts = element(body, 'dl', undefined, 'facts');
  // A number that is 0 is not known: an imported trace has no prediction, perhaps no FLOPs.
  const fact = (term, number, format, small) => {
    if (!(number > 0)) return;
    const box = element(facts, 'div');
    element(box, 'dt', term);
    const text = element(box, 'dd', format(number));
    if (small) element(text, 'small', small);
  };
  fact('step, median', stepNs(run), time, run.step.samples > 1 ? interval(run.step) : '');
  fact(isOfAnotherProgram(run) ? 'at the limits' : 'predicted', run.predicted_step_ns, time,
       stepNs(run) > 0 ? signedPercent(run.predicted_step_ns / stepNs(run) - 1) : '');
  fact('tokens/s', run.tokens_per_s, amount, amount(run.samples_per_s) + ' samples/s');
  fact('MFU', run.mfu, percent,
       run.mfu_peak ? 'of ' + flops(run.mfu_peak.per_s) + ', ' + run.mfu_peak.source : '');
  fact('MBU', run.mbu, percent,
       (run.mbu_peak ? 'of ' + bandwidth(run.mbu_peak.per_s) : '') +
           (run.mbu > 1 ? ': ' + mbuReason(run) : ''));
  fact('model', run.model_flops_per_s, flops,
       run.parameters > 0 ? integer(run.parameters) + ' parameters' : '');
  fact('owned memory', run.memory.owned_bytes, bytes,
       bytes(run.memory.measured_peak_bytes) + ' resident at most');
  fact('kernel calls', run.kernel_calls, integer,
       run.planned_bytes > 0 ? bytes(run.planned_bytes) + ' moved' : '');
  const warnings = run.folder.warnings || [];
  if (warnings.length) {
    const box = element(body, 'details', undefined, 'note warning');
    box.open = warnings.length < 3;
    element(box, 'summary', plural(warnings.length, 'warning') + ': ' + warnings[0]);
    for (const warning of warnings.slice(1)) element(box, 'div', warning);
  }

  const attributed =
      runs.filter((each) => each.attribution && each.attribution.wall_ns > 0 &&
                      (each.attribution.computing_ns !== undefined || each.operations));
  drawParts(body, run, attributed);
  drawLosses(body, run);
  drawAdvice(body, run.folder);
}

function drawParts(body, run, attributed) {
  if (!attributed.length) return;
  const row = 30, left = Math.min(240, 0.34 * body.clientWidth),
        wall = (d) => d.attribution.wall_ns;
  const {frame, x, bars} = barChart(body, attributed, {
    name: 'step_parts',
    title: 'Where the time of a step goes',
    row,
    most: d3.max(attributed, wall),
    format: time,
    margin: {top: 6, right: 70, bottom: 24, left},
    caption:
        (run.folder.operation_times || 'mean over the middle half of the instrumented steps')
            .replace(/^time_ns: /, 'Times: ')
            .replace(/[,;].*$/, '.') +
        ' The parts add up to the wall time of the step.',
  });
  stackedBars(
      bars, x, row - 10, stepParts,
      (d) => [d.name,
              [['time', time(d.value)], ['share', percent(d.value / wall(d.item))], ['', d.help]]]);
  labelBars(bars, 14, (d) => fitted(d.label, left - 12), (d) => x(wall(d)) + 6,
            (d) => time(wall(d)))
      .attr('font-weight', (d) => (d === run ? 650 : 400));
  const parts = stepParts(attributed[0]).filter(
      (part, i) => attributed.some((each) => stepParts(each)[i].value > 0));
  legend(frame.figure, parts.map((part) => [part.name, part.colour]));
}

function drawLosses(body, run) {
  const rows = bottlenecks(run).filter((row) => row.target > 0).slice(0, 10);
  if (!rows.length) return;
  const row = 26, left = 150;
  const {frame, x, bars} = barChart(body, rows, {
    name: 'bottlenecks',
    title: 'What holds the step up, by the gain at the limit',
    row,
    most: d3.max(rows, (each) => Math.max(each.time, each.target)),
    nice: 4,
    format: time,
    margin: {top: 6, right: 150, bottom: 24, left},
    caption:
        'Bars: the time of the operation in a step. Filled: what it would take at the limit that the machine’s ceilings predict. ' +
        'Outline: the loss, which is the gain to be had. A thin mark beyond the bar: faster than predicted.',
  });
  boxAt(bars, 0, 0, (d) => x(Math.min(d.time, d.target || d.time)), row - 9,
        (d) => boundColour(d.bound));
  boxAt(bars, 0, 0, (d) => x(d.time), row - 9, (d) => boundColour(d.bound))
      .attr('fill-opacity', 0.16)
      .attr('stroke', (d) => boundColour(d.bound));
  lineAt(bars.filter((d) => d.target > d.time), (d) => x(d.target), 0, (d) => x(d.target), row - 9,
         'var(--ink)');
  labelBars(bars, 13, (d) => fitted(d.key, left - 12), (d) => x(Math.max(d.time, d.target)) + 6,
            (d) => (d.gain >= 0.0005 ? '−' + percent(d.gain) + ' of the step' : 'at its limit'));
  explain(bars,
          (d) => [d.key, [
            ['share of the step', percent(d.share)], ['limit', d.bound], ['time', time(d.time)],
            ['target', time(d.target)], ['gain at the limit', percent(d.gain)],
            ['rate', flops(d.flops_per_s)], ['bandwidth', bandwidth(d.bytes_per_s)]
          ]]);
  boundLegend(frame.figure);
}

function drawAdvice(body, folder) {
  if (!folder.advice || !folder.advice.length) return;
  element(body, 'h3', 'Advice');
  const list = element(body, 'ol', undefined, 'ranked');
  for (const advice of folder.advice) {
    const item = element(list, 'li', advice.title + ' (');
    element(item, 'code', advice.command);
    item.appendChild(document.createTextNode(
        '): predicted ' + signedPercent(advice.predicted_gain) + ' tokens/s' +
        (advice.confidence !== undefined && advice.predicted_gain > 0 ?
             ' (confidence ' + Math.min(100 * advice.confidence, 99).toFixed(0) + '%)' :
             '') +
        (advice.predicted_memory_gain !== undefined ?
             ', ' + signedPercent(-advice.predicted_memory_gain) + ' owned memory' :
             '') +
        '. ' + advice.reason));
  }
  for (const trial of folder.trials || (folder.trial ? [folder.trial] : []))
    element(body, 'p',
            'A run with “' + trial.advice + '”: measured ' + signedPercent(trial.measured_gain) +
                ' tokens/s, predicted ' + signedPercent(trial.predicted_gain) +
                (trial.verdict === 'too few steps' ? '; too few steps to tell it from noise.' :
                     trial.clear_of_noise          ? ', clear of noise.' :
                                                     '; the intervals overlap, so this is noise.'));
}
