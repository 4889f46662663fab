// A table of runs. The model holds its contents, and `draw` updates the elements to match. A row keeps its elements
// between drawings, so that focus, scroll position and an unfinished click survive new rows.

const MISSING = "–";
const HOW = "With the keyboard: the arrow keys move between rows, Enter looks at a run, and a heading sorts.";

const decimals = (digits) => {
  const format = new Intl.NumberFormat("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  return (value) => format.format(value);
};
const three = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 3 });
const scientific = (value) => (Number.isFinite(value) ? value.toExponential(2) : decimals(0)(value));
const isPlain = (value) => value === 0 || !Number.isFinite(value) || (Math.abs(value) >= 1e-4 && Math.abs(value) < 1e6);
const FORMS = {
  text: (value) => value,
  integer: decimals(0),
  "2 decimals": decimals(2),
  "4 decimals": decimals(4),
  "3 digits": (value) => (isPlain(value) ? three.format(value) : scientific(value)),
  scientific,
};
// The parts of a cell that pairs a number with its sign, such as ≈.
const bare = (cell) => (Array.isArray(cell) ? cell[0] : cell);
const sign = (cell) => (Array.isArray(cell) ? cell[1] : "");
// Outlines of plotly's marker symbols of runs, around the origin.
const SYMBOLS = {
  circle: "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0Z", square: "M-4-4H4V4H-4Z", pentagon: "M0-5L5-1.5 3 4.5H-3L-5-1.5Z",
  "triangle-up": "M-5 4H5L0-5Z", "triangle-left": "M4-5V5L-5 0Z", "triangle-right": "M-4-5V5L5 0Z",
  bowtie: "M-5-4.5L5 4.5V-4.5L-5 4.5Z", hourglass: "M-4.5-5L4.5 5H-4.5L4.5-5Z",
};
// What headings mean, shown where the pointer rests.
const HINTS = {
  work: "How often all of K was computed or read, set-up included.",
  epochs: "Passes over all blocks; for CG, iterations.",
  "epochs (CG: iterations)": "Passes over all blocks; for CG, iterations.",
  residual: "‖B − KW‖ / ‖B‖, the mean over all right-hand sides.",
  "test RMSE": "Error on rows held out, in standard deviations of the target.",
  RMSE: "Error on rows held out, in standard deviations of the target.",
  κ: "Condition number of K, on which CG depends.",
  "κ′": "Its counterpart for blocks, on which alternating projection depends.",
};
const inWords = new Intl.Collator("en", { numeric: true });

