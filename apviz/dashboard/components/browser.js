// A tab sends its token to the server and passes values from the server to `page.js`.

function visitor() {
  try {
    const kept = localStorage.getItem("apviz-visitor");
    if (/^[0-9a-f]{32}$/.test(kept)) return kept;
    const bytes = crypto.getRandomValues(new Uint8Array(16));
    const made = [...bytes].map((each) => each.toString(16).padStart(2, "0")).join("");
    localStorage.setItem("apviz-visitor", made);
    return made;
  } catch {
    return ""; // a browser without storage
  }
}

function lost() {
  const kept = sessionStorage.getItem("apviz-lost");
  sessionStorage.removeItem("apviz-lost");
  if (!kept) return {};
  const { at, server, jobs } = JSON.parse(kept);
  return { at: at / 1000, seconds: (Date.now() - at) / 1000, server, jobs };
}

// Bokeh lays out the whole page again whenever any component is drawn, shown or hidden, even out of sight. The browser
// lays out the page by itself, so it is enough to update Bokeh a few times a second (REST in milliseconds).
const REST = 200;

function layOutSeldom(root) {
  let waiting = false;
  let last = -REST;
  const layOut = () => {
    root.update_layout();
    root.compute_layout();
    waiting = false;
    last = performance.now();
  };
  root.invalidate_layout = () => {
    if (waiting) return;
    waiting = true;
    setTimeout(() => requestAnimationFrame(layOut), Math.max(0, last + REST - performance.now()));
  };
}

// Scroll to the top of the page, which scrolls inside itself.
function toTop(el) {
  for (let at = el; at; at = at.parentNode || at.host) if (at.scrollTop) at.scrollTop = 0;
}

// Answer the server once the page is drawn and the visitor has paused.
const answer = (model) => window.apviz.whenCalm(() => (model.idle = model.asked));

export function render({ model, view, el }) {
  layOutSeldom(view.root);
  const take = () => {
    const { server, jobs, drawing, is_heard: isHeard, answered } = model;
    Object.assign(window.apviz, { server, jobs, drawing, isHeard, answered });
    window.apviz.write();
  };
  for (const name of ["server", "jobs", "drawing", "is_heard", "answered"]) model.on(name, take);
  take();
  const paint = () => (document.documentElement.dataset.theme = model.theme);
  model.on("theme", paint);
  paint();
  model.on("page", () => toTop(el));
  model.on("asked", () => answer(model));
  if (model.asked) answer(model);
  // the buttons Back and Forward, also while the page was loading
  const tell = () => model.is_heard && window.apviz.step && model.send_msg(window.apviz.step);
  window.addEventListener("popstate", tell);
  model.on("is_heard", tell);
  model.lost = lost();
  model.visitor = visitor();
  model.pixels = window.innerWidth;
}
