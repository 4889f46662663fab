/** Angles decide the speed: two blocks, the angles between their spans, and the contraction of a sweep. */

import {placesOf} from "./controls.js";
import {kernelNamed} from "./kernels.js";
import {Figure, PALE, number, outline, placesOfCurve} from "./plane.js";
import {Span} from "./span.js";
import {Trajectory, givenBlocks} from "./trajectory.js";
import {Angles, SPACING, sweepsOf, twoBlocks} from "./two_blocks.js";
import {BLUE as FIRST, ORANGE as SECOND, PURPLE as BOTH, View, half} from "./view.js";

/** sweeps of a trajectory, each an update on either block; points of a curve; share below which an error is rounding */
const SWEEPS = 30,
  PLACES = 161,
  FLOOR = 1e-12;
const LIT = "var(--shuffled)";
const degrees = (angle) => (angle * 180) / Math.PI;

/** The two blocks of a state and all that follows from them. */
export function situation(values, draws) {
  const blocks = twoBlocks(values.points, values.distance, values.shared);
  const span = new Span(blocks.x, kernelNamed(values.kernel, values.lengthscale), values.noise);
  const angles = new Angles(span, blocks.first, blocks.second);
  const b = {
    smooth: () => blocks.x.map((x) => Math.sin(5 * x) + Math.cos(3 * x)),
    random: () => draws.slice(0, span.n),
    worst: () => angles.worstCaseRhs(),
  }[values.data]();
  const found = new Trajectory(span, b, givenBlocks([blocks.first, blocks.second]), "cyclic", 2 * SWEEPS);
  return {blocks, span, angles, sweeps: sweepsOf(found, angles.contraction)};
}

export class AnglesView extends View {
  static longest = {theta: "81.3°", measured: "measured: 0.0001234 in sweep 30"};

  constructor(place, state, face) {
    super(place, state, face);
    this.functions = this.plane("Where the two spans are closest: drag a block", () => 310, true);
    this.fan = this.add(new Figure(place, "Principal angles of the two spans: drag the ray", half));
    this.errors = this.plane("Error per sweep, and its bound");
  }

  /** Of a block that held everything nothing would be left to see. */
  static limit(name, {points}) {
    return name === "shared" ? 2 * points - 2 : Infinity;
  }

  draw(values) {
    const shared = Math.min(values.shared, AnglesView.limit("shared", values));
    const now = situation({...values, shared}, this.face.given.draws);
    this._drawFunctions(now, values);
    this._drawFan(now, values);
    this._drawErrors(now);
    const {angles, sweeps} = now;
    return {
      theta: `${degrees(angles.friedrichs).toFixed(1)}°`,
      contraction: number(angles.contraction),
      measured: sweeps.measuredAt
        ? `measured: ${number(sweeps.measured)} in sweep ${sweeps.measuredAt}`
        : "here the first sweep solves it",
    };
  }

