/** A chart in the plane: axes, curves, dots, and handles that can be dragged or moved by keys. */

import {Pen, draggable, element} from "./elements.js";

/** parts of a chart's width, in em of its text */
const LEFT = 4.1,
  RIGHT = 0.7,
  TOP = 0.7,
  BOTTOM = 2.9;

/** look of a curve under another one, so that both are seen */
export const PALE = {width: 7, opacity: 0.4};

let figures = 0;

/** A figure with a caption, a legend and a note, which name and describe it, and an SVG as wide as its place. */
export class Figure {
  /**
   * @param {Element} place
   * @param {string} title
   * @param {(width: number) => number} heightOf its height for a width, in pixels
   */
  constructor(place, title, heightOf) {
    const id = `apviz-figure-${++figures}`;
    this.caption = element("figcaption", {id}, title);
    this._legend = element("ul", {class: "legend"});
    this.layers = ["axes", "marks", "handles"].map((name) => element("svg:g", {class: name}));
    [this.axes, this.marks, this._handles] = this.layers.map((each) => new Pen(each));
    const words = {"aria-labelledby": id, "aria-describedby": `${id}-note`};
    this.svg = element("svg:svg", {role: "group", ...words}, ...this.layers);
    this._note = element("p", {class: "note", id: `${id}-note`});
    this.figure = element("figure", {}, this.caption, this._legend, this.svg, this._note);
    place.append(this.figure);
    this._heightOf = heightOf;
    this._grips = new Map();
    this.resize();
  }

  /** Reads the size of its place; says whether it is another than before. */
  resize() {
    const width = Math.round(this.figure.clientWidth) || 400,
      em = parseFloat(getComputedStyle(this.figure).fontSize) || 14;
    if (width === this.width && em === this.em) return false;
    Object.assign(this, {width, em, height: Math.round(this._heightOf(width))});
    for (const [name, value] of Object.entries({width, height: this.height})) this.svg.setAttribute(name, value);
    return true;
  }

  begin() {
    this.axes.begin();
    this.marks.begin();
  }

  end() {
    this.axes.end();
    this.marks.end();
  }

  /** Take off what was drawn, and its words. */
  clear() {
    for (const pen of [this.axes, this.marks]) {
      pen.begin();
      pen.end();
    }
    this.keepHandles([]);
    this.legend([]);
    this.note("");
  }

  /**
   * Show marks as they are drawn, in one colour or more; `wide` is a `PALE` curve.
   * @param {[name: string, color: string | string[], mark: "line" | "dots" | "dashes" | "wide" | "dot" | "square" |
   *     "diamond"][]} entries
   */
  legend(entries) {
    const key = JSON.stringify(entries);
    if (key === this._key) return;
    this._key = key;
    this._legend.replaceChildren(
      ...entries.map(([name, color, mark]) => {
        const marks = [color].flat().map((each) => element("i", {class: mark, style: `color: ${each}`}));
        const words = element("span");
        words.innerHTML = name;
        return element("li", {}, ...marks, words);
      }),
    );
  }

  /** @param {string} html */
  note(html) {
    if (html !== this._said) this._note.innerHTML = this._said = html;
  }

  /** Where an event is, in pixels of the drawing. */
  pointer(event) {
    const box = this.svg.getBoundingClientRect();
    return [event.clientX - box.x, event.clientY - box.y];
  }

  /**
   * A place of the drawing that can be dragged; called in every frame, with the same key for the same place.
   * @param {string} key
   * @param {{x: number, y: number, half?: number, label: string, value: string, tab?: number, size?: number,
   *     of?: string}} spec
   *     middle, in pixels; `half` of its width, for a row; what it is, and at which value; its tabindex, where keys
   *     lead to it otherwise; radius of its ring; names of the numbers that light up with it
   * @param {{drag: (x: number, y: number, first: boolean) => void, step: (right: number, up: number) => void,
   *     drop?: () => void}} on
   */
  handle(key, {x, y, half = 0, label, value, tab = 0, size = 11, of = null}, on) {
    let grip = this._grips.get(key);
    if (!grip) {
      const reach = element("svg:rect", {class: "reach"}),
        ring = element("svg:rect", {class: "ring"});
      const g = element("svg:g", {class: "handle", tabindex: 0, role: "slider", "aria-label": label, "data-of": of}, element("svg:title", {}, `drag: ${label}`), reach, ring);
      grip = {g, reach, ring};
      this._grips.set(key, grip);
      this.layers[2].append(g);
      draggable(
        g,
        (event, first) => grip.on.drag(...this.pointer(event), first),
        (right, up) => grip.on.step(right, up),
        () => grip.on.drop?.(),
      );
    }
    grip.on = on;
    for (const [rect, more] of [
      [grip.reach, 22],
      [grip.ring, size],
    ]) {
      const sides = {x: x - half - more, y: y - more, width: 2 * (half + more), height: 2 * more, rx: more};
      for (const name in sides) rect.setAttribute(name, sides[name].toFixed(1));
    }
    for (const [name, words] of Object.entries({"aria-valuetext": value, tabindex: String(tab)})) {
      if (grip.g.getAttribute(name) !== words) grip.g.setAttribute(name, words);
    }
  }

