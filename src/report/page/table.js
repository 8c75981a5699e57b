// SPDX-License-Identifier: Apache-2.0
// A table that sorts by its columns, filters by a text, and is copied or saved as CSV.

// Quoted where needed. A text that a spreadsheet would take for a formula gets an apostrophe.
function field(value) {
  if (value === undefined || value === null) return '';
  let word = String(value);
  if (typeof value === 'string' && /^[=+\-@\t]/.test(word)) word = "'" + word;
  return /[",\r\n]/.test(word) ? '"' + word.replace(/"/g, '""') + '"' : word;
}

function csvText(columns, rows) {
  const lines = [
    columns.map((column) => field(column.title)),
    ...rows.map((row) => columns.map((column) => field(column.value(row))))
  ];
  return lines.map((line) => line.join(',') + '\r\n').join('');
}

// The text of a cell.
function cellText(column, row) {
  const value = column.value(row);
  if (value === undefined || value === null || value === '') return '';
  return column.text ? column.text(value, row) : String(value);
}

// How a figure is written, by its unit.
const kFormats = Object.fromEntries([
  ['ns', time], ['B', bytes], ['B/s', bandwidth], ['FLOP', amount], ['MAC', amount],
  ['FLOP/s', flops], ['FLOP/B', (x) => (x >= 100 ? x.toFixed(0) : x.toPrecision(3))],
  ['1/s', amount], ['share', percent], ['x', times], ['text', String]
]);

// The columns of some figures ("calls time_ns") of a kind of record, as the list of figures names
// and explains them.
function columns(kind, keys) {
  return keys.split(' ').map((key) => {
    const [title, unit, help] = page.figures[kind][key], isText = unit === 'text';
    return {title, value: (row) => row[key], text: kFormats[unit] || integer, isText, help};
  });
}

// The same of one record, as pairs of a name and a text.
const pairs = (kind, keys, record) =>
    columns(kind, keys).map((column) => [column.title, cellText(column, record)]);

// A column is {title, value(row), text(value, row), isText, help}. `foot` is a row of totals.
// Returns {filter(text), rows(list)}, which redraw the body.
function table(parent, {name, columns: all, rows, foot, choose, most = 120}) {
  const kMany = 12;
  // A column that no row has a value in says nothing.
  const columns = rows.length ? all.filter((column) => rows.some((row) => column.value(row))) : all;
  const isWide = columns.length > kMany;
  const bar = controls(parent);
  const count = element(bar, 'span');
  const save = () => saveFile(name + '.csv', 'text/csv', csvText(columns, listed()));
  const copied = () => {
    count.textContent = 'copied';
  };
  // Some browsers give files no clipboard.
  if (navigator.clipboard)
    button(bar, 'Copy as CSV',
           () => navigator.clipboard.writeText(csvText(columns, listed())).then(copied, save));
  button(bar, 'Save CSV', save);
  const more = button(bar, 'Show all rows', () => {
    most = Infinity;
    draw();
  });
  const box = element(parent, 'div', undefined, isWide ? 'scroll wide' : 'scroll');
  box.tabIndex = 0;
  box.setAttribute('role', 'region');
  box.setAttribute('aria-label', name);
  const whole = element(box, 'table');
  const head = element(element(whole, 'thead'), 'tr');
  const body = element(whole, 'tbody');
  let order = null, ascending = false, text = '', shown = rows;

  columns.forEach((column) => {
    const cell = element(head, 'th', undefined, column.isText ? 'text' : '');
    cell.scope = 'col';
    if (column.help) cell.title = column.help;
    button(cell, column.title, () => {
      ascending = order === column ? !ascending : Boolean(column.isText);
      order = column;
      draw();
    });
  });
  if (foot) {
    const line = element(element(whole, 'tfoot'), 'tr');
    columns.forEach((column) =>
                        element(line, 'td', cellText(column, foot), column.isText ? 'text' : ''));
  }

  function listed() {
    const found = text ?
        shown.filter((row) => columns.some((c) => c.isText &&
                                               String(c.value(row)).toLowerCase().includes(text))) :
        shown;
    if (!order) return found;
    const compare = ascending ? d3.ascending : d3.descending;
    return found.slice().sort((a, b) => compare(order.value(a), order.value(b)));
  }

  function draw() {
    body.textContent = '';
    const list = listed();
    for (const row of list.slice(0, most)) {
      const line = element(body, 'tr');
      columns.forEach((column) => {
        const whole = cellText(column, row);
        const text = column.isText ? middleCut(whole, isWide ? 36 : undefined) : whole;
        const cell = element(line, 'td', text, column.isText ? 'text' : '');
        if (text !== whole) cell.title = whole;
        if (column.bar) {
          const mark = document.createElement('span');
          mark.className = 'share';
          mark.style.width = Math.round((isWide ? 24 : 60) * Math.min(1, column.value(row) || 0)) + 'px';
          mark.style.background = column.bar(row);
          cell.prepend(mark);
        }
      });
      if (choose) {
        line.tabIndex = 0;
        line.style.cursor = 'pointer';
        const act = () => {
          body.querySelectorAll('.chosen').forEach((each) => each.classList.remove('chosen'));
          line.classList.add('chosen');
          choose(row);
        };
        line.addEventListener('click', act);
        line.addEventListener('keydown', (event) => {
          if (event.key === 'Enter') act();
        });
      }
    }
    more.hidden = list.length <= most;
    count.textContent = more.hidden ? plural(list.length, 'row') :
                                      'the first ' + most + ' of ' + plural(list.length, 'row');
    head.querySelectorAll('th').forEach(
        (cell, i) => cell.setAttribute(
            'aria-sort', columns[i] === order ? (ascending ? 'ascending' : 'descending') : 'none'));
  }

  draw();
  return {
    filter(word) {
      text = word;
      draw();
    },
    rows(list) {
      shown = list;
      draw();
    },
  };
}
