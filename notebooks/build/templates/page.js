// draws each figure once it is near, and all of them on paper

// plotly.js is read when the first is, and after what the page shows and answers without it
const shown = new Promise(done => addEventListener("load", () => requestAnimationFrame(() => setTimeout(done))));
let reading;
const plotly = () => reading ??= shown.then(() => new Promise((done, failed) => {
  const script = document.createElement("script");
  Object.assign(script, {src: "plotly.min.js", onload: done, onerror: failed});
  document.head.append(script);
}));

const narrow = window.matchMedia("(max-width: 600px)").matches;
const config = {responsive: true, displaylogo: false, showSendToCloud: false, displayModeBar: narrow ? false : "hover"};

// figures are light, and dark where the page is: each colour of apviz has one of the other theme
const dark = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => dark.matches && getComputedStyle(document.documentElement).colorScheme.includes("dark");

function inDark(text) {
  const parts = JSON.parse(text.replace(/#[0-9a-f]{6}\b|rgba?\(\d+, ?\d+, ?\d+/gi, color => {
    if (color[0] === "#") return darkTheme.colors[color.toLowerCase()] ?? color;
    const number = each => Number(each).toString(16).padStart(2, "0");
    const found = darkTheme.colors[`#${color.match(/\d+/g).map(number).join("")}`];
    return found ? `${color.split("(")[0]}(${found.match(/[0-9a-f]{2}/g).map(each => parseInt(each, 16))}` : color;
  }));
  if ((parts.layout.template?.layout?.paper_bgcolor ?? "white") === "white") parts.layout.template = darkTheme.template;
  for (const menu of parts.layout.updatemenus ?? []) if (menu.font?.color) menu.font.color = darkTheme.onButtons;
  return parts;
}

const read = place => {
  const text = document.getElementById(place.dataset.figure).textContent;
  return isDark() ? inDark(text) : JSON.parse(text);
};

const pen = document.createElement("canvas").getContext("2d");
const seams = {words: " ", parts: " · "};

// lines of a title were made for a phone: those that go on the one before are joined to it where there is room
function joined(text, font, room) {
  const lines = [];
  for (const line of text.split("<br>")) {
    const [, seam, size, words] = line.match(/^<span(?: class="(\w+)")? style="font-size:([\d.]+)px[^>]*>(.*)<\/span>$/) ?? [];
    const before = lines.at(-1);
    pen.font = `${size}px ${font}`;
    const whole = seam && before && before.words + seams[seam] + words;
    if (whole && pen.measureText(whole.replace(/<[^>]*>/g, "")).width <= room) {
      before.line = before.line.replace(/<\/span>$/, `${seams[seam]}${words}</span>`);
      before.words = whole;
    } else lines.push({line, words});
  }
  return lines.map(({line}) => line).join("<br>");
}

// of a figure and its frames; the room that all of them save goes
function widen(layout, frames, width) {
  const titled = [layout, ...(frames ?? []).map(frame => frame.layout ?? {})].filter(each => each.title?.text);
  const count = text => text.split("<br>").length;
  const saved = titled.map(each => {
    const before = count(each.title.text);
    each.title.text = joined(each.title.text, layout.template?.layout?.font?.family ?? "sans-serif", width - 32);
    return before - count(each.title.text);
  });
  const less = Math.round(Math.min(...saved) * 1.3 * layout.title?.font?.size) || 0;
  for (const each of [layout, ...(frames ?? []).map(frame => frame.layout ?? {})]) {
    if (each.margin?.t) each.margin.t -= less;
    if (each.height) each.height -= less;
  }
}

function draw(place) {
  const {data, layout, frames} = read(place);
  delete layout.width;
  const asked = layout.height;
  widen(layout, frames, place.offsetWidth);
  place.dataset.lines = layout.title?.text?.split("<br>").length;
  if (layout.height !== asked) place.style.height = `${layout.height}px`;
  const share = layout.meta?.heightOverWidth;
  if (share) {
    // pictures keep their shape: where they are narrow they are low, and no room is left below them
    const {t, b, l, r} = layout.margin;
    layout.height = Math.min(layout.height, Math.ceil(t + b + share * (place.offsetWidth - l - r)));
    place.style.height = `${layout.height}px`;
  }
  Plotly.newPlot(place, {data, layout, frames, config}).then(() => (place.dataset.drawn = ""));
}

const near = new IntersectionObserver(entries => {
  for (const {isIntersecting, target} of entries) {
    if (!isIntersecting || target.dataset.asked) continue;
    for (const place of target.parentElement.querySelectorAll(".figure")) {
      if (place.dataset.asked) continue;
      place.dataset.asked = "yes";
      plotly().then(() => draw(place));
    }
  }
}, {rootMargin: "600px"});
const figures = [...document.querySelectorAll(".figure")];
figures.forEach(place => near.observe(place));

// on paper every figure is drawn, as wide as the sheet, and answers and solutions are open; what is printed cannot wait,
// so that plotly.js must be there before
shown.then(() => (window.requestIdleCallback ?? setTimeout)(plotly));

function drawAnew(places) {
  for (const place of places) {
    Plotly.purge(place);
    delete place.dataset.drawn;
    place.style.height = "";
    place.dataset.asked = "yes";
    draw(place);
  }
}

let opened = [], drawn = [];
// before the widgets look how much room they have
addEventListener("beforeprint", () => {
  document.documentElement.classList.add("printing");
  opened = [...document.querySelectorAll("details:not([open], .folded, .more)")];
  for (const each of opened) each.open = true;
  drawn = figures.filter(place => place.dataset.drawn !== undefined);
  if (window.Plotly) drawAnew(figures);
}, {capture: true});
addEventListener("afterprint", () => {
  document.documentElement.classList.remove("printing");
  for (const each of opened) each.open = false;
  if (window.Plotly) drawAnew(drawn);
});

dark.addEventListener("change", () => window.Plotly && drawAnew(figures.filter(place => place.dataset.drawn !== undefined)));

// a window made narrower or wider: what a title needs now
window.addEventListener("resize", () => {
  for (const place of document.querySelectorAll("[data-drawn]")) {
    const {layout, frames} = read(place);
    widen(layout, frames, place.offsetWidth);
    if (place.dataset.lines !== String(layout.title?.text?.split("<br>").length)) {
      Plotly.purge(place);
      place.style.height = `${layout.height}px`;
      draw(place);
    }
  }
});
