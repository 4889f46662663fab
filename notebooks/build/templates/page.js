// draw each figure when it comes near the window, and all figures in print

// load plotly.js for the first figure, after the page shows and responds without it
const shown = new Promise(done => addEventListener("load", () => requestAnimationFrame(() => setTimeout(done))));
let reading;
const plotly = () => reading ??= shown.then(() => new Promise((done, failed) => {
  const script = document.createElement("script");
  Object.assign(script, {src: "plotly.min.js", onload: done, onerror: failed});
  document.head.append(script);
}));

const narrow = window.matchMedia("(max-width: 600px)").matches;
const config = {responsive: true, displaylogo: false, showSendToCloud: false, displayModeBar: narrow ? false : "hover"};

// figures follow the theme of the page: each colour of apviz has a counterpart in the dark theme
const dark = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => {
  const scheme = getComputedStyle(document.documentElement).colorScheme;
  return scheme === "dark" || (scheme.includes("dark") && dark.matches);
};

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

// titles have short lines for phones: join a line to the one before if it continues it and there is room
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

// join the lines of titles in a figure and its frames, and remove the height that all of them save
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
    // keep the aspect ratio of pictures: a narrower picture is lower, without a gap below it
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

// in print every figure is drawn, as wide as the sheet, and answers and solutions are open; printing cannot wait, so load
// plotly.js in advance
shown.then(() => (window.requestIdleCallback ?? setTimeout)(plotly));

function redraw(places) {
  for (const place of places) {
    Plotly.purge(place);
    delete place.dataset.drawn;
    place.style.height = "";
    place.dataset.asked = "yes";
    draw(place);
  }
}

let opened = [], drawn = [];
// run before the widgets measure their width
addEventListener("beforeprint", () => {
  document.documentElement.classList.add("printing");
  opened = [...document.querySelectorAll("details:not([open], .folded, .more)")];
  for (const each of opened) each.open = true;
  drawn = figures.filter(place => place.dataset.drawn !== undefined);
  if (window.Plotly) redraw(figures);
}, {capture: true});
addEventListener("afterprint", () => {
  document.documentElement.classList.remove("printing");
  for (const each of opened) each.open = false;
  if (window.Plotly) redraw(drawn);
});

const changeTheme = () => window.Plotly && redraw(figures.filter(place => place.dataset.drawn !== undefined));
dark.addEventListener("change", changeTheme);
// on the site a button chooses the theme
new MutationObserver(changeTheme).observe(document.documentElement, {attributeFilter: ["data-theme"]});

// after a resize, titles may need fewer or more lines
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
