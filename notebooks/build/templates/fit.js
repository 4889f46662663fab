// a slide that is taller than the window: first its figures become lower, then its text smaller, within these limits
const LOWEST_FIGURE = .67; // of its own height: below that, titles and legends leave no room for curves
const SMALLEST_TEXT = 75; // per cent

function fit() {
  const slide = window.Reveal?.isReady() && Reveal.getCurrentSlide();
  if (!slide) return;
  const tooTall = () => slide.scrollHeight - slide.clientHeight;
  slide.style.fontSize = "";
  for (const place of slide.querySelectorAll(".figure[data-drawn]")) {
    place.asked ??= place.offsetHeight;
    if (tooTall() <= 0) break;
    const height = Math.max(LOWEST_FIGURE * place.asked, place.offsetHeight - tooTall());
    place.style.height = `${height}px`;
    Plotly.relayout(place, {height});
  }
  for (let size = 95; tooTall() > 0 && size >= SMALLEST_TEXT; size -= 5) slide.style.fontSize = `${size}%`;
}

for (const event of ["ready", "slidechanged"]) Reveal.on(event, fit);
addEventListener("resize", fit);
// a figure knows its height once it is drawn
const drawing = new MutationObserver(fit);
for (const place of document.querySelectorAll(".figure")) drawing.observe(place, {attributeFilter: ["data-drawn"]});
// and a widget too; its own text stays as large as it is, the text around it gives way
const growing = new ResizeObserver(fit);
for (const place of document.querySelectorAll(".apviz-place")) growing.observe(place);
