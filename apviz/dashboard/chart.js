// One plotly figure. What was drawn before (`base`) stays, and what still grows (`live`) is put on top, so that a tick
// sends a few curves and not all of them. Charts of a page talk to each other by events: hovering a method fades the
// others everywhere.

const HOVER = "apviz-hover";
const FADED = 0.18;

// one script for all charts of a document
function plotly() {
  window.apvizPlotly ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = "plotly/plotly.min.js";
    script.onload = () => resolve(window.Plotly);
    script.onerror = () => reject(new Error("plotly.js could not be loaded from this server"));
    document.head.appendChild(script);
  });
  return window.apvizPlotly;
}

// plotly writes its styles into the document, where a shadow root does not see them
function styles() {
  const sheet = new CSSStyleSheet();
  for (const style of document.querySelectorAll("style[id^='plotly.js-style']")) {
    for (const rule of style.sheet.cssRules) sheet.insertRule(rule.cssText, sheet.cssRules.length);
  }
  return sheet;
}

// what stands below the axes grows with the legend; the axes keep their height
function heightOf(figure, width, axes) {
  if (figure.layout.height) return figure.layout.height;
  const names = figure.data.filter((each) => each.showlegend !== false && each.name).map((each) => each.name);
  const lines = names.some((name) => name.includes("<br>")) ? 2 : 1;
  const columns = Math.max(1, Math.floor(width / 330));
  const legend = figure.layout.coloraxis?.colorbar ? 0 : Math.ceil(names.length / columns) * 20 * lines + 20;
  return figure.layout.margin.t + axes + 50 + legend;
}

function merged(model) {
  const base = model.base ? JSON.parse(model.base) : null;
  const live = model.live ? JSON.parse(model.live) : null;
  if (!base && !live) return null;
  if (!base || !live) return base || live;
  const keys = new Set(base.data.map((each) => each.name));
  const grown = live.data.map((each) => (keys.has(each.name) && each.hoverinfo === "skip" ? { ...each, showlegend: false } : each));
  return { data: [...base.data, ...grown], layout: base.layout, frames: base.frames };
}

export async function render({ model, el }) {
  const Plotly = await plotly();
  const holder = document.createElement("div");
  holder.className = "chart";
  holder.tabIndex = 0;
  holder.setAttribute("role", "img");
  el.appendChild(holder);
  const root = holder.getRootNode();
  if (root instanceof ShadowRoot) root.adoptedStyleSheets = [...root.adoptedStyleSheets, styles()];
  let drawing = Promise.resolve();
  let listening = false;
  let faded = null;

  const config = {
    displaylogo: false,
    responsive: false,
    toImageButtonOptions: { format: "png", scale: 2, filename: model.filename },
    modeBarButtonsToRemove: ["select2d", "lasso2d"],
    modeBarButtonsToAdd: [
      {
        name: "svg",
        title: "Download plot as SVG",
        icon: Plotly.Icons.disk,
        click: (chart) => Plotly.downloadImage(chart, { format: "svg", filename: model.filename }),
      },
    ],
  };

  async function draw() {
    const figure = merged(model);
    holder.setAttribute("aria-label", model.summary || "a chart");
    if (!figure) {
      Plotly.purge(holder);
      listening = false;
      return;
    }
    const layout = { ...figure.layout, autosize: true, width: holder.clientWidth || undefined };
    layout.height = heightOf(figure, holder.clientWidth, model.axes);
    layout.shapes = [...(layout.shapes || []), ...model.moment.map((x) => momentLine(x, layout))];
    holder.style.height = `${layout.height}px`;
    await Plotly.react(holder, figure.data, layout, config);
    if (figure.frames && figure.frames.length) {
      await Plotly.addFrames(holder, figure.frames);
    }
    model.drawn += 1;
    holder.dataset.drawn = model.drawn;
    if (faded) fade(faded);
    if (!listening) {
      listening = true;
      holder.on("plotly_click", ({ points: [point] }) => {
        model.clicked = {
          name: point.data.name || "",
          x: point.x,
          y: point.y,
          values: point.customdata === undefined ? [] : [point.customdata].flat().filter(Number.isFinite),
          count: (model.clicked.count || 0) + 1,
        };
      });
      holder.on("plotly_hover", ({ points: [point] }) => tell(point.data.legendgroup || null));
      holder.on("plotly_unhover", () => tell(null));
    }
  }

  function momentLine(x, layout) {
    return {
      type: "line", xref: "x", yref: "paper", x0: x, x1: x, y0: 0, y1: 1,
      line: { color: layout.template.layout.font.color, width: 2, dash: "dot" },
    };
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

  // one after another: a figure that changes while another is drawn would be drawn into it
  const redraw = () => (drawing = drawing.then(draw).catch((error) => console.error(error)));
  for (const name of ["base", "live", "moment", "summary", "axes"]) model.on(name, redraw);
  document.addEventListener(HOVER, hovered);
  const resized = new ResizeObserver(() => {
    if (holder.layout && holder.clientWidth && Math.abs(holder.clientWidth - holder.layout.width) > 1) {
      redraw();
    }
  });
  resized.observe(holder);
  model.on("remove", () => {
    document.removeEventListener(HOVER, hovered);
    resized.disconnect();
    Plotly.purge(holder);
  });
  redraw();
}
