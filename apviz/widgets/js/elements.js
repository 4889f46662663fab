/** Elements of a page, made once and then only changed. */

const SVG = "http://www.w3.org/2000/svg";

/**
 * An element with attributes and children.
 * @param {string} tag such as "p", or "svg:path"
 * @param {Record<string, unknown>} attributes those that are null or false are left out
 * @param {...(Node | string)} children
 */
export function element(tag, attributes = {}, ...children) {
  const made = tag.startsWith("svg:") ? document.createElementNS(SVG, tag.slice(4)) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== false) made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children);
  return made;
}

/** Draws into a group of an SVG: every frame the same calls, of which the page sees what is different. */
export class Pen {
  /** @param {SVGGElement} group */
  constructor(group) {
    this.group = group;
    this._drawn = [];
    this._next = 0;
  }

  begin() {
    this._next = 0;
  }

  /** The next element, with these attributes and this text, and a title that a pointer finds. */
  draw(tag, attributes, text = "", title = "") {
    let found = this._drawn[this._next];
    if (found?.tag !== tag) {
      const made = element(`svg:${tag}`);
      if (found) found.made.replaceWith(made);
      else this.group.append(made);
      found = this._drawn[this._next] = {tag, made, attributes: {}, text: "", title: ""};
    }
    this._next++;
    for (const name in attributes) {
      const value = attributes[name];
      if (found.attributes[name] !== value) found.made.setAttribute(name, value);
    }
    for (const name in found.attributes) if (!(name in attributes)) found.made.removeAttribute(name);
    found.attributes = attributes;
    if (found.text !== text) found.made.textContent = found.text = text;
    if (found.title !== title) {
      if (title && found.title) found.made.firstChild.textContent = title;
      else found.made.replaceChildren(...(title ? [element("svg:title", {}, title)] : []));
      found.title = title;
    }
    return found.made;
  }

  end() {
    for (const {made} of this._drawn.splice(this._next)) made.remove();
  }
}

/**
 * Lets a pointer drag an element, and arrow keys move it.
 * @param {Element} handle
 * @param {(event: PointerEvent, first: boolean) => void} drag
 * @param {(right: number, up: number) => void} step by keys, in units of −1, 1, or ten times that
 * @param {() => void} drop
 */
export function draggable(handle, drag, step, drop = () => {}) {
  let held = false;
  handle.addEventListener("pointerdown", (event) => {
    if (event.button || !event.isPrimary) return;
    held = true;
    handle.setPointerCapture(event.pointerId);
    handle.focus({preventScroll: true});
    event.preventDefault();
    event.stopPropagation();
    drag(event, true);
  });
  handle.addEventListener("pointermove", (event) => {
    if (held && event.isPrimary) drag(event, false);
  });
  for (const name of ["pointerup", "pointercancel"]) {
    handle.addEventListener(name, () => {
      if (held) drop();
      held = false;
    });
  }
  handle.addEventListener("keydown", (event) => {
    const way = {ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1]}[event.key];
    if (!way || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    step(...way.map((each) => each * (event.shiftKey ? 10 : 1)));
  });
}
