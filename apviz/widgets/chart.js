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
  let asked = 0;
  const draw = () => {
    asked = 0;
    const {data, layout} = JSON.parse(model.get("parts"));
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
  watch.observe(place);
  return () => {
    watch.disconnect();
    model.off("change:parts", change);
    cancelAnimationFrame(asked);
    Plotly.purge(place);
  };
}

export default {render};
