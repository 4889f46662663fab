/** What all views share: charts as wide as their place, motion, and handles on what controls change. */

import {moved, reading} from "./controls.js";
import {Plane} from "./plane.js";

export const BLUE = "var(--gauss-southwell)";
export const ORANGE = "var(--cyclic)";
export const PURPLE = "var(--random)";
export const RED = "var(--CG)";
export const INK = "var(--ink)";
export const MUTED = "var(--muted)";

/** Height of a chart that has another next to it. */
export const half = (width) => Math.min(330, Math.max(240, 0.72 * width));

/**
 * `new View(place, state, face)`, `draw(values)`, `resize()`, `reset()` of what is not among the values, and a static
 * `limit(name, values, face)` of a control and `longest`, the longest texts of figures that are more than a number.
 */
export class View {
  constructor(place, state, face) {
    Object.assign(this, {place, state, face, charts: [], isHeld: false});
  }

  /** Add a chart, in a row of its own where it is wide. */
  add(chart, isWide = false) {
    chart.figure.classList.toggle("wide", isWide);
    this.charts.push(chart);
    return chart;
  }

  /** Add a chart with axes. */
  plane(title, heightOf = half, isWide = false, place = this.place) {
    return this.add(new Plane(place, title, heightOf), isWide);
  }

  resize() {
    return this.charts.map((each) => each.resize()).some(Boolean);
  }

  /** Change a value by some places of its control, or go to the place nearest to `from`. */
  change(name, places, from = this.state.values[name]) {
    const limit = this.constructor.limit?.(name, this.state.values, this.face) ?? Infinity;
    this.state.set({[name]: moved(this.face.controls[name], from, places, limit)});
  }

  /**
   * A handle on a value: dragged to where `valueAt` says, moved by keys from place to place; axes may wait for the drop.
   * @param {import("./plane.js").Figure} chart
   * @param {string} name of the control
   * @param {{x: number, y: number, label: string, value?: string, key?: string}} spec of `Figure.handle`
   * @param {(x: number, y: number) => number} valueAt of pixels, as if the middle of the handle were dragged
   * @param {(right: number, up: number) => number} [places] of keys
   */
  grip(chart, name, spec, valueAt, places = (right, up) => right + up) {
    const value = spec.value ?? reading(this.face.controls[name], this.state.values[name]);
    chart.handle(
      spec.key ?? name,
      {of: name, ...spec, value},
      this.held((x, y) => this.change(name, 0, valueAt(x, y)), spec, (right, up) => this.change(name, places(right, up))),
    );
  }

  /** What a handle calls, where a drag begins at its middle and leaves the axes as they are. */
  held(drag, {x, y}, step) {
    return {
      drag: (px, py, first) => {
        if (first) [this.isHeld, this._grab] = [true, [px - x, py - y]];
        drag(px - this._grab[0], py - this._grab[1], first);
      },
      step,
      drop: () => {
        this.isHeld = false;
        this.state.tell();
      },
    };
  }

  /** Share of a motion that has passed: it begins at 0 when `key` is the one after the last, and 1 is its end. */
  moving(key, milliseconds = 500) {
    const now = performance.now(),
      isNext = key === this._key + 1;
    if (key !== this._key) this._since = isNext && !matchMedia("(prefers-reduced-motion: reduce)").matches ? now : -Infinity;
    this._key = key;
    const share = Math.min(1, (now - this._since) / milliseconds);
    if (share < 1) {
      cancelAnimationFrame(this._frame);
      this._frame = requestAnimationFrame(() => this.place.isConnected && this.state.tell());
    }
    return share * share * (3 - 2 * share);
  }
}
