const config = {displaylogo: false, showSendToCloud: false};

// plotly.js is read once a page, however many charts it has
async function plotly(model) {
  window.apvizPlotly ??= model.widget_manager
    .get_model(model.get("plotly").slice("IPY_MODEL_".length))
    .then((shared) => {
      const module = {exports: {}};
      new Function("module", "exports", "define", shared.get("source"))(module, module.exports);
      return module.exports;
    })
    .catch((error) => {
      delete window.apvizPlotly;
      throw error;
    });
  return window.apvizPlotly;
}

// pixels around the middle of a handle where a pointer takes it: more than it is large, for fingers
const REACH = 18;

// lets a pointer drag the points of one trace; Python hears where to, and draws them there
function draggable(model, place, released) {
  let taken = null, drags = 0, asked = 0, last = null;
  const axes = () => [place._fullLayout.xaxis, place._fullLayout.yaxis];
  const at = (event) => {
    const box = place.getBoundingClientRect(), [x, y] = axes();
    return [event.clientX - box.x - x._offset, event.clientY - box.y - y._offset];
  };
  const nearest = (event) => {
    const trace = place._fullData?.[model.get("drag_trace")];
    // its entry in the legend hides it
    if (trace?.visible !== true) return null;
    const [left, top] = at(event), [x, y] = axes();
    const apart = [...trace.x].map((each, i) => Math.hypot(x.d2p(each) - left, y.d2p(trace.y[i]) - top));
    const found = apart.indexOf(Math.min(...apart));
    return apart[found] <= REACH ? found : null;
  };
  const tell = () => {
    asked = 0;
    const [left, top] = at(last), [x, y] = axes();
    model.set("dragged", {point: taken, x: x.p2d(left), y: y.p2d(top), drag: drags});
    model.save_changes();
  };
  const take = (event) => {
    const found = event.button || !event.isPrimary ? null : nearest(event);
    if (found === null) return;
    taken = found;
    drags += 1;
    place.setPointerCapture(event.pointerId);
    // else plotly zooms
    event.preventDefault();
    event.stopPropagation();
  };
  const move = (event) => {
    if (taken === null) {
      place.classList.toggle("apviz-at-drag-point", nearest(event) !== null);
      return;
    }
    if (!event.isPrimary) return;
    last = event;
    asked ||= requestAnimationFrame(tell);
  };
  const drop = () => {
    if (taken === null) return;
    if (asked) {
      cancelAnimationFrame(asked);
      tell();
    }
    taken = null;
    released();
  };
  // a finger on a handle scrolls no page
  const touch = (event) => {
    if (nearest(event.touches[0]) === null) return;
    event.preventDefault();
    event.stopPropagation();
  };
  place.addEventListener("pointerdown", take, true);
  place.addEventListener("touchstart", touch, {capture: true, passive: false});
  place.addEventListener("pointermove", move);
  place.addEventListener("pointerup", drop);
  place.addEventListener("pointercancel", drop);
  return () => taken !== null;
}

// pictures keep their shape: where they are narrow they are low, and no room is left below them
function heightOf(layout, width) {
  const share = layout.meta?.heightOverWidth;
  if (!share || !width) return layout.height;
  const {t, b, l, r} = layout.margin;
  return Math.min(layout.height, Math.ceil(t + b + share * (width - l - r)));
}

async function render({model, el}) {
  const Plotly = await plotly(model);
  const place = el.appendChild(document.createElement("div"));
  let asked = 0, ranges = {}, held = () => false;
  const draw = () => {
    asked = 0;
    const {data, layout} = JSON.parse(model.get("parts"));
    for (const axis of ["xaxis", "yaxis"]) {
      // axes stand still under a pointer that drags
      if (held() && ranges[axis]) layout[axis].range = ranges[axis];
      ranges[axis] = layout[axis]?.range;
    }
    const height = heightOf(layout, place.offsetWidth);
    return Plotly.react(place, data, {...layout, height, autosize: true}, config);
  };
  // of the changes between two pictures of the screen, the last
  const change = () => { asked ||= requestAnimationFrame(draw); };
  model.on("change:parts", change);
  let width = 0;
  const watch = new ResizeObserver(() => {
    if (place.offsetWidth && place.offsetWidth !== width && place._fullLayout) {
      width = place.offsetWidth;
      if (place.layout.meta?.heightOverWidth) draw();
      else Plotly.Plots.resize(place);
    }
  });
  await draw();
  if (model.get("drag_trace") >= 0) held = draggable(model, place, change);
  watch.observe(place);
  return () => {
    watch.disconnect();
    model.off("change:parts", change);
    cancelAnimationFrame(asked);
    Plotly.purge(place);
  };
}

export default {render};
