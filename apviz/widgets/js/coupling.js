/** A number in a sentence, its control and what a picture shows of it light up together. */

import {element} from "./elements.js";

const KINDS = ["number", "figure", "control", "of"];
const ALL = KINDS.map((each) => `[data-${each}]`).join();
let count = 0;

/** What lights up in a widget: a rule, because elements of a picture change from frame to frame. */
const ruleFor = (widget, name) => {
  const within = (selector) => `[data-widget="${widget}"] ${selector}`,
    words = within(`:is([data-number=${name}], [data-figure=${name}])`);
  return (
    `${words} { background: var(--lit); border-radius: 3px }` +
    `${within(`:is(svg *, canvas)[data-of~=${name}]:not(.handle)`)} { filter: drop-shadow(0 0 5px var(--gauss-southwell)) }` +
    `${within(`.handle[data-of~=${name}] .ring`)} { stroke-dasharray: none; stroke-opacity: 1; stroke-width: 2.5 }`
  );
};

/** @param {HTMLElement} body of a widget */
export function couple(body) {
  const style = body.appendChild(element("style")),
    widget = (body.dataset.widget = String(++count));
  const light = (target) => {
    const {dataset = {}} = (target instanceof Element && target.closest(ALL)) || {},
      names = KINDS.flatMap((each) => dataset[each]?.split(" ") ?? []),
      rules = names.map((each) => ruleFor(widget, each)).join("\n");
    if (style.textContent !== rules) style.textContent = rules;
  };
  // a drag keeps what it began with
  for (const name of ["pointerover", "focusin"]) body.addEventListener(name, ({target, buttons}) => buttons || light(target));
  for (const name of ["pointerleave", "focusout"]) body.addEventListener(name, ({buttons}) => buttons || light(null));
}
