// From disk no page may read another, so what the search finds has no summary there.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;

// A figure of the gallery answers when it is touched: its still gives way to plotly, in the theme of the page.
{
  const root = document.documentElement;
  const wanted = () => (root.dataset.theme === "dark" ? "dark" : "light");
  let plotly;

  function load() {
    plotly ??= new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = `${root.dataset.content_root}_static/plotly.min.js`;
      script.onload = resolve;
      script.onerror = reject;
      document.head.append(script);
    });
    return plotly;
  }

  async function show(place) {
    const live = place.querySelector(".live");
    const { data, layout, frames } = JSON.parse(live.querySelector(`.figure-${wanted()}`).textContent);
    await load();
    live.chart ??= live.appendChild(document.createElement("div"));
    Plotly.purge(live.chart);
    place.classList.add("is-live");
    const displayModeBar = place.clientWidth < 600 ? false : "hover"; // on a phone it would lie on the title
    const config = { responsive: true, displaylogo: false, displayModeBar };
    await Plotly.newPlot(live.chart, { data, layout, frames, config });
  }

  for (const place of document.querySelectorAll(".plot")) {
    let begun = false;
    const begin = () => {
      if (begun) return;
      begun = true;
      show(place);
      new MutationObserver(() => show(place)).observe(root, { attributeFilter: ["data-theme"] });
    };
    if (!place.querySelector("img")) begin();
    place.tabIndex = 0;
    for (const event of ["pointerenter", "pointerdown", "focus"]) place.addEventListener(event, begin, { once: true });
  }
}

// Who asked for less motion sees the picture of the home page as a still.
if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
  for (const picture of document.querySelectorAll("img.plays")) {
    const stop = () => {
      const still = document.createElement("canvas");
      [still.width, still.height, still.className] = [picture.naturalWidth, picture.naturalHeight, picture.className];
      still.setAttribute("role", "img");
      still.setAttribute("aria-label", picture.alt);
      still.getContext("2d").drawImage(picture, 0, 0);
      picture.replaceWith(still);
    };
    picture.complete ? stop() : picture.addEventListener("load", stop, { once: true });
  }
}

// What is wider than its place scrolls there, by keyboard too.
addEventListener("load", () => {
  for (const each of document.querySelectorAll(".bd-article :is(table, pre, .formula)")) {
    if (each.scrollWidth > each.clientWidth) each.tabIndex = 0;
  }
});
