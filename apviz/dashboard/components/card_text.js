// The text below a chart: its explanation, and the buttons for details and download. All share one element, because
// each Panel component costs the server and the browser milliseconds.

function made(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

export function render({ model }) {
  const heading = made("h2", {}, model.heading);
  const nothing = made("p", { class: "nothing" });
  const open = made("button", { type: "button", class: "open" }, "In words, and as a table");
  const csv = made("button", { type: "button" }, "CSV");
  const buttons = made("div", { class: "buttons" }, open, csv);

  function draw() {
    heading.hidden = nothing.hidden = !model.is_empty;
    buttons.hidden = model.is_empty;
    nothing.textContent = model.empty;
    open.setAttribute("aria-pressed", model.is_open);
  }

  open.addEventListener("click", () => (model.is_open = !model.is_open));
  csv.addEventListener("click", () => model.send_msg("csv"));
  model.on("msg:custom", ({ name, text }) => {
    const file = new Blob([text], { type: "text/csv" });
    const link = made("a", { download: name, href: URL.createObjectURL(file) });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  });
  for (const name of ["is_empty", "is_open", "empty"]) model.on(name, draw);
  draw();
  return made("div", { class: "card-text" }, heading, nothing, made("p", {}, model.text), buttons);
}
