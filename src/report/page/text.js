// SPDX-License-Identifier: Apache-2.0
// Numbers and foreign text as people read them. Formats agree with src/base/units.cc.

// Three significant digits.
function digits(value) {
  const size = Math.abs(value);
  if (size >= 100 || size === 0) return value.toFixed(0);
  return value.toFixed(size >= 10 ? 1 : 2);
}

function scaled(value, steps, unit) {
  if (value === null || value === undefined || !isFinite(value)) return '–';
  let [factor, prefix] = steps[0];
  for (const step of steps)
    if (Math.abs(value) >= 0.9995 * step[0]) [factor, prefix] = step;
  return digits(value / factor) + (prefix + unit ? ' ' + prefix + unit : '');
}

const kDecimal =
    [[1, ''], [1e3, 'k'], [1e6, 'M'], [1e9, 'G'], [1e12, 'T'], [1e15, 'P'], [1e18, 'E']];
const kBinary = [[1, ''], [1024, 'Ki'], [1024 ** 2, 'Mi'], [1024 ** 3, 'Gi'], [1024 ** 4, 'Ti']];
const kTime = [[1, 'ns'], [1e3, 'µs'], [1e6, 'ms'], [1e9, 's']];

const time = (ns) => (ns === 0 ? '0' : scaled(ns, kTime, ''));
const bytes = (count) => scaled(count, kBinary, 'B');
const amount = (count) => scaled(count, kDecimal, '');
const rate = (perSecond, unit) => scaled(perSecond, kDecimal, unit);
const flops = (perSecond) => rate(perSecond, 'FLOP/s');
const bandwidth = (perSecond) => rate(perSecond, 'B/s');
const integer = (count) => (isFinite(count) && count !== null ? d3.format(',')(count) : '–');
const percent = (share) =>
    (isFinite(share) && share !== null ? (100 * share).toFixed(1) + '%' : '–');
const signedPercent = (share) => (share >= 0 ? '+' : '−') + percent(Math.abs(share));
const intensity = (value) =>
    (isFinite(value) && value !== null ? Number(value.toPrecision(3)) + ' FLOP/B' : '–');
const times = (factor) => factor.toFixed(2) + 'x';
const plural = (count, word) => integer(count) + ' ' + word + (count === 1 ? '' : 's');

// "[1.54 s, 1.61 s]", with the coverage where it is below 95%.
function interval(summary) {
  if (!summary || !(summary.samples > 1)) return '–';
  const covers = summary.coverage < 0.95 ? ' (' + (100 * summary.coverage).toFixed(0) + '%)' : '';
  return time(summary.low_ns) + ' – ' + time(summary.high_ns) + covers;
}

// Text from files: control characters and marks that reorder or hide text become visible.
function visible(text) {
  return text.replace(
      /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g,
      (mark) => '\\u{' + mark.codePointAt(0).toString(16) + '}');
}

// A copy of a value from JSON in which all text is visible.
function cleaned(value) {
  if (typeof value === 'string') return visible(value);
  if (Array.isArray(value)) return value.map(cleaned);
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(
      Object.entries(value).map(([key, each]) => [visible(key), cleaned(each)]));
}

// Long names differ in their first and last parts, so they are cut in the middle.
function middleCut(text, length = 52) {
  if (text.length <= length) return text;
  const last = Math.floor(length / 3);
  return text.slice(0, length - last - 1) + '…' + text.slice(text.length - last);
}

function shortened(text, length) {
  return text.length > length ? text.slice(0, length - 1) + '…' : text;
}
