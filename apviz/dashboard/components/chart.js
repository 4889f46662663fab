// One plotly figure. The finished part (`base`) stays, and the growing part (`live`) is drawn on top of it. Only the
// new points of the growing part are sent (`grown`). Charts of a page communicate by events: hovering a method fades
// the others in every chart.

const HOVER = "apviz-hover";
const FADED = 0.18;
// Font size in pixels of a figure that is not enlarged.
const TYPE_SIZE = 15;
// Width in pixels of a legend entry without its name, and of a character of it.
const ENTRY = 50;
const ENTRY_CHARACTER = 7;

// All charts share one script. The page requests it early, so that it loads during the rest of the set-up.
function plotly() {
  window.apvizPlotly ??= new Promise((resolve, reject) => {
    if (window.Plotly) return resolve(window.Plotly);
    const script = document.getElementById("plotly-script");
    script.addEventListener("load", () => resolve(window.Plotly));
    script.addEventListener("error", () => reject(new Error("plotly.js could not be loaded from this server")));
  });
  return window.apvizPlotly;
}

// Copy plotly's styles, because plotly adds them to the document, where a shadow root does not see them.
function styles() {
  const sheet = new CSSStyleSheet();
  for (const style of document.querySelectorAll("style[id^='plotly.js-style']")) {
    for (const rule of style.sheet.cssRules) sheet.insertRule(rule.cssText, sheet.cssRules.length);
  }
  return sheet;
}

// A chart narrower than NARROW gets a line of height BUTTONS for its buttons above the title. On a phone the names of
// runs have the font size PHONE_TYPE. All are in pixels.
const NARROW = 600;
const BUTTONS = 26;
const PHONE_TYPE = 12;
const isPhone = () => window.innerWidth < NARROW;
// Smallest and largest height, in pixels, of axes that fill a window.
const LOW_AXES = 200;
const HIGH_AXES = 620;
// A chart next to a higher card grows up to this factor.
const MOST_GROWTH = 1.6;
// Pixels left of a legend, as many as left of a title.
const INDENT = 10;

function narrowed({ data, layout, ...rest }) {
  const { margin, title, legend, meta } = layout;
  const narrow = {
    ...layout,
    // a legend names the curves that stand out, because names at their ends have no room
    showlegend: meta?.behind ? true : layout.showlegend,
    annotations: (layout.annotations || []).filter((each) => each.name !== "end"),
    margin: { ...margin, t: margin.t + BUTTONS, r: margin.l },
    title: { ...title, pad: { ...title?.pad, t: (title?.pad?.t || 0) + BUTTONS } },
    legend: isPhone() ? { ...legend, font: { ...legend?.font, size: PHONE_TYPE } } : legend,
  };
  const behind = new Set(meta?.behind);
  const named = data.map((each) => (behind.has(each.legendgroup) ? { ...each, showlegend: false } : each));
  return { data: named, layout: narrow, ...rest };
}

// Pixels of a title's line, and of a character of it for each pixel of its font size.
const TITLE_LINE = 20;
const TITLE_CHARACTER = 0.52;

// Return the lines of a title, which fit a phone, joined as far as they fit a width.
function titleLines(text, scale, room) {
  const lines = [];
  for (const line of text.split("<br>")) {
    const isNote = line.includes("color:");
    const kind = line.match(/^<span class="(words|parts)"/)?.[1] || (isNote && lines.at(-1)?.isNote && "parts");
    const size = Number(line.match(/font-size:(\d+)/)?.[1] || TYPE_SIZE) * scale;
    const long = TITLE_CHARACTER * size * line.replace(/<[^>]*>/g, "").length;
    const last = lines.at(-1);
    if (kind && last && last.long + long + 3 * TITLE_CHARACTER * size <= room) {
      last.text += (kind === "words" ? " " : " · ") + line;
      last.long += long + 3 * TITLE_CHARACTER * size;
    } else lines.push({ text: line, long, isNote });
  }
  return lines.map((each) => each.text);
}

// Join the lines of a figure's title. It keeps the space of the title `other`, so that both figures begin at one height.
function joined(figure, width, other) {
  const { title, margin, template, legend } = figure.layout;
  const scale = template.layout.font.size / TYPE_SIZE;
  const room = width - margin.l - margin.r - 16;
  const given = title?.text || "";
  const lines = titleLines(given, scale, room);
  const most = Math.max(lines.length, other ? titleLines(other, scale, room).length : 0);
  const saved = given.split("<br>").length - most;
  const text = lines.join("<br>");
  const layout = {
    ...figure.layout,
    title: { ...title, text },
    margin: { ...margin, t: margin.t - saved * TITLE_LINE * scale },
    legend: legend?.xref === "container" ? { ...legend, x: legend.x + INDENT / width } : legend,
  };
  return { ...figure, layout };
}

