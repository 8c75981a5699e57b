// SPDX-License-Identifier: Apache-2.0
// Asks the server twice a second and draws what has changed. A panel that is being read stands still.

const kPanels = {
  steps: drawSteps,
  requests: drawRequests,
  latency: drawLatency,
  blocks: drawBlocks,
  roofline: drawStepRoofline,
};
const kEveryMs = 500;
let isPaused = false;

// Whether the pointer or the focus is on one of a panel's marks.
function isRead(section) {
  const focused = document.activeElement;
  return section.contains(focused) && focused !== section ||
      (!tip.node.hidden && section.matches(':hover'));
}

function drawPanel(id, draw) {
  const section = byId(id);
  if (isRead(section)) return;
  section.querySelector('.body').remove();
  const body = element(section, 'div', undefined, 'body');
  try {
    draw(body);
  } catch (error) {
    element(body, 'p', 'This panel cannot be drawn: ' + visible(String(error.message)), 'warning');
  }
}

function drawAll() {
  drawFacts(document.querySelector('#now .facts'));
  for (const [id, draw] of Object.entries(kPanels)) drawPanel(id, draw);
}

function say(text, isFault = false) {
  const about = byId('about');
  about.textContent = text;
  about.classList.toggle('warning', isFault);
}

function describeServer() {
  const about = server.about;
  document.title = 'Ridge: ' + about.model;
  say(shortened(about.model, 80) + ', ' + plural(about.slots, 'slot') + ' of ' +
      integer(about.context) + ' positions');
}

async function watch() {
  let wait = kEveryMs;
  try {
    if (!document.hidden && !isPaused) {
      const hasNews = await ask();
      describeServer();
      if (hasNews || server.metrics.ridge_num_requests_running > 0)
        drawAll();
      else
        drawFacts(document.querySelector('#now .facts'));
    }
  } catch (error) {
    if (error.status === 401) return askKey('The server does not know this key.');
    say('The server does not answer: ' + visible(String(error.message)), true);
    wait = 4 * kEveryMs;
  }
  setTimeout(watch, wait);
}

async function begin() {
  try {
    await ask();
  } catch (error) {
    if (error.status === 401) return askKey(server.key ? 'The server does not know this key.' : '');
    say('The server does not answer: ' + visible(String(error.message)), true);
    return void setTimeout(begin, 2000);
  }
  byId('key').hidden = true;
  byId('live').hidden = false;
  if (!begin.isDone) beginChat();
  begin.isDone = true;
  describeServer();
  drawAll();
  setTimeout(watch, kEveryMs);
}

function askKey(fault) {
  byId('live').hidden = true;
  byId('key').hidden = false;
  byId('keyfault').textContent = fault;
  say('The server answers only to those who have a key.');
  byId('secret').focus();
}

byId('key').addEventListener('submit', (event) => {
  event.preventDefault();
  server.key = byId('secret').value.trim();
  sessionStorage.setItem('ridge-key', server.key);
  if (server.key) begin();
});
byId('pause').addEventListener('click', () => {
  isPaused = !isPaused;
  byId('pause').textContent = isPaused ? 'Go on' : 'Pause';
  byId('pause').setAttribute('aria-pressed', String(isPaused));
});
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape') tip.hide();
});
window.addEventListener('resize', () => {
  clearTimeout(drawAll.later);
  if (server.about) drawAll.later = setTimeout(drawAll, 150);
});
window.matchMedia('(prefers-color-scheme: dark)')
    .addEventListener('change', () => server.about && drawAll());

if (document.body.dataset.state === 'loading') {
  say('The model is loading …');
  setTimeout(() => location.reload(), 1000);
} else if (document.body.dataset.key === 'wanted' && !server.key) {
  askKey('');
} else {
  begin();
}
