// draws each figure once it is near; the figures of a widget step together
const narrow = window.matchMedia("(max-width: 600px)").matches;
const config = {responsive: true, displaylogo: false, showSendToCloud: false, displayModeBar: narrow ? false : "hover"};
const jump = {mode: "immediate", frame: {duration: 0, redraw: true}, transition: {duration: 0}};

function draw(place) {
  const {data, layout, frames} = JSON.parse(document.getElementById(place.dataset.figure).textContent);
  delete layout.width;
  const share = layout.meta?.heightOverWidth;
  if (share) {
    // pictures keep their shape: where they are narrow they are low, and no room is left below them
    const {t, b, l, r} = layout.margin;
    layout.height = Math.min(layout.height, Math.ceil(t + b + share * (place.offsetWidth - l - r)));
    place.style.height = `${layout.height}px`;
  }
  Plotly.newPlot(place, {data, layout, frames, config}).then(() => {
    place.dataset.drawn = "";
    place.on("plotly_animatingframe", ({name}) => {
      if (place.dataset.told === name) return;
      for (const other of place.closest(".widget")?.querySelectorAll("[data-drawn]") ?? []) {
        if (other === place || !other._transitionData?._frameHash?.[name]) continue;
        other.dataset.told = name;
        Plotly.animate(other, [name], jump);
      }
      delete place.dataset.told;
    });
  });
}

const near = new IntersectionObserver(entries => {
  for (const {isIntersecting, target} of entries) {
    if (!isIntersecting || target.dataset.asked) continue;
    for (const place of (target.closest(".widget") ?? target.parentElement).querySelectorAll(".figure")) {
      if (place.dataset.asked) continue;
      place.dataset.asked = "yes";
      draw(place);
    }
  }
}, {rootMargin: "600px"});
document.querySelectorAll(".figure").forEach(place => near.observe(place));