// Return the pixels from the top of the page to an element, independent of scrolling.
function placeOf(element) {
  let place = element.getBoundingClientRect().top;
  for (let at = element; at; at = at.parentNode || at.host) place += at.scrollTop || 0;
  return place;
}

// Return the width of an element in whole pixels, rounded down: a chart that is wider covers the border of its card.
function widthOf(element) {
  return Math.floor(element.getBoundingClientRect().width);
}

// Return the height of a figure. The space below the axes grows with the legend; the axes scale only with the font. A
// figure with a row for every run says how high its axes are.
function heightOf(figure, width, axes) {
  if (figure.layout.height) return figure.layout.height;
  const { margin, xaxis, yaxis } = figure.layout;
  const scale = figure.layout.template.layout.font.size / TYPE_SIZE;
  axes = (figure.layout.meta?.axes ?? axes) * scale;
  let ticks = 50;
  if (yaxis?.scaleanchor && yaxis.range && xaxis.range) {
    // Limit the height of a picture to its aspect ratio.
    const span = ([low, high]) => Math.abs(high - low);
    axes = Math.min(axes, ((width - margin.l - margin.r) * span(yaxis.range)) / span(xaxis.range));
    if (xaxis.showticklabels === false) ticks = margin.b;
  }
  const names = figure.data.filter((each) => each.showlegend !== false && each.name).map((each) => each.name);
  const lines = names.some((name) => name.includes("<br>")) ? 2 : 1;
  // plotly gives every entry the width of the widest, and a legend the width of the axes
  const longest = Math.max(0, ...names.flatMap((name) => name.split("<br>")).map((line) => line.length));
  const entry = (ENTRY + ENTRY_CHARACTER * longest) * scale;
  const columns = Math.max(1, Math.floor((width - margin.l - margin.r) / entry));
  const hasNone = figure.layout.coloraxis?.colorbar || figure.layout.showlegend === false;
  const legend = hasNone ? 0 : Math.ceil(names.length / columns) * (lines > 1 ? 52 : 22) + 20;
  return margin.t + axes + scale * (ticks + legend);
}

// Return the finite numbers of a value, which plotly gives as a typed array, a plain array or a number.
function numbersOf(data) {
  return (ArrayBuffer.isView(data) ? [...data] : [data].flat()).filter(Number.isFinite);
}

function merged(model, live) {
  const base = model.base ? JSON.parse(model.base) : null;
  if (!base && !live) return null;
  if (base && model.frame) return advanced(base, JSON.parse(model.frame).frames[0]);
  if (!base || !live) return base || live;
  const keys = new Set(base.data.map((each) => each.name));
  const grown = live.data.map((each) => (keys.has(each.name) && each.hoverinfo === "skip" ? { ...each, showlegend: false } : each));
  return { data: [...base.data, ...grown], layout: base.layout, frames: base.frames };
}

// Apply a frame to a figure: it replaces a few arrays and texts.
function advanced(figure, frame) {
  const data = [...figure.data];
  frame.traces.forEach((place, i) => (data[place] = blended(data[place], frame.data[i])));
  return { ...figure, data, layout: blended(figure.layout, frame.layout || {}) };
}

// Append the new points to the growing figure.
function longer(live, { number, curves }) {
  const data = [...live.data];
  for (const { at, keep, ...points } of curves) {
    const old = data[at];
    data[at] = { ...old };
    for (const [name, values] of Object.entries(points)) data[at][name] = old[name].slice(0, keep).concat(values);
  }
  return { ...live, data, number };
}

function decoded(values) {
  if (!values?.bdata) return values || [];
  const bytes = Uint8Array.from(atob(values.bdata), (each) => each.charCodeAt(0));
  const Kind = { f8: Float64Array, f4: Float32Array, i4: Int32Array, i2: Int16Array, i1: Int8Array, u1: Uint8Array }[values.dtype];
  return Kind ? new Kind(bytes.buffer) : [];
}