function made(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// Draw the line and the marker of a curve, as in a legend.
function swatch([color, dash, symbol]) {
  const holder = made("span", { class: "swatch", "aria-hidden": "true" });
  const stroke = `stroke="${color}" stroke-width="2.5" stroke-dasharray="${dash === "solid" ? "none" : dash}"`;
  const marker = `<path transform="translate(20 7)" fill="${color}" d="${SYMBOLS[symbol] || ""}"/>`;
  holder.innerHTML = `<svg width="40" height="14"><path d="M0 7H40" ${stroke}/>${marker}</svg>`;
  return holder;
}

// Change the text only if it differs, because screen readers read every change aloud.
function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Mark the cell of a number that is beyond a bound, and add words that only screen readers read.
function mark(cell, value, bounds) {
  const crossed = typeof value === "number" && bounds.find(([way, bound]) => (way === ">" ? value > bound : value < bound));
  cell.classList.toggle("beyond", Boolean(crossed));
  const words = crossed ? ` ${crossed[0] === ">" ? "above" : "below"} ${crossed[1]}` : "";
  cell.title = words.trim();
  if (words) cell.append(made("span", { class: "unseen" }, words));
}

// Sort by value. Missing values come last in both directions; equal values keep the given order.
function inOrder(model) {
  const place = model.columns.findIndex(([title]) => title === model.sorted_by) + 1;
  if (!place) return model.rows;
  const way = model.descending ? -1 : 1;
  const isMissing = (value) => value === null || value === "";
  return [...model.rows].sort((one, other) => {
    const [a, b] = [bare(one[place]), bare(other[place])];
    if (isMissing(a) || isMissing(b)) return isMissing(a) - isMissing(b);
    return way * (typeof a === "string" ? inWords.compare(a, b) : a < b ? -1 : Number(a > b));
  });
}

export function render({ model }) {
  const head = made("tr");
  const body = made("tbody");
  const table = made("table", { "aria-describedby": "how" }, made("caption", { class: "unseen" }, model.caption), made("thead", {}, head), body);
  const count = made("span", { role: "status" });
  const pager = made("nav", { class: "pager", "aria-label": `Pages of: ${model.caption}` });
  const all = made("input", { type: "checkbox", "aria-label": "Tick all rows of all pages" });
  const headings = new Map();
  const rows = new Map();
  // The key of the row that the tab key focuses.
  let current = "";

  function sort(title) {
    const again = model.sorted_by === title;
    const back = again && model.descending;
    model.page = 0;
    model.descending = again && !back;
    model.sorted_by = back ? "" : title;
  }

  function tick(keys, on) {
    model.ticked = model.rows.map(([key]) => key).filter((key) => (keys.includes(key) ? on : model.ticked.includes(key)));
  }

  // Pin and hide are words, because two icons in every row would have to be learned.
  const ACTIONS = { pinned: ["Pin", "Unpin"], hidden: ["Hide", "Show"] };

  function toggle(list, key) {
    const has = model[list].includes(key);
    model[list] = has ? model[list].filter((each) => each !== key) : [...model[list], key];
  }

  function makeActions(key) {
    const cell = made("td", { class: "actions" });
    for (const list of model.actions) {
      const button = made("button", { type: "button", "data-list": list });
      button.addEventListener("click", () => toggle(list, key));
      cell.append(button);
    }
    return cell;
  }

  function makeHead() {
    headings.clear();
    const cells = model.columns.map(([title, form]) => {
      // a heading breaks between words only
      const words = title.replaceAll("-", "\u2011");
      const button = made("button", { type: "button" }, words, made("span", { class: "arrow", "aria-hidden": "true" }));
      if (HINTS[title]) button.title = HINTS[title];
      button.addEventListener("click", () => sort(title));
      const heading = made("th", { scope: "col", class: form === "text" ? "text" : "number" }, button);
      headings.set(title, heading);
      return heading;
    });
    if (model.can_tick) cells.unshift(made("td", { class: "tick" }, made("label", {}, all)));
    if (model.actions.length) cells.push(made("td", { class: "actions" }, made("span", { class: "unseen" }, "Actions")));
    head.replaceChildren(...cells);
  }

  function makeRow(key) {
    const cells = model.columns.map(([title, form], place) => {
      if (!place) return made("th", { scope: "row", class: "text" }, made("button", { type: "button", class: "look" }));
      return made("td", { class: form === "text" ? "text" : "number", "data-title": title.replace(/ \(.*/, "") });
    });
    const row = made("tr", {}, ...cells);
    row.dataset.key = key;
    if (model.can_tick) {
      const box = made("input", { type: "checkbox", "aria-label": `Tick ${key}` });
      box.addEventListener("change", () => tick([key], box.checked));
      row.prepend(made("td", { class: "tick" }, made("label", {}, box)));
    }
    if (model.actions.length) row.append(makeActions(key));
    return row;
  }

  function fill(row, [key, ...values]) {
    const cells = [...row.children].slice(model.can_tick ? 1 : 0);
    const look = row.querySelector(".look");
    model.columns.forEach(([title, form], place) => {
      const text = values[place] === null ? MISSING : sign(values[place]) + FORMS[form](bare(values[place]));
      if (!place) return say(look, text);
      const [cell, bounds] = [cells[place], model.marks[title] || []];
      const drawn = JSON.stringify([text, values[place], bounds]);
      if (cell.dataset.drawn === drawn) return;
      cell.dataset.drawn = drawn;
      say(cell, text);
      cell.classList.toggle("missing", text === MISSING);
      mark(cell, bare(values[place]), bounds);
    });
    const drawn = JSON.stringify(model.swatches[key] || "");
    if (row.dataset.swatch !== drawn) {
      row.dataset.swatch = drawn;
      row.querySelector(".swatch")?.remove();
      if (model.swatches[key]) look.before(swatch(model.swatches[key]));
    }
    // Show the details of the method, and the name of the run if the cell shows the method instead.
    look.title = [model.details[key], look.textContent === key ? "" : key].filter(Boolean).join("\n");
    if (key === model.selected) row.setAttribute("aria-current", "true");
    else row.removeAttribute("aria-current");
    for (const button of row.querySelectorAll("[data-list]")) {
      const { list } = button.dataset;
      say(button, ACTIONS[list][Number(model[list].includes(key))]);
      button.setAttribute("aria-label", `${button.textContent} ${look.textContent}`);
      row.classList.toggle(list, model[list].includes(key));
    }
    const box = row.querySelector("input");
    if (box) box.checked = model.ticked.includes(key);
  }

  const pages = () => Math.max(1, model.page_rows ? Math.ceil(model.rows.length / model.page_rows) : 1);
  const pageNow = () => Math.min(model.page, pages() - 1);
  const TURNS = {
    First: () => 0,
    Previous: () => pageNow() - 1,
    Next: () => pageNow() + 1,
    Last: () => pages() - 1,
  };
  for (const [name, target] of Object.entries(TURNS)) {
    const button = made("button", { type: "button", "aria-label": `${name} page` }, name);
    button.addEventListener("click", () => {
      if (button.getAttribute("aria-disabled") !== "true") model.page = target();
    });
    pager.append(button);
  }
  pager.append(count);

  function drawPager(first, shown) {
    pager.hidden = pages() === 1;
    say(count, `${first + 1}–${first + shown} of ${model.rows.length.toLocaleString("en-US")}`);
    for (const button of pager.querySelectorAll("button")) {
      // Do not disable the button, because it would lose the focus.
      const target = TURNS[button.textContent]();
      button.setAttribute("aria-disabled", target === pageNow() || target < 0 || target >= pages());
    }
  }

  function drawHead() {
    for (const [title, heading] of headings) {
      const way = title !== model.sorted_by ? "none" : model.descending ? "descending" : "ascending";
      heading.setAttribute("aria-sort", way);
      say(heading.querySelector(".arrow"), { none: "", ascending: " ▲", descending: " ▼" }[way]);
    }
    all.checked = model.rows.length > 0 && model.ticked.length === model.rows.length;
    all.indeterminate = !all.checked && model.ticked.length > 0;
  }

  const control = (row, isBox) => row.querySelector(isBox ? "input" : ".look");

  function setCurrent(key) {
    current = key;
    for (const row of body.children) {
      for (const each of row.querySelectorAll("input, button")) each.tabIndex = row.dataset.key === key ? 0 : -1;
    }
  }

  function drawRows(shown) {
    const focused = body.getRootNode().activeElement;
    const held = body.contains(focused) ? focused.closest("tr") : null;
    const place = [...body.children].indexOf(held);
    const keys = shown.map(([key]) => key);
    body.querySelector(".none")?.parentNode.remove();
    for (const [key, row] of rows) {
      if (!keys.includes(key)) row.remove(), rows.delete(key);
    }
    shown.forEach((values, i) => {
      const key = values[0];
      if (!rows.has(key)) rows.set(key, makeRow(key));
      const row = rows.get(key);
      fill(row, values);
      if (body.children[i] !== row) body.insertBefore(row, body.children[i] || null);
    });
    if (!shown.length) body.replaceChildren(made("tr", {}, made("td", { class: "none", colspan: head.children.length }, "No runs.")));
    setCurrent([current, model.selected].find((key) => keys.includes(key)) ?? keys[0]);
    // A moved row has lost the focus, so restore it. For a removed row, focus the row now in its place.
    if (held && !body.contains(body.getRootNode().activeElement)) {
      const row = rows.get(held.dataset.key) || body.children[Math.min(place, shown.length - 1)];
      const next = row ? control(row, focused.tagName === "INPUT") : head.querySelector("button");
      next.focus({ preventScroll: true });
    }
  }

  function draw() {
    const first = pageNow() * model.page_rows;
    const shown = inOrder(model).slice(first, model.page_rows ? first + model.page_rows : undefined);
    drawHead();
    drawRows(shown);
    drawPager(first, shown.length);
  }

  all.addEventListener("change", () => tick(model.rows.map(([key]) => key), all.checked));
  body.addEventListener("click", ({ target }) => {
    if (target.closest(".tick, .actions")) return;
    const { key } = target.closest("tr").dataset;
    if (key === undefined) return;
    model.selected = key;
    model.send_msg(key);
  });
  body.addEventListener("focusin", ({ target }) => setCurrent(target.closest("tr").dataset.key));
  body.addEventListener("keydown", (event) => {
    const place = [...body.children].indexOf(event.target.closest("tr"));
    const last = body.children.length - 1;
    const next = { ArrowUp: place - 1, ArrowDown: place + 1, Home: 0, End: last }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    control(body.children[Math.max(0, Math.min(next, last))], event.target.tagName === "INPUT").focus();
  });

  // Draw simultaneous changes once.
  let waiting = false;
  const redraw = () => {
    if (waiting) return;
    waiting = true;
    queueMicrotask(() => ((waiting = false), draw()));
  };
  // New columns need new rows, because the cells of the old rows belong to the old columns.
  model.on("columns", () => {
    rows.forEach((row) => row.remove());
    rows.clear();
    makeHead();
    redraw();
  });
  for (const name of ["rows", "details", "swatches", "selected", "ticked", "page", "sorted_by", "descending", "hidden", "pinned", "marks"]) model.on(name, redraw);
  makeHead();
  draw();
  return made("div", { class: "runs" }, made("p", { id: "how", class: "unseen" }, HOW), made("div", { class: "scroll" }, table), pager);
}