  _drawFunctions({blocks, span, angles}, {distance}) {
    const plane = this.functions;
    // the axis stands still under a pointer that drags
    if (!this.isHeld) this._reach = Math.max(SPACING * (span.n / 2 - 1) + 0.4, 1.12 * span.x.at(-1));
    const reach = this._reach;
    const grid = placesOfCurve(-reach, reach, PLACES, span.x);
    const pair = angles.pair(),
      curves = pair.map((weights) => span.values(weights, grid));
    const dots = pair.map((weights) =>
      span.gram.map((row) => row.reduce((sum, each, i) => sum + each * weights[i], 0)),
    );
    const heights = [...curves, ...dots].flatMap((each) => [...each]);
    // in steps, so that the axis stands still while something moves
    const low = Math.floor(4 * Math.min(0, ...heights)) / 4 - 0.25,
      high = Math.ceil(4 * Math.max(1, ...heights)) / 4 + 0.05;
    plane.begin({x: [-reach, reach], y: [low, high], xLabel: "x", yLabel: "function value"});
    const shape = (i) => {
      if (blocks.shared.includes(i)) return {color: BOTH, shape: "diamond"};
      return blocks.first.includes(i) ? {color: FIRST, shape: "dot"} : {color: SECOND, shape: "square"};
    };
    for (let i = 0; i < span.n; i++) {
      const unit = new Float64Array(span.n);
      unit[i] = 1;
      plane.line(grid, span.values(unit, grid), {color: shape(i).color, width: 1, opacity: 0.35, of: "lengthscale"});
    }
    curves.forEach((each, k) => plane.line(grid, each, {color: [FIRST, SECOND][k], width: 3, of: "theta"}));
    const floor = low + 0.12,
      size = Math.min(5, 0.3 * (plane.sx(SPACING) - plane.sx(0)));
    for (let i = 0; i < span.n; i++) plane.dot(span.x[i], floor, {...shape(i), size}, `x = ${number(span.x[i])}`);
    plane.end();
    plane.legend([
      ["u, of the first span", FIRST, "line"],
      ["v, of the second", SECOND, "line"],
      ["first block", FIRST, "dot"],
      ["second", SECOND, "square"],
      ...(blocks.shared.length ? [["in both", BOTH, "diamond"]] : []),
    ]);
    plane.note(
      `thin: k(xᵢ, ·) of all points · u, v of norm 1 meet at ${degrees(angles.friedrichs).toFixed(1)}° ` +
        "(with σ²δ, which is not drawn)",
    );
    const reached = (SPACING * (span.n / 2 - 1)) / 2;
    for (const [name, side] of [
      ["first", -1],
      ["second", 1],
    ]) {
      const spec = {
        key: name,
        x: plane.sx(side * (distance / 2 + reached)),
        y: plane.sy(floor),
        half: plane.sx(reached) - plane.sx(0),
        label: `the ${name} block`,
        value: `distance ${number(distance)}`,
      };
      const {min} = this.face.controls.distance,
        distanceAt = (x) => Math.max(min, 2 * (side * plane.fromX(x) - reached));
      this.grip(plane, "distance", spec, distanceAt, (right, up) => side * right + up);
    }
  }

  _drawFan({span, angles, blocks}, values) {
    const {fan} = this,
      {width, height, em} = fan,
      [x, y] = [1.2 * em, height - 1.2 * em];
    const radius = Math.min(width - 4.5 * em, height - 3.4 * em),
      pen = fan.marks;
    const at = (angle, share = 1) => [x + share * radius * Math.cos(angle), y - share * radius * Math.sin(angle)];
    const place = (angle, share) =>
      at(angle, share)
        .map((each) => each.toFixed(1))
        .join(" ");
    fan.begin();
    fan.axes.draw("path", {
      d: `M${x} ${y}L${place(0)}A${radius} ${radius} 0 0 0 ${place(Math.PI / 2)}Z`,
      class: "axis",
    });
    for (let tick = 0; tick <= 90; tick += 15) {
      const [left, top] = at((tick * Math.PI) / 180, 1 + (1.4 * em) / radius);
      const words = {x: left.toFixed(1), y: (top + 0.3 * em).toFixed(1), "text-anchor": "middle"};
      fan.axes.draw("text", words, `${tick}°`);
    }
    const theta = angles.friedrichs,
      {shared} = angles;
    const wedge = `M${x} ${y}L${place(0)}A${radius} ${radius} 0 0 0 ${place(theta)}Z`;
    pen.draw("path", {d: wedge, fill: LIT, "fill-opacity": 0.2, "data-of": "theta contraction"});
    const ray = (angle, color, wide, title, of = "noise") => {
      pen.draw("path", {d: `M${x} ${y}L${place(angle)}`, stroke: color, "stroke-width": wide, class: "curve", "data-of": of});
      const [left, top] = at(angle);
      pen.draw("path", {d: outline("dot", left, top, wide + 2), fill: color}, "", title);
    };
    const all = angles.all;
    const words = (k) => `angle ${k + 1}: ${degrees(all[k]).toFixed(2)}°, cos² ${number(angles.cosines[k] ** 2)}`;
    for (let k = all.length - 1; k >= 0; k--) {
      if (k > shared) ray(all[k], "var(--muted)", 1.5, words(k));
      else if (k < shared) ray(0, BOTH, 4, words(k));
    }
    if (shared < all.length) ray(theta, LIT, 4, words(shared), "theta noise");
    fan.end();
    fan.legend([
      ["the Friedrichs angle θ", LIT, "line"],
      ["other principal angles", "var(--muted)", "line"],
      ...(shared ? [[`0° for each of the ${shared} shared points`, BOTH, "line"]] : []),
    ]);
    fan.note(
      `θ = ${degrees(theta).toFixed(2)}° · a sweep leaves cos²θ = ${number(angles.contraction)} · ` +
        (blocks.shared.length
          ? "shared points have angle 0 and do not count"
          : "no points are shared: every angle counts"),
    );
    const [left, top] = at(theta);
    fan.handle(
      "theta",
      {x: left, y: top, label: "the Friedrichs angle", value: `${degrees(theta).toFixed(1)}°`, of: "theta distance"},
      {
        drag: (px, py) => this._moveToAngle(Math.atan2(Math.max(0, y - py), Math.max(0, px - x)), values),
        step: (right, up) => this.change("distance", up - right),
      },
    );
  }

