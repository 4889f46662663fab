// The chips are one stop of the tab key; the arrow keys, Home and End move between them. Next to a wide page the drawer
// of an editor takes no focus and no Escape by itself, so both are done here.

function made(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// What chips mean, shown where the pointer rests.
const HINTS = {
  Methods: "The solvers that Run compares.",
  Inputs: "The columns that predict the target.",
  Kernel: "The covariance of two rows.",
  "Noise σ²": "The variance of the target that no input explains.",
  Advanced: "Rules, partitions, overlap, ranks, precision and seeds.",
};
const WITHIN = "input:not([type=file]), [role=combobox], button:not([tabindex='-1'])";

// Find elements in all shadow roots below a root, in their order.
function* all(root, selector) {
  for (const each of root.querySelectorAll("*")) {
    if (each.matches(selector)) yield each;
    if (each.shadowRoot) yield* all(each.shadowRoot, selector);
  }
}

export function render({ model }) {
  const bar = made("div", { role: "toolbar", "aria-label": "Settings", class: "chips scroll" });
  let pressed = null;

  // Keep the elements of chips that stay, so that they keep the focus.
  function draw() {
    while (bar.children.length > model.chips.length) bar.lastElementChild.remove();
    model.chips.forEach(([editor, label, value], place) => {
      if (!bar.children[place]) {
        const chip = made("button", { type: "button" }, made("span"), " ", made("b"));
        bar.append(chip);
      }
      const chip = bar.children[place];
      chip.dataset.editor = editor;
      chip.title = HINTS[label] || "";
      chip.querySelector("span").textContent = label;
      chip.querySelector("b").textContent = value;
      chip.classList.toggle("action", !value);
    });
    setCurrent(Math.max(0, [...bar.children].findIndex((chip) => chip.tabIndex === 0)));
    opened();
  }

  function setCurrent(place) {
    [...bar.children].forEach((chip, i) => (chip.tabIndex = i === place ? 0 : -1));
  }

  function opened() {
    for (const chip of bar.children) chip.setAttribute("aria-expanded", chip.dataset.editor === model.editor);
    if (model.editor && pressed) setTimeout(enter, 300); // once the drawer has moved in
    if (!model.editor && pressed) {
      pressed.focus();
      pressed = null;
    }
  }

  // Focus the first field of the drawer; wait for it, because an editor opened for the first time is still being built.
  function enter() {
    const isField = (each) => each.checkVisibility() && !each.disabled && !each.textContent.includes("Close settings");
    const [drawer] = all(document, ".contextbar");
    const field = drawer && [...all(drawer, WITHIN)].find(isField);
    field?.focus();
    // nothing hidden takes the focus
    if (model.editor && (!field || field.getRootNode().activeElement !== field)) setTimeout(enter, 100);
  }

  const leave = (event) => {
    const path = event.composedPath();
    const isInside = path.some((each) => each.classList?.contains("contextbar"));
    // an open list or dialog closes first
    if (event.key === "Escape" && model.editor && isInside && !event.defaultPrevented) model.send_msg("");
  };
  document.addEventListener("keydown", leave);
  model.on("remove", () => document.removeEventListener("keydown", leave));

  bar.addEventListener("click", ({ target }) => {
    const chip = target.closest("button");
    if (!chip) return;
    pressed = chip;
    setCurrent([...bar.children].indexOf(chip));
    model.send_msg(chip.dataset.editor);
  });
  bar.addEventListener("keydown", (event) => {
    const place = [...bar.children].indexOf(event.target.closest("button"));
    const last = bar.children.length - 1;
    const next = { ArrowLeft: place - 1, ArrowRight: place + 1, Home: 0, End: last }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    const at = (next + last + 1) % (last + 1);
    setCurrent(at);
    bar.children[at].focus();
  });
  model.on("chips", draw);
  model.on("editor", opened);
  draw();
  return bar;
}
