// What a page does by itself: it shows that the server has not answered yet, and when the server was gone it says so,
// asks until it is back, and is loaded again, from its address. Panel's components know nothing of it.
(() => {
  // Panel would load a script that reads and rewrites every module, for browsers that know no import maps.
  window.importShim = Object.assign((url) => import(url), { addImportMap() {} });

  // Open in the theme of the system, unless the address names one. The server draws the page in its theme.
  const wanted = new URLSearchParams(location.search);
  if (!wanted.has("theme") && matchMedia("(prefers-color-scheme: dark)").matches) {
    wanted.set("theme", "dark");
    location.replace(`${location.pathname}?${wanted}${location.hash}`);
  }

  // Only a change of page is a step of the browser's history; Panel would add one for every changed setting. After Back
  // or Forward the addresses of the server wait for its answer, because until then they are of pages that were left.
  const pageIn = (url) => new URL(url, location.href).searchParams.get("page");
  const push = history.pushState;
  let address = null;
  let steps = 0;
  function write() {
    if (address === null || state.answered !== state.step) return;
    const isStep = ![null, pageIn(address)].includes(pageIn(location.href));
    (isStep ? push : history.replaceState).call(history, {}, "", address);
  }
  history.pushState = (data, title, url) => {
    address = url;
    write();
  };
  addEventListener("popstate", () => (state.step = `${++steps} ${pageIn(location.href)}`));

  // milliseconds: without an answer until that is shown; it stays at least so long; between two questions
  const PATIENCE = 300;
  const LINGER = 250;
  const AGAIN = 1000;
  const state = { server: "", jobs: [], drawing: false, isHeard: false, step: "", answered: "", write };
  window.apviz = state;

  // --- the preview, shown until its contents have been drawn and nothing moves ------------------------------------------

  // milliseconds after which it goes anyway, if nothing is drawn
  const STILL = 3000;
  let isDrawn = false;
  let still = 0; // milliseconds since all was there that came at once; charts below are still loading
  const awaited = () => document.getElementById("apviz-first")?.dataset.awaits;

  document.addEventListener("apviz-drawn", ({ detail }) => (isDrawn ||= detail === awaited()));
  // the first chart, from the same figure and by the same plotly as later on the page
  async function preview() {
    const place = document.getElementById("apviz-chart");
    const script = document.getElementById("plotly-script");
    if (!place || !script) return;
    if (!window.Plotly) await ended(script);
    if (!window.Plotly) return;
    const { data, layout } = JSON.parse(document.getElementById("apviz-figure").textContent);
    const shown = { ...layout, width: place.clientWidth, height: place.clientHeight, showlegend: false };
    if (place.clientWidth < 600) {
      shown.annotations = []; // no room for names at the ends of curves
      shown.margin = { ...layout.margin, r: layout.margin.l };
    }
    await window.Plotly.newPlot(place, data, shown, { staticPlot: true });
    await painted();
  }
  const ended = (script) => new Promise((resolve) => ["load", "error"].forEach((name) => script.addEventListener(name, resolve)));
  // a hidden page paints nothing
  const painted = () =>
    new Promise((resolve) => (setTimeout(resolve, STILL), requestAnimationFrame(() => setTimeout(resolve))));

  // Scripts of this type are fetched at once, and run after the first chart is painted, because a browser reads them for
  // longer than it draws.
  addEventListener("DOMContentLoaded", async () => {
    const scripts = [...document.querySelectorAll("script[type='text/later']")];
    for (const { src } of scripts) {
      if (src) document.head.append(Object.assign(document.createElement("link"), { rel: "preload", as: "script", href: src }));
    }
    await preview();
    const running = scripts.map((each) => {
      const script = document.createElement("script");
      Object.assign(script, each.src ? { src: each.src, async: false } : { text: each.text });
      return [each, script];
    });
    const add = (chosen) => chosen.forEach(([each, script]) => each.replaceWith(script));
    const files = running.filter(([, script]) => script.src);
    const [ofUploads, others] = [true, false].map((is) => files.filter(([, { src }]) => src.includes("/filedropper/") === is));
    const all = Promise.all(others.map(([, script]) => ended(script)));
    add(others);
    await all;
    // Material's components: read them while the server answers, instead of when its answer names them
    const { components } = document.documentElement.dataset;
    document.head.append(Object.assign(document.createElement("link"), { rel: "modulepreload", href: components }));
    add(running.filter(([, script]) => !script.src));
    // no upload is on the first page, so their scripts need not be read before the server is asked for the page
    add(ofUploads);
  });
  const waiting = setInterval(() => {
    if (still || (state.isHeard && window.Bokeh?.index?.roots?.[0]?.is_idle)) still += 50;
    if (!still || !(isDrawn || awaited() === "" || still > STILL)) return;
    clearInterval(waiting);
    requestAnimationFrame(() => {
      document.dispatchEvent(new CustomEvent("apviz-live"));
      document.getElementById("apviz-first")?.remove();
      touched = performance.now();
      if (kept) [...all(document, kept.selector)][kept.place]?.click();
    });
  }, 50);

  // The drawing of the preview, for the chart with the same figure: it may take the drawing until it draws its own.
  state.drawingOf = (figure) => {
    const place = document.getElementById("apviz-chart");
    const isSame = place?.querySelector(".main-svg") && document.getElementById("apviz-figure").textContent === escaped(figure);
    return isSame ? place : null;
  };
  const escaped = (text) => text.replaceAll("<", "\\u003c");

  // The last click on a tab or chip of the preview is kept, and carried out on the page that replaces it.
  const NEAR_TAB = 40; // pixels
  let kept = null;
  addEventListener("click", ({ target, clientX }) => {
    // a click between tabs is meant for the nearest: the page's own tabs are some pixels away
    const away = (tab, { left, right } = tab.getBoundingClientRect()) => Math.max(left - clientX, clientX - right);
    const tabs = [...(target.closest?.("#apviz-first nav")?.children ?? [])].filter((each) => away(each) < NEAR_TAB);
    const [nearest] = tabs.sort((one, other) => away(one) - away(other));
    const pressed = target.closest?.("#apviz-first :is(nav, .chips) > span") ?? nearest;
    if (!pressed) return;
    document.querySelector("#apviz-first .pressed")?.classList.remove("pressed");
    pressed.classList.add("pressed");
    const selector = pressed.closest("nav") ? "[role=tab]" : "[role=toolbar] > button";
    kept = { selector, place: [...pressed.parentNode.children].indexOf(pressed) };
  });
  function* all(root, selector) {
    for (const each of root.querySelectorAll("*")) {
      if (each.matches(selector)) yield each;
      if (each.shadowRoot) yield* all(each.shadowRoot, selector);
    }
  }

  // a page behind a proxy may load although its WebSocket is refused: then the server says what to do
  fetch("ws", { method: "OPTIONS" }).then(async (answer) => {
    const note = document.querySelector("#apviz-first [role=status]");
    if (answer.status === 403 && note) note.textContent = await answer.text();
  }, () => {});

  // --- whether the server has answered: every change that a browser sends is answered when all is done -------------

  const asked = new Set();
  let since = null;
  let until = 0;
  let turned = 0; // when another tab was clicked

  function look() {
    const now = performance.now();
    const waits = asked.size > 0 || state.drawing;
    since = waits ? since ?? now : null;
    if (waits && now - since >= PATIENCE) until = now + LINGER;
    document.documentElement.classList.toggle("apviz-busy", now < until);
    if (!waits && now > turned + LINGER) document.documentElement.classList.remove("apviz-turning");
  }
  setInterval(look, 50);

  // Work that can wait is done once the page is drawn and the visitor has paused: milliseconds since the last click or
  // key, and between two looks.
  const PAUSE = 1000;
  const CALM = 100;
  let touched = 0;
  for (const name of ["pointerdown", "keydown"]) addEventListener(name, () => (touched = performance.now()), true);
  const isCalm = () => !document.getElementById("apviz-first") && !asked.size && !state.drawing && performance.now() - touched > PAUSE;
  state.whenCalm = (work) => (isCalm() ? (window.requestIdleCallback || setTimeout)(work) : setTimeout(state.whenCalm, CALM, work));

  // From a click on a tab until its page is there, what is shown belongs to the other tab.
  addEventListener("click", (event) => {
    const tab = event.composedPath().find((each) => each.getAttribute?.("role") === "tab");
    if (!tab || tab.getAttribute("aria-selected") === "true") return;
    turned = performance.now();
    document.documentElement.classList.add("apviz-turning");
  }, true);

  function header(data) {
    if (typeof data !== "string" || !data.startsWith('{"msgid"')) return {};
    try {
      return JSON.parse(data);
    } catch {
      return {};
    }
  }

  const send = WebSocket.prototype.send;
  WebSocket.prototype.send = function (data) {
    if (!this.apviz) watch(this);
    const { msgid, msgtype } = header(data);
    if (msgtype === "PATCH-DOC") asked.add(msgid);
    return send.call(this, data);
  };

  function watch(socket) {
    socket.apviz = true;
    socket.addEventListener("message", ({ data }) => {
      const { msgtype, reqid } = header(data);
      if (msgtype === "OK" || msgtype === "ERROR") asked.delete(reqid);
    });
    socket.addEventListener("close", lost);
  }

  // --- whether the server answers -----------------------------------------------------------------------------------

  let leaving = false;
  addEventListener("pagehide", () => (leaving = true));
  addEventListener("pageshow", () => (leaving = false));

  function lost() {
    if (leaving || document.getElementById("apviz-lost")) return;
    asked.clear();
    const at = Date.now();
    const clock = new Date(at).toLocaleTimeString();
    const note = document.createElement("div");
    note.id = "apviz-lost";
    note.setAttribute("role", "alert");
    note.innerHTML = "<p><b></b></p><p></p>";
    const [head, words] = note.querySelectorAll("b, p:last-child");
    head.textContent = `No connection to the server since ${clock}.`;
    words.textContent =
      "What the page shows is as it was then. It asks every second whether the server is back, and opens again by itself.";
    document.body.appendChild(note);
    ask(at);
  }

  async function ask(at) {
    const request = { method: "HEAD", cache: "no-store" };
    const is_back = await fetch("plotly/plotly.min.js", request).then((answer) => answer.ok, () => false);
    if (!is_back) return setTimeout(ask, AGAIN, at);
    const { server, jobs } = state;
    sessionStorage.setItem("apviz-lost", JSON.stringify({ at, server, jobs }));
    location.reload();
  }
})();
