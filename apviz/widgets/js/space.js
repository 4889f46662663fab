/** A chart in space: three coordinates, seen along a direction that one can turn, all lengths to one scale. */

import {dot, norm, plus, scaled} from "./algebra.js";
import {draggable} from "./elements.js";
import {Figure, outline} from "./plane.js";

/** turn of the picture a pixel, and a press of a key, in radians */
const PIXEL = 0.008,
  KEY = 0.1;

/** A figure of three dimensions in parallel perspective; what is far is drawn first. */
export class Space extends Figure {
  /**
   * @param {Element} place
   * @param {string} title
   * @param {(width: number) => number} heightOf
   * @param {() => void} turned called when the picture has been turned
   */
  constructor(place, title, heightOf, turned) {
    super(place, title, heightOf);
    this.azimuth = -0.94;
    this.elevation = 0.47;
    this.svg.classList.add("space");
    this.svg.setAttribute("tabindex", "0");
    this.svg.setAttribute("role", "application");
    this.svg.setAttribute("aria-roledescription", "picture that arrow keys turn");
    const turn = (azimuth, elevation) => {
      this.azimuth = azimuth;
      this.elevation = Math.min(1.5, Math.max(-1.5, elevation));
      turned();
    };
    let start;
    draggable(
      this.svg,
      (event, first) => {
        if (first) start = [event.clientX, event.clientY, this.azimuth, this.elevation];
        else turn(start[2] - (event.clientX - start[0]) * PIXEL, start[3] + (event.clientY - start[1]) * PIXEL);
      },
      (right, up) => turn(this.azimuth + right * KEY, this.elevation - up * KEY),
    );
  }

  /** Begins a frame in which a ball around `centre`, of radius `half`, fits however it is turned. */
  begin(centre, half) {
    super.begin();
    const {azimuth: a, elevation: e} = this;
    // towards the eye, to the right, and up
    this.eye = Float64Array.of(Math.cos(e) * Math.cos(a), Math.cos(e) * Math.sin(a), Math.sin(e));
    this.right = Float64Array.of(-Math.sin(a), Math.cos(a), 0);
    this.up = Float64Array.of(-Math.sin(e) * Math.cos(a), -Math.sin(e) * Math.sin(a), Math.cos(e));
    this.centre = centre;
    this.half = half;
    const [across, down] = [Math.min(6 * this.em, 0.28 * this.width), Math.min(4 * this.em, 0.2 * this.height)];
    this.scale = Math.min(this.width - across, this.height - down) / (2 * half);
    this._parts = [];
  }

  /** Pixels of a place in space. */
  at(place) {
    const from = plus(place, this.centre, -1);
    return [this.width / 2 + this.scale * dot(from, this.right), this.height / 2 - this.scale * dot(from, this.up)];
  }

  /** The motion in space of a number of pixels in the plane of the picture. */
  moveOf(right, down) {
    return plus(scaled(this.right, right / this.scale), this.up, -down / this.scale);
  }

  /** A line through places, in front of what is farther away. */
  line(places, look, nearer = 0) {
    this._add(places, nearer, () => this._path(places, {fill: "none", "stroke-linecap": "round", ...look}));
  }

  /** A surface with an edge. */
  polygon(places, look) {
    this._add(places, -1e3, () => this._path(places, look, "Z"));
  }

  /** An arrow, whose head is never longer than 0.4 of it. */
  arrow(tail, tip, color, width, nearer = 0, of = null) {
    const [x0, y0] = this.at(tail),
      [x, y] = this.at(tip),
      long = Math.hypot(x - x0, y - y0);
    if (norm(plus(tip, tail, -1)) < 1e-4 * this.half) return;
    const size = Math.min(5 + 2.2 * width, 0.4 * long),
      way = long ? [(x - x0) / long, (y - y0) / long] : [0, 0];
    const foot = [x - size * way[0], y - size * way[1]],
      side = [-0.38 * size * way[1], 0.38 * size * way[0]];
    this._add([tail, tip], nearer, () => {
      const shaft = `M${pair(x0, y0)}L${pair(foot[0] + 0.2 * size * way[0], foot[1] + 0.2 * size * way[1])}`;
      const about = of && {"data-of": of};
      this.marks.draw("path", {d: shaft, stroke: color, "stroke-width": width, fill: "none", ...about});
      const left = pair(foot[0] + side[0], foot[1] + side[1]),
        right = pair(foot[0] - side[0], foot[1] - side[1]);
      this.marks.draw("path", {d: `M${pair(x, y)}L${left}L${right}Z`, fill: color, ...about});
    });
  }

  dot(place, color, size, title = "") {
    const look = {d: outline("dot", ...this.at(place), size), fill: color};
    this._add([place], 0, () => this.marks.draw("path", look, "", title));
  }

  /** Words at a place, moved by some pixels; with what is behind them kept off. */
  text(place, words, look = {}, [right, down] = [0, 0]) {
    const [x, y] = this.at(place);
    this._add([place], 1e3, () =>
      this.marks.draw(
        "text",
        {
          x: (x + right).toFixed(1),
          y: (y + down + 0.3 * this.em).toFixed(1),
          "text-anchor": "middle",
          class: "halo",
          ...look,
        },
        words,
      ),
    );
  }

  end() {
    this._parts.sort((one, other) => one.depth - other.depth);
    for (const {draw} of this._parts) draw();
    super.end();
  }

  _add(places, nearer, draw) {
    const depth =
      places.reduce((sum, each) => sum + dot(plus(each, this.centre, -1), this.eye), 0) / (places.length || 1);
    this._parts.push({depth: depth / this.half + nearer, draw});
  }

  _path(places, look, end = "") {
    if (!places.length) return;
    this.marks.draw("path", {d: `M${places.map((each) => pair(...this.at(each))).join("L")}${end}`, ...look});
  }
}

const pair = (x, y) => `${x.toFixed(1)} ${y.toFixed(1)}`;

/** Half a circle or less from one direction to another around the origin, as a number of points. */
export function arc(first, second, radius, places = 20) {
  const a = scaled(first, 1 / norm(first)),
    aside = plus(second, a, -dot(second, a)),
    length = norm(aside);
  const angle = Math.atan2(length, dot(second, a)),
    b = scaled(aside, length ? 1 / length : 0);
  return Array.from({length: places}, (_, k) => {
    const turn = (angle * k) / (places - 1);
    return scaled(plus(scaled(a, Math.cos(turn)), b, Math.sin(turn)), radius);
  });
}

/** Corners of the part of a plane through the origin, of orthonormal `basis`, that holds some places of it. */
export function rectangle(basis, held, margin) {
  const [p, q] = basis,
    along = held.map((each) => dot(each, p)),
    across = held.map((each) => dot(each, q));
  const [left, right] = [Math.min(...along) - margin, Math.max(...along) + margin];
  const [down, up] = [Math.min(...across) - margin, Math.max(...across) + margin];
  return [
    [left, down],
    [right, down],
    [right, up],
    [left, up],
  ].map(([s, t]) => plus(scaled(p, s), q, t));
}
