// SPDX-License-Identifier: Apache-2.0
// The page: its heading, its panels in order, and the run that they show.

// The id, the title, whether it applies to the chosen run, and what draws it.
const hasRows = (run) => run && run.rows.length > 0;
const hasFlops = (run) => hasRows(run) && run.roofline && run.rows.some((row) => row.flops > 0);
const kPanels = [
  ['overview', 'Overview', (run) => run, drawOverview],
  ['ladder', 'Runs', () => runs.length > 0, drawLadder],
  ['roofline', 'Roofline', hasFlops, drawRoofline],
  ['operations', 'Operations and kernels', hasRows, drawOperations],
  ['timeline', 'Timeline', (run) => run && run.spans.length > 0, drawTimeline],
  ['ranks', 'Ranks', (run) => run && run.folder.ranks, drawRanks],
  ['modules', 'Modules', hasRows, drawModules],
  [
    'memory', 'Memory',
    (run) => run && (run.memory.allocated_bytes > 0 || run.memory.measured_peak_bytes > 0 ||
                     run.points.length > 0),
    drawMemory
  ],
  [
    'prediction', 'Prediction',
    (run) => run && !isOfAnotherProgram(run) &&
        (hasRows(run) || run.operations || (run.passes || []).length > 0),
    drawPrediction
  ],
  [
    'inference', 'Inference',
    () => runs.some((run) => isInference(run) && !isOfAnotherProgram(run)) ||
        folders.some((folder) => folder.inference),
    drawInference
  ],
  [
    'training', 'Training',
    () => runs.some((run) => run.loss && run.loss.curve) || folders.some((folder) => folder.log),
    drawTraining
  ],
  ['bench', 'Bench', () => folders.some((folder) => folder.bench), drawBench],
  ['comparison', 'Comparison', () => comparable().length > 1, drawComparison],
].map(([id, title, applies, draw]) => ({id, title, applies, draw}));

let chosen = detailed.length ? detailed[detailed.length - 1] : runs[runs.length - 1];

// Draws a panel into its section; a damaged record costs one panel, not the page.
function drawPanel(panel) {
  const section = document.getElementById(panel.id);
  section.hidden = !panel.applies(chosen);
  section.querySelector('.body').remove();
  const body = element(section, 'div', undefined, 'body');
  if (section.hidden) return;
  try {
    panel.draw(body, {run: chosen});
  } catch (error) {
    element(body, 'p',
            'This panel cannot be drawn from these files: ' + visible(String(error.message)),
            'warning');
  }
}

function drawAll() {
  for (const panel of kPanels) drawPanel(panel);
  document.querySelectorAll('nav a').forEach((link) => {
    link.hidden = document.getElementById(link.hash.slice(1)).hidden;
  });
}

function heading() {
  const about = document.getElementById('about');
  for (const folder of folders) {
    const machine = folder.machine || {};
    const device = [
      machine.device, machine.isa, machine.threads ? plural(machine.threads, 'thread') : ''
    ].filter(Boolean).join(', ');
    const name = folder.log ? 'Log of a training: ' + folder.name :
        folders.length > 1  ? folder.name + ': ' :
                              '';
    const line = element(about, 'span',
                         name + (device ? device + '. ' : '') + (folder.finished_at || '') + '. ');
    if (folder.command) element(line, 'code', shortened(folder.command, 300));
    element(about, 'br');
  }
  if (runs.length) document.title = 'Ridge report: ' + runs[runs.length - 1].text;
}

function contents() {
  const nav = document.getElementById('contents'), main = document.getElementById('panels');
  for (const panel of kPanels) {
    const link = element(nav, 'a', panel.title);
    link.href = '#' + panel.id;
    const section = element(main, 'section');
    section.id = panel.id;
    element(section, 'h2', panel.title);
    element(section, 'div', undefined, 'body');
  }
  if (detailed.length > 1)
    choice(nav, 'run', detailed.map((run) => [String(run.index), run.label]), String(chosen.index),
           (value) => {
             chosen = runs[Number(value)];
             drawAll();
           });
  const leftOut = folders.flatMap((folder) => folder.left_out || []);
  if (leftOut.length) {
    const foot = element(document.body, 'footer', undefined, 'masthead');
    element(foot, 'p', 'Left out of this page: ' + leftOut.join('; ') + '.', 'note');
  }
}

heading();
contents();
drawAll();
let width = window.innerWidth;
window.addEventListener('resize', () => {
  if (window.innerWidth === width) return;
  width = window.innerWidth;
  clearTimeout(drawAll.later);
  drawAll.later = setTimeout(drawAll, 150);
});
window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', drawAll);
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape') tip.hide();
});
