// SPDX-License-Identifier: Apache-2.0
// The chat: a request of /v1/chat/completions (of /v1/completions where the model has no chat format), its
// events as they come, and under each answer what it took.

const chat = {
  turns: [],   // {role, content}
  open: null,  // the AbortController of the answer that is being made
};

// The data of each event that is complete; what is left is returned.
function takeEvents(text, take) {
  const lines = text.split('\n');
  for (const line of lines.slice(0, -1))
    if (line.startsWith('data: ')) take(line.slice(6).trim());
  return lines[lines.length - 1];
}

// The numbers under an answer.
function accountText(account, usage) {
  const parts = [];
  if (usage) {
    const cached = usage.prompt_tokens_details ? usage.prompt_tokens_details.cached_tokens : 0;
    parts.push(plural(usage.prompt_tokens, 'token') + ' in' +
               (cached ? ' (' + integer(cached) + ' cached)' : ''));
    parts.push(integer(usage.completion_tokens) + ' out');
  }
  if (account) {
    const ms = (value) => time(1e6 * value);
    const predicted = (value) => (value ? ' (predicted ' + ms(value) + ')' : '');
    if (account.ttft_ms)
      parts.push('TTFT ' + ms(account.ttft_ms) + predicted(account.predicted_ttft_ms));
    if (account.tpot_ms)
      parts.push('TPOT ' + ms(account.tpot_ms) + predicted(account.predicted_tpot_ms));
    parts.push(amount(account.model_flops) + ' FLOPs');
    if (account.mbu) parts.push('MBU ' + percent(account.mbu));
  }
  return parts.join(' · ');
}

function scrolled(change) {
  const box = byId('turns');
  const follows = box.scrollTop + box.clientHeight > box.scrollHeight - 40;
  change();
  if (follows) box.scrollTop = box.scrollHeight;
}

function requestBody() {
  const common = {
    max_tokens: Math.min(Number(byId('most').value) || 256, server.about.context),
    temperature: Number(byId('heat').value) || 0,
    stream: true,
    stream_options: {include_usage: true},
    x_ridge: true,
  };
  return server.about.has_chat ?
      Object.assign({messages: chat.turns}, common) :
      Object.assign({prompt: chat.turns[chat.turns.length - 1].content}, common);
}

// Foreign text with its line ends.
const visibleLines = (text) =>
    text.split('\n').map((line) => visible(line.replace(/\t/g, '    '))).join('\n');

// Draws an answer as it comes, in time linear in its length: a piece of text is appended and never
// drawn again, at most once a frame. Each line is a block of its own, so that the browser lays out
// only the last one anew. `finish` draws what has come since the last frame, also in a hidden tab,
// which has no frames.
function answerWriter(turn) {
  let waiting = '', line = null, frame = 0;
  const draw = () => {
    frame = 0;
    scrolled(() => {
      for (const part of waiting.match(/[^\n]*\n|[^\n]+/g) || []) {
        line = line || element(turn, 'div');
        line.append(visibleLines(part));
        if (part.endsWith('\n')) line = null;
      }
    });
    waiting = '';
  };
  return {
    add(text) {
      waiting += text;
      frame = frame || requestAnimationFrame(draw);
    },
    finish() {
      cancelAnimationFrame(frame);
      draw();
    }
  };
}

// Adds to `got` what the events of a reply hold, and draws its text.
async function readAnswer(reply, got, writer) {
  const reader = reply.body.getReader(), decoder = new TextDecoder();
  let waiting = '';
  for (;;) {
    const {done, value} = await reader.read();
    if (done) return;
    waiting = takeEvents(waiting + decoder.decode(value, {stream: true}), (data) => {
      if (data === '[DONE]') return;
      const event = JSON.parse(data);
      if (event.error) throw new Error(event.error.message);
      if (event.usage) got.usage = event.usage;
      for (const choice of event.choices) {
        const text = (choice.delta ? choice.delta.content : choice.text) || '';
        got.text += text;
        if (text) writer.add(text);
        if (choice.x_ridge) got.account = choice.x_ridge;
      }
    });
  }
}

async function submit() {
  const field = byId('message'), text = field.value.trim();
  if (!text || chat.open) return;
  field.value = '';
  const hint = byId('turns').querySelector('.hint');
  if (hint) hint.remove();
  chat.turns.push({role: 'user', content: text});
  const asked = element(byId('turns'), 'div', visibleLines(text), 'turn user');
  const turn = element(byId('turns'), 'div', '', 'turn assistant waiting');
  const got = {text: '', account: null, usage: null}, writer = answerWriter(turn);
  asked.scrollIntoView({block: 'nearest'});
  byId('turns').scrollTop = byId('turns').scrollHeight;
  chat.open = new AbortController();
  busy(true);
  let note = '', isFault = false;
  try {
    const reply = await send(server.about.has_chat ? '/v1/chat/completions' : '/v1/completions', {
      method: 'POST',
      body: JSON.stringify(requestBody()),
      signal: chat.open.signal,
      headers: {'Content-Type': 'application/json'}
    });
    if (!reply.ok) throw new Error((await reply.json()).error.message);
    await readAnswer(reply, got, writer);
    note = accountText(got.account, got.usage);
  } catch (error) {
    isFault = error.name !== 'AbortError';
    note = isFault ? visible(String(error.message)) : 'Stopped.';
  }
  writer.finish();
  if (got.text || got.usage)
    chat.turns.push({role: 'assistant', content: got.text});
  else
    chat.turns.pop();
  turn.classList.remove('waiting');
  scrolled(() => element(byId('turns'), 'div', note, isFault ? 'account warning' : 'account'));
  chat.open = null;
  busy(false);
}

function busy(is) {
  byId('send').disabled = is;
  byId('stop').disabled = !is;
  byId('turns').setAttribute('aria-busy', String(is));
}

function clearChat() {
  if (chat.open) chat.open.abort();
  chat.turns = [];
  byId('turns').textContent = '';
  element(byId('turns'), 'p',
          server.about.has_chat ?
              'Each answer shows what it took: tokens, times, FLOPs.' :
              'The model has no chat format: it continues each message as a text.',
          'hint');
}

function beginChat() {
  clearChat();
  byId('ask').addEventListener('submit', (event) => {
    event.preventDefault();
    submit();
  });
  byId('message').addEventListener('keydown', (event) => {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    submit();
  });
  byId('stop').addEventListener('click', () => chat.open && chat.open.abort());
  byId('clear').addEventListener('click', clearChat);
}