// Return the smallest and largest value on every axis, as log10 on log axes.
function extents(data, layout) {
  const found = {};
  for (const curve of data) {
    for (const letter of ["x", "y"]) {
      const name = (curve[`${letter}axis`] || letter).replace(letter, `${letter}axis`);
      const value = layout[name]?.type === "log" ? Math.log10 : (each) => each;
      for (const each of decoded(curve[letter])) {
        const at = value(each);
        if (each === null || !Number.isFinite(at)) continue;
        const [low, high] = found[name] || [at, at];
        found[name] = [Math.min(low, at), Math.max(high, at)];
      }
    }
  }
  return found;
}

// Leave room for new points to the right and below, so that the axes stay unchanged for a while.
function withRoom(figure, live) {
  const layout = { ...figure.layout };
  for (const [name, [low, high]] of Object.entries(extents(live.data, figure.layout))) {
    const span = high - low;
    const next = name.startsWith("x") ? high + 0.4 * span : low - 0.3 * span;
    const include = layout[name]?.type === "log" ? 10 ** next : next;
    const given = layout[name]?.autorangeoptions;
    layout[name] = { ...layout[name], autorangeoptions: { ...given, include: [...(given?.include || []), include] } };
  }
  return { ...figure, layout };
}

const isPlain = (each) => each !== null && typeof each === "object" && !("bdata" in each);

function blended(old, change) {
  if (!isPlain(old) || !isPlain(change)) return change;
  const both = Array.isArray(old) ? [...old] : { ...old };
  if (Array.isArray(old) && !change.some(isPlain)) return change;
  for (const [key, value] of Object.entries(change)) both[key] = key in both ? blended(both[key], value) : value;
  return both;
}

const tellDrawn = () => document.dispatchEvent(new CustomEvent("apviz-drawn", { detail: "chart" }));