  /** Brings the keys to a handle. */
  focus(key) {
    this._grips.get(key)?.g.focus({preventScroll: true});
  }

  /** Removes handles, but for those with these keys. */
  keepHandles(keys) {
    for (const [key, {g}] of this._grips) {
      if (keys.includes(key)) continue;
      g.remove();
      this._grips.delete(key);
    }
  }
}

/** A figure with two axes. */
export class Plane extends Figure {
  /**
   * Draws the axes of a frame.
   * @param {{x: [number, number], y: [number, number], log?: boolean, whole?: boolean, powers?: boolean,
   *     xLabel: string, yLabel: string, xTicks?: [number, string][], yTicks?: [number, string][], margin?: number}} axes
   *     ranges, of y its logarithm base 10 where `log`; whether x is a whole number, or a logarithm base 10; words in
   *     place of numbers; room on the left, in em
   */
  begin({x, y, log = false, whole = false, powers = false, xLabel, yLabel, xTicks, yTicks, margin = LEFT}) {
    super.begin();
    const {em, width, height} = this;
    Object.assign(this, {
      left: margin * em,
      right: width - RIGHT * em,
      top: TOP * em,
      bottom: height - BOTTOM * em,
      x,
      y,
      log,
    });
    const pen = this.axes,
      small = 0.88 * em;
    const room = Math.max(4, Math.floor((this.right - this.left) / (5 * em)));
    const along = powers ? logTicks(x) : ticks(x, room).filter((each) => !whole || Number.isInteger(each));
    for (const tick of xTicks ?? along) {
      const [value, words] = xTicks ? tick : [powers ? Math.log10(tick) : tick, number(tick)],
        at = this.sx(value);
      // a label is centred on what it names if there is no grid line
      if (!xTicks) pen.draw("path", {d: `M${at.toFixed(1)} ${this.top}V${this.bottom}`, class: "grid"});
      pen.draw("text", {x: at.toFixed(1), y: this.bottom + 1.15 * small, "text-anchor": "middle"}, words);
    }
    const levels = log ? logTicks(y) : ticks(y, Math.max(3, Math.floor((this.bottom - this.top) / (3.2 * em))));
    for (const each of yTicks ?? levels) {
      const [tick, name] = yTicks ? each : [each, number(each, 4, 1e-3, log ? 0 : 1e-12)];
      const at = this.sy(tick);
      pen.draw("path", {d: `M${this.left} ${at.toFixed(1)}H${this.right}`, class: "grid"});
      const words = {x: this.left - 0.4 * em, y: (at + 0.32 * small).toFixed(1), "text-anchor": "end"};
      pen.draw("text", words, name);
    }
    pen.draw("path", {d: `M${this.left} ${this.top}V${this.bottom}H${this.right}`, class: "axis"});
    const middle = (this.left + this.right) / 2,
      up = (this.top + this.bottom) / 2;
    pen.draw("text", {x: middle, y: height - 0.35 * em, "text-anchor": "middle", class: "label"}, xLabel);
    const turned = {transform: `translate(${0.95 * em} ${up}) rotate(-90)`, "text-anchor": "middle", class: "label"};
    pen.draw("text", turned, yLabel);
  }

  /** Pixels of values. */
  sx(value) {
    return this.left + ((value - this.x[0]) / (this.x[1] - this.x[0])) * (this.right - this.left);
  }

  sy(value) {
    const place = this.log ? Math.log10(value) : value;
    return this.bottom - ((place - this.y[0]) / (this.y[1] - this.y[0])) * (this.bottom - this.top);
  }

  /** Values of pixels. */
  fromX(pixels) {
    return this.x[0] + ((pixels - this.left) / (this.right - this.left)) * (this.x[1] - this.x[0]);
  }

  fromY(pixels) {
    const place = this.y[0] + ((this.bottom - pixels) / (this.bottom - this.top)) * (this.y[1] - this.y[0]);
    return this.log ? 10 ** place : place;
  }

  /** A curve; NaN is a gap. */
  line(x, y, {color, width = 2.5, dash = null, opacity = 1, of = null}) {
    let d = "",
      joined = false;
    for (let i = 0; i < x.length; i++) {
      const has = Number.isFinite(y[i]);
      if (has) d += `${joined ? "L" : "M"}${this.sx(x[i]).toFixed(1)} ${this.sy(y[i]).toFixed(1)}`;
      joined = has;
    }
    const look = {d, stroke: color, "stroke-width": width, "stroke-opacity": opacity, class: "curve"};
    this.marks.draw("path", {...look, ...(dash && {"stroke-dasharray": dash}), ...(of && {"data-of": of})});
  }

