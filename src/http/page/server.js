// SPDX-License-Identifier: Apache-2.0
// Requests to this server, and what the page keeps of its replies.

const byId = (id) => document.getElementById(id);
const server = {
  key: sessionStorage.getItem('ridge-key') || '',
  about: null,  // what does not change
  event: 0,
  nowNs: 0,
  steps: [],  // the last ones, oldest first
  requests: new Map(),
  blocks: null,
  mbuReason: '',  // why the MBU is over 100%
  metrics: {},  // by name; a family with more labels than the model's has a sum
  rates: [],    // [seconds, generated tokens] of the last replies
};
const kSteps = 512, kRequests = 512, kRateSeconds = 10;

function send(path, options = {}) {
  const headers = Object.assign({}, options.headers);
  if (server.key) headers.Authorization = 'Bearer ' + server.key;
  return fetch(path, Object.assign({}, options, {headers}));
}

// "name{model_name="m",le="1"} 3": values by name; those of buckets are left out.
function parseMetrics(text) {
  const values = {};
  for (const line of text.split('\n')) {
    const found = /^([a-z0-9_]+)\{.*\} (\S+)$/.exec(line);
    if (!found || found[1].endsWith('_bucket')) continue;
    values[found[1]] = (values[found[1]] || 0) + Number(found[2]);
  }
  return values;
}

// Returns whether something has happened since the last call.
async function ask() {
  const replies =
      await Promise.all([send('/debug/activity?after=' + server.event), send('/metrics')]);
  for (const reply of replies)
    if (!reply.ok) throw Object.assign(new Error('status ' + reply.status), {status: reply.status});
  const activity = cleaned(await replies[0].json());
  if (activity.event < server.event) {  // the server is another one, started since
    Object.assign(server, {event: 0, steps: [], requests: new Map(), rates: []});
    return ask();
  }
  server.metrics = parseMetrics(await replies[1].text());
  if (activity.server) server.about = activity.server;
  const hasNews = activity.event !== server.event || !server.blocks;
  server.event = activity.event;
  server.nowNs = activity.now_ns;
  const {columns, rows} = activity.steps;
  const made = rows.map((row) => Object.fromEntries(columns.map((name, i) => [name, row[i]])));
  server.steps = server.steps.concat(made).slice(-kSteps);
  for (const request of activity.requests) server.requests.set(request.id, request);
  const ids = Array.from(server.requests.keys()).sort((a, b) => a - b);
  for (const id of ids.slice(0, -kRequests)) server.requests.delete(id);
  server.blocks = activity.blocks;
  if (activity.mbu_reason !== undefined) server.mbuReason = activity.mbu_reason;
  const seconds = activity.now_ns / 1e9;
  server.rates.push([seconds, server.metrics.ridge_generation_tokens_total]);
  while (server.rates.length > 2 && seconds - server.rates[0][0] > kRateSeconds)
    server.rates.shift();
  return hasNews;
}

// Of the last seconds.
function tokensPerSecond() {
  const first = server.rates[0], last = server.rates[server.rates.length - 1];
  return last[0] > first[0] ? (last[1] - first[1]) / (last[0] - first[0]) : 0;
}

const requestList = () => Array.from(server.requests.values()).sort((a, b) => a.id - b.id);