export async function render({ model, el }) {
  const Plotly = await plotly();
  const preview = window.apviz.drawingOf(model.base);
  const holder = document.createElement("div");
  holder.className = "chart";
  holder.tabIndex = 0;
  // not `img`, which may not have the buttons inside
  holder.setAttribute("role", "figure");
  el.appendChild(holder);
  const root = holder.getRootNode();
  const host = root instanceof ShadowRoot ? root.host : el;
  if (root instanceof ShadowRoot) root.adoptedStyleSheets = [...root.adoptedStyleSheets, styles()];
  let drawing = Promise.resolve();
  let listening = false;
  let own = []; // shapes of the figure, without the cursor
  let faded = null;
  let drawn = 0;
  let place = 0; // position on the page when last drawn
  let standing = false; // whether the elements above it are observed
  let live = null; // the growing figure with all points so far
  let drawnSerial = 0; // serial of the growing figure as drawn; 0 if the whole figure must be redrawn
  let grown = false; // whether only new points have arrived
  let finished = 0; // number of curves before those of the growing figure
  let hidden = false; // whether a drawing was skipped because the page is not shown
  let natural = 0; // height that the figure asks for

  // A downloaded picture includes the title and the legend, which the page shows elsewhere.
  function download(format) {
    return ({ data, layout }) => {
      const width = holder.clientWidth;
      const { title = layout.title, top = layout.margin.t } = layout.meta || {};
      const margin = { ...layout.margin, t: top };
      const named = { data, layout: { ...layout, title, margin, width, showlegend: true, height: undefined } };
      const plain = { data, layout: { ...layout, height: undefined } };
      named.layout.height = layout.height + heightOf(named, width, 0) - heightOf(plain, width, 0);
      Plotly.downloadImage(named, { format, filename: model.filename, scale: format === "png" ? 2 : 1 });
    };
  }

  const config = {
    displaylogo: false,
    // Do not offer to upload the figure to plotly's cloud.
    showSendToCloud: false,
    responsive: false,
    modeBarButtonsToRemove: ["select2d", "lasso2d", "toImage"],
    modeBarButtonsToAdd: [
      { name: "png", title: "Download plot as a PNG", icon: Plotly.Icons.camera, click: download("png") },
      { name: "svg", title: "Download plot as SVG", icon: Plotly.Icons.disk, click: download("svg") },
    ],
  };

  function takeLive() {
    live = model.live ? { ...JSON.parse(model.live), number: 0 } : null;
  }

  function takeGrown() {
    if (!model.grown) return false;
    const came = JSON.parse(model.grown);
    if (live && came.serial === live.serial && came.number === live.number + 1) {
      live = longer(live, came);
      return true;
    }
    // The browser missed a change, so ask for the whole figure. Ignore changes older than the figure it already has.
    if (!live || came.serial > live.serial || (came.serial === live.serial && came.number > live.number)) {
      model.behind = model.behind + 1;
    }
    return false;
  }

  // Extend the curves if the axes have room for them, in half the time of drawing the whole figure.
  async function grow() {
    const shown = holder._fullLayout;
    if (live.serial !== drawnSerial) return false;
    for (const [name, [low, high]] of Object.entries(extents(live.data, live.layout))) {
      const { autorange, range } = shown[name];
      // Keep axes that the visitor has zoomed.
      if (autorange && (low < Math.min(...range) || high > Math.max(...range))) return false;
    }
    const first = holder.data.length - live.data.length;
    const data = live.data.map(({ x, y, customdata }) => ({ x, y, customdata }));
    const at = { duration: 0, redraw: false };
    await Plotly.animate(
      holder,
      { data, traces: data.map((each, i) => first + i) },
      { frame: at, transition: { duration: 0 }, mode: "immediate" },
    );
    return true;
  }

  // Return the figure as drawn at the present size of the card, for which it makes room; null if there is none.
  function arranged() {
    let figure = merged(model, live);
    if (figure) figure = joined(figure, holder.clientWidth, isPhone() ? "" : model.level_with);
    if (figure && holder.clientWidth < NARROW) figure = narrowed(figure);
    holder.setAttribute("aria-label", model.summary || "a chart");
    drawnSerial = 0;
    if (!figure) {
      natural = 0;
      holder.style.height = el.style.height = "0";
      return null;
    }
    finished = figure.data.length;
    if (live) {
      drawnSerial = live.serial;
      finished -= live.data.length;
      figure = withRoom(figure, live);
    }
    const layout = { ...figure.layout, autosize: true, width: widthOf(holder) || undefined };
    place = placeOf(holder);
    const height = (axes) => heightOf(figure, holder.clientWidth, axes);
    layout.height = height(model.axes);
    if (model.fits && !standing) standing = watchAbove();
    if (model.fits && !isPhone()) {
      const room = window.innerHeight - place - model.fits;
      layout.height = Math.min(Math.max(room, height(LOW_AXES)), height(HIGH_AXES));
    }
    own = layout.shapes || [];
    layout.shapes = [...own, ...model.cursor.flatMap((x) => cursorLines(x, layout, figure.data))];
    natural = layout.height;
    el.style.height = `${natural}px`;
    layout.height = filled(layout);
    holder.style.height = `${layout.height}px`;
    return { ...figure, layout };
  }

  async function draw() {
    hidden = !holder.clientWidth;
    if (hidden) return;
    const onlyGrown = grown;
    grown = false;
    if (onlyGrown && drawnSerial && live && !model.frame && (await grow())) {
      holder.dataset.drawn = ++drawn;
      return;
    }
    preview?.remove();
    const figure = arranged();
    if (!figure) {
      Plotly.purge(holder);
      listening = false;
      return;
    }
    await Plotly.react(holder, figure.data, figure.layout, config);
    if (figure.frames && figure.frames.length) {
      await Plotly.addFrames(holder, figure.frames);
    }
    holder.dataset.drawn = ++drawn;
    if (drawn === 1) tellDrawn();
    // A playing animation waits for this report. For a growing figure it would only slow the solve down.
    if (!live) model.drawn = drawn;
    if (faded) fade(faded);
    if (!listening) {
      listening = true;
      holder.on("plotly_click", ({ points }) => {
        if (!points?.length) return;
        const [point] = points;
        model.clicked = {
          name: point.data.name || "",
          x: point.x,
          y: point.y,
          values: numbersOf(point.customdata),
          // The run of the point. An active run is not in the folder yet, and another run may have its name.
          group: point.curveNumber < finished ? point.data.legendgroup || point.data.meta || "" : "",
          count: (model.clicked.count || 0) + 1,
        };
      });
      // plotly also fires this event over axes without a point.
      holder.on("plotly_hover", ({ points }) => tell(points?.[0]?.data.legendgroup || null));
      holder.on("plotly_unhover", () => tell(null));
    }
  }

  // Return the height of a chart that fills its card, which is as high as the highest card in its row. A picture keeps
  // its aspect ratio.
  function filled({ yaxis }) {
    if (model.fits || yaxis?.scaleanchor) return natural;
    return Math.min(Math.max(natural, Math.floor(host.getBoundingClientRect().height)), MOST_GROWTH * natural);
  }

  function fill() {
    if (!natural || !holder.layout || !holder.clientWidth) return;
    const height = filled(holder.layout);
    if (Math.abs(height - holder.layout.height) < 3) return;
    holder.style.height = `${height}px`;
    return Plotly.relayout(holder, { height });
  }

  // A cursor is dotted. On cells of any colour it is seen by the line behind it.
  function cursorLines(x, { template: { layout } }, data) {
    const line = { type: "line", xref: "x", yref: "paper", x0: x, x1: x, y0: 0, y1: 1 };
    const dots = { ...line, line: { color: layout.font.color, width: 2, dash: "dot" } };
    const hasCells = data.some(({ type }) => type === "heatmap");
    return hasCells ? [{ ...line, line: { color: layout.paper_bgcolor, width: 4 } }, dots] : [dots];
  }

  // The cursor moves with every played update, so moving it must be cheap.
  function mark() {
    if (!holder.layout) return;
    const lines = model.cursor.flatMap((x) => cursorLines(x, holder.layout, holder.data));
    return Plotly.relayout(holder, { shapes: [...own, ...lines] });
  }

  function tell(group) {
    if (model.linked) document.dispatchEvent(new CustomEvent(HOVER, { detail: group }));
  }

  function fade(group) {
    const groups = holder.data.map((each) => each.legendgroup);
    if (!model.linked || (group && !groups.includes(group))) return;
    Plotly.restyle(holder, { opacity: groups.map((each) => (group && each && each !== group ? FADED : 1)) });
  }

  function hovered({ detail }) {
    if (detail === faded || !holder.data) return;
    faded = detail;
    fade(detail);
  }

  // Draw one figure after another, because two simultaneous drawings would mix. A waiting drawing uses the values at
  // its start.
  let waiting = false;
  let isPreviewed = preview !== null;
  const redraw = () => {
    if (isPreviewed) return arranged();
    if (waiting) return;
    waiting = true;
    drawing = drawing.then(() => ((waiting = false), draw())).catch((error) => console.error(error));
  };
  const start = () => {
    isPreviewed = false;
    redraw();
  };
  for (const name of ["base", "frame", "axes", "level_with"]) model.on(name, () => ((drawnSerial = 0), start()));
  model.on("live", () => (takeLive(), start()));
  model.on("grown", () => takeGrown() && ((grown = true), start()));
  takeLive();
  takeGrown();
  model.on("cursor", () => (drawing = drawing.then(mark).catch((error) => console.error(error))));
  model.on("summary", () => holder.setAttribute("aria-label", model.summary || "a chart"));
  document.addEventListener(HOVER, hovered);
  const resized = new ResizeObserver(() => {
    if (!holder.clientWidth) return;
    if (hidden || (holder.layout && Math.abs(holder.clientWidth - holder.layout.width) > 1)) redraw();
  });
  resized.observe(holder);
  const stretched = new ResizeObserver(() => (drawing = drawing.then(fill).catch((error) => console.error(error))));
  stretched.observe(host);
  // A chart that fills the window changes with the window and with the elements above the chart.
  const moved = () => {
    if (model.fits && holder.clientWidth && holder.layout && Math.abs(placeOf(holder) - place) > 2) redraw();
  };
  const reshaped = () => {
    place = -1;
    moved();
  };
  window.addEventListener("resize", reshaped);
  const above = new ResizeObserver(moved);
  // Observe all elements above the chart, because its containers may keep the window's height whatever they contain.
  function watchAbove() {
    for (let at = holder; at; at = at.parentNode || at.host) {
      for (let each = at; each instanceof Element; each = each.previousElementSibling) above.observe(each);
    }
    return true;
  }
  model.on("remove", () => {
    document.removeEventListener(HOVER, hovered);
    resized.disconnect();
    stretched.disconnect();
    above.disconnect();
    window.removeEventListener("resize", reshaped);
    Plotly.purge(holder);
  });
  redraw();
  if (!isPreviewed) return;
  // Controls work sooner if the preview's drawing stays until the visitor has paused, or comes to it.
  document.addEventListener("apviz-live", () => isPreviewed && holder.append(preview), { once: true });
  const startOnce = () => isPreviewed && start();
  for (const name of ["pointerenter", "focus"]) holder.addEventListener(name, startOnce, { once: true });
  window.apviz.whenCalm(startOnce);
  tellDrawn();
}
