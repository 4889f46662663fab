/** Two lines and an angle: the residual is dropped onto one line, then onto the other, and the legs are counted. */

import {Figure, number, outline} from "./plane.js";
import {BLUE, INK, MUTED, ORANGE, RED, View, half} from "./view.js";

/** legs that are drawn, and that can be stepped through */
const DRAWN = 400,
  STEPS = 60;
const radians = (degrees) => (degrees * Math.PI) / 180;

/**
 * Residuals of length 1 at first: dropped in turn onto the line along the first axis, and onto one at an angle to it.
 * @param {number} angle of both lines, in radians
 * @param {number} start direction of the first residual
 * @returns {[number, number][]} `count` + 1 residuals
 */
export function zigzag(angle, start, count) {
  const ways = [0, angle].map((each) => [Math.cos(each), Math.sin(each)]),
    found = [[Math.cos(start), Math.sin(start)]];
  for (let k = 0; k < count; k++) {
    const [x, y] = found[k],
      [c, s] = ways[k % 2],
      along = x * c + y * s;
    found.push([along * c, along * s]);
  }
  return found;
}

/** Legs until at most a share of the residual is left: the first leaves |cos start|, every other one cos θ. */
export function legsTo(share, angle, start) {
  const first = Math.abs(Math.cos(start)),
    each = Math.cos(angle);
  if (first <= share) return 1;
  // a right angle up to rounding
  if (each < 1e-12) return 2;
  return 1 + Math.max(1, Math.ceil(Math.log(share / first) / Math.log(each) - 1e-9));
}

export class ZigzagView extends View {
  static longest = {legs: "30,000", contraction: "0.0012"};

  constructor(place, state, face) {
    super(place, state, face);
    this.lines = this.add(new Figure(place, "The residual between two lines: drag a line, or r⁽⁰⁾", (width) => Math.min(400, Math.max(260, 0.75 * width))));
    this.counts = this.plane("Legs that it takes, by the angle: drag the dot", (width) => Math.min(400, Math.max(260, 0.75 * width)));
  }

  static limit(name, {angle, start, share}) {
    return name === "leg" ? Math.min(STEPS, legsTo(share, radians(angle), radians(start))) : Infinity;
  }

  draw(values) {
    const {angle, start, share, leg} = values,
      legs = legsTo(share, radians(angle), radians(start)),
      path = zigzag(radians(angle), radians(start), Math.min(legs, DRAWN)),
      left = (k) => Math.hypot(...path[k]),
      at = Math.min(leg, path.length - 1);
    this._drawLines(path, at, this.moving(at), values);
    this._drawCounts(legs, values);
    return {
      contraction: number(Math.cos(radians(angle)) ** 2, 3),
      legs: legs.toLocaleString("en"),
      left: number(left(at), 3),
    };
  }

  _drawLines(path, at, passed, {angle, start}) {
    const chart = this.lines,
      {width, height, em} = chart,
      pen = chart.marks,
      [x0, y0] = [1.2 * em, height - 1.6 * em],
      radius = Math.min(width - 3.4 * em, height - 4.2 * em);
    const place = ([x, y]) => [x0 + radius * x, y0 - radius * y],
      text = (point) => place(point).map((each) => each.toFixed(1)).join(" "),
      turned = (degrees, long = 1) => [long * Math.cos(radians(degrees)), long * Math.sin(radians(degrees))];
    chart.begin();
    // as long as the lines, so that legs do not cover a small angle
    const wedge = `M${text([0, 0])}L${text(turned(0))}A${radius} ${radius} 0 0 0 ${text(turned(angle))}Z`;
    chart.axes.draw("path", {d: wedge, fill: RED, "fill-opacity": 0.25, "data-of": "angle contraction"});
    const lines = [[0, BLUE], [angle, ORANGE]];
    for (const [turn, color] of lines) {
      chart.axes.draw("path", {d: `M${text([0, 0])}L${text(turned(turn, 1.04))}`, stroke: color, "stroke-width": 2.5, class: "curve"});
    }
    // thinner where they are close together
    const wide = Math.max(0.7, Math.min(2.5, 0.5 * radius * Math.sin(radians(angle)) ** 2));
    const leg = (from, to, k, opacity) => {
      // odd legs end on the first line
      const look = {stroke: k % 2 ? BLUE : ORANGE, "stroke-width": k === 1 ? 2.5 : wide, "stroke-opacity": opacity, class: "curve"};
      pen.draw("path", {d: `M${text(from)}L${text(to)}`, ...look});
    };
    for (let k = path.length - 1; k > at; k--) leg(path[k - 1], path[k], k, 0.22);
    const share = at ? passed : 1,
      before = path[Math.max(0, at - 1)],
      tip = before.map((each, i) => each + share * (path[at][i] - each));
    for (let k = 1; k <= at; k++) leg(path[k - 1], k === at ? tip : path[k], k, 1);
    pen.draw("path", {d: `M${text([0, 0])}L${text(path[0])}`, stroke: MUTED, "stroke-width": 1.5, "stroke-dasharray": "2 4", class: "curve"});
    pen.draw("path", {d: `M${text([0, 0])}L${text(tip)}`, stroke: INK, "stroke-width": 4.5, class: "curve", "data-of": "left leg"});
    pen.draw("path", {d: outline("dot", ...place(tip), 6), fill: INK, "data-of": "left leg"}, "", `r after leg ${at}`);
    chart.end();
    chart.legend([
      ["zero on block 1", BLUE, "line"],
      ["zero on block 2", ORANGE, "line"],
      ["the residual r", INK, "line"],
    ]);
    chart.note(`after leg ${at} r has the length ${number(Math.hypot(...path[at]), 3)}; every corner is a right angle`);
    const turn = (x, y) => (Math.atan2(Math.max(0, y0 - y), Math.max(1e-9, x - x0)) * 180) / Math.PI;
    const grip = (name, point, label) => {
      const [x, y] = place(point);
      this.grip(chart, name, {x, y, label, value: `${this.state.values[name]}°`}, turn, (right, up) => up - right);
    };
    grip("start", turned(start), "the first residual");
    grip("angle", turned(angle, 1.04), "the second line");
  }

  _drawCounts(legs, {angle, start, share}) {
    const chart = this.counts,
      angles = this._angles ?? (this._angles = Array.from({length: 90}, (_, k) => k + 1)),
      counts = angles.map((each) => legsTo(share, radians(each), radians(start)));
    chart.begin({
      x: [0, 91],
      y: [0, Math.log10(counts[0]) + 0.2],
      log: true,
      xLabel: "angle θ between the lines, in degrees",
      yLabel: "legs",
    });
    chart.line(angles, counts, {color: RED, of: "share"});
    chart.dot(angle, legs, {color: RED, size: 6, of: "legs angle"}, `${angle}°: ${legs} legs`);
    chart.end();
    chart.note("small angles: half the angle takes about four times as many legs, because ln cos θ ≈ −θ²/2");
    const [x, y] = [chart.sx(angle), chart.sy(legs)];
    this.grip(chart, "angle", {x, y, label: "the angle", value: `${angle}°, ${legs} legs`}, (px) => chart.fromX(px));
  }
}