  /** What lies between two curves, kept within the chart. */
  area(x, low, high, {color, opacity, of}) {
    const place = (i, y) => `${this.sx(x[i]).toFixed(1)} ${Math.min(this.bottom, Math.max(this.top, this.sy(y[i]))).toFixed(1)}`;
    const there = Array.from(x, (_, i) => place(i, low)),
      back = Array.from(x, (_, i) => place(i, high)).reverse();
    this.marks.draw("path", {d: `M${[...there, ...back].join("L")}Z`, fill: color, "fill-opacity": opacity, "data-of": of});
  }

  /** A rectangle between values, behind what is drawn after it; `y` of the whole chart where none is given. */
  box([x0, x1], [y0, y1] = this.log ? this.y.map((each) => 10 ** each) : this.y, {color, opacity = 1, of = null}, title = "") {
    const [left, right, top, bottom] = [this.sx(x0), this.sx(x1), this.sy(y1), this.sy(y0)].map((each) => each.toFixed(1));
    const d = `M${left} ${top}H${right}V${bottom}H${left}Z`;
    this.marks.draw("path", {d, fill: color, "fill-opacity": opacity, ...(of && {"data-of": of})}, "", title);
  }

  /** One mark, with what a pointer finds there. */
  dot(x, y, {color, size = 4, shape = "dot", hollow = false, of = null}, title = "") {
    if (!Number.isFinite(y)) return;
    const fill = hollow ? {fill: "none", stroke: color, "stroke-width": 2.5} : {fill: color};
    this.marks.draw("path", {d: outline(shape, this.sx(x), this.sy(y), size), ...fill, ...(of && {"data-of": of})}, "", title);
  }
}

/** The outline of a mark around a place. */
export function outline(shape, x, y, size) {
  const at = (dx, dy) => `${(x + dx * size).toFixed(1)} ${(y + dy * size).toFixed(1)}`;
  if (shape === "square") return `M${at(-1, -1)}L${at(1, -1)}L${at(1, 1)}L${at(-1, 1)}Z`;
  if (shape === "diamond") return `M${at(0, -1.4)}L${at(1.4, 0)}L${at(0, 1.4)}L${at(-1.4, 0)}Z`;
  return `M${at(-1, 0)}A${size} ${size} 0 1 0 ${at(1, 0)}A${size} ${size} 0 1 0 ${at(-1, 0)}Z`;
}

/** Places of a curve from end to end, and those at which it may have a kink. */
export function placesOfCurve(low, high, count, kinks) {
  const even = Float64Array.from({length: count}, (_, k) => low + ((high - low) * k) / (count - 1));
  return Float64Array.of(...even, ...kinks.filter((each) => each > low && each < high)).sort();
}

/** About `count` round numbers of a range. */
export function ticks([low, high], count) {
  const raw = (high - low) / count,
    power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((each) => each * power >= raw * 0.999);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k <= high / step + 1e-9; k++) found.push(k * step);
  return found;
}

/** Round numbers between two powers of ten: decades where there are enough, else numbers between them. */
function logTicks([low, high]) {
  if (high - low < 0.6) return ticks([10 ** low, 10 ** high], 4).filter((each) => each > 0);
  const digits = high - low < 1.2 ? [1, 2, 5] : high - low < 2 ? [1, 3] : [1],
    every = Math.ceil((high - low) / 6);
  const found = [];
  for (let k = Math.floor(low); k <= high; k++) {
    if (digits.length === 1 && k % every) continue;
    const inside = (each) => Math.log10(each) >= low && Math.log10(each) <= high;
    found.push(...digits.map((each) => each * 10 ** k).filter(inside));
  }
  return found;
}

/** A number with few digits, as one writes it; with a power of ten below `least`, and 0 below `zero`. */
export function number(value, digits = 4, least = 1e-4, zero = 1e-12) {
  if (Math.abs(value) < zero || value === 0) return "0";
  const size = Math.abs(value);
  if (size >= least && size < 1e5) return String(Number(value.toPrecision(digits))).replace("-", "−");
  const [head, power] = value.toExponential(Math.min(digits - 1, 2)).split("e");
  const raised = String(Number(power)).replace(/./g, (each) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[each] ?? "⁻");
  const front = Number(head);
  return `${front === 1 ? "" : `${front}·`}10${raised}`.replace("-", "−");
}

/** The same where what is as small as rounding is meant. */
export const tiny = (value, digits = 2) => number(value, digits, 1e-4, 0);

const digits = (text, from) => String(text).replace(/\d/g, (each) => from[each]);

/** A number as an index, and as a step (j). */
export const below = (i) => digits(i, "₀₁₂₃₄₅₆₇₈₉");
export const above = (j) => `⁽${digits(j, "⁰¹²³⁴⁵⁶⁷⁸⁹")}⁾`;