  _drawErrors({sweeps}) {
    const plane = this.errors,
      start = sweeps.errors[0] || 1;
    const relative = (each) => (each > FLOOR * start ? each / start : NaN);
    const errors = sweeps.errors.map(relative),
      bound = sweeps.bound.map(relative),
      sweep = errors.map((_, k) => k);
    const seen = [...errors, ...bound].filter(Number.isFinite);
    const low = Math.min(-0.2, Math.floor(Math.log10(Math.min(1, ...seen)) * 2) / 2);
    const last = Math.max(3, ...sweep.filter((k) => Number.isFinite(errors[k]) || Number.isFinite(bound[k])));
    plane.begin({
      x: [-0.5, last + 0.5],
      y: [low, -0.06 * low],
      log: true,
      whole: true,
      xLabel: "sweeps k, an update per block each",
      yLabel: "‖r‖ ÷ ‖g‖, both in H",
    });
    plane.line(sweep, bound, {color: "var(--muted)", ...PALE, of: "contraction"});
    plane.line(sweep, errors, {color: LIT, of: "measured"});
    errors.forEach((each, k) => {
      const ratio = k ? `, ${number(each / errors[k - 1])} of the one before` : "";
      plane.dot(k, each, {color: LIT, size: 4}, `sweep ${k}: ${number(each)}${ratio}`);
    });
    plane.end();
    plane.legend([
      ["measured ‖r‖<sub>H</sub>", LIT, "line"],
      ["bound c²ᵏ⁻¹, c = cos θ", "var(--muted)", "wide"],
    ]);
    plane.note("after the first sweep, each leaves at most cos²θ");
  }

  /** To the distance at which the Friedrichs angle is nearest to one, by halving: blocks farther apart open it. */
  _moveToAngle(angle, values) {
    const places = placesOf(this.face.controls.distance);
    const at = (k) => {
      const {x, first, second} = twoBlocks(values.points, places[k], values.shared);
      return new Angles(new Span(x, kernelNamed(values.kernel, values.lengthscale), values.noise), first, second)
        .friedrichs;
    };
    let low = 0,
      high = places.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (at(middle) < angle) low = middle;
      else high = middle;
    }
    this.state.set({distance: places[Math.abs(at(low) - angle) <= Math.abs(at(high) - angle) ? low : high]});
  }
}
