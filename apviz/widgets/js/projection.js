/** Projections of a function over three points, whose kernel functions span a space that can be looked at. */

import {dot, norm, plus, scaled, times} from "./algebra.js";
import {kernelNamed} from "./kernels.js";
import {NormsPicture} from "./norms.js";
import {above, below, number, placesOfCurve} from "./plane.js";
import {Space, arc, rectangle} from "./space.js";
import {Span} from "./span.js";
import {stepGeometry} from "./step_geometry.js";
import {Trajectory, givenBlocks} from "./trajectory.js";
import {BLUE as PROJECTED, INK, MUTED, ORANGE as SPAN, PURPLE as LEFT, View} from "./view.js";

/** updates of a trajectory; points of a curve */
const STEPS = 20,
  PLACES = 181;
/** where points can be, and a little beyond; how far data go; steps of both by keys */
const ENDS = [-0.06, 1.06],
  MOST = 2,
  KEYS = [0.01, 0.05];

const points = (block) => `{${block.map((i) => i + 1).join(", ")}}`;
const degrees = (angle) => (Number.isNaN(angle) ? "none, it is 0" : `${((angle * 180) / Math.PI).toFixed(1)}°`);
const clipped = (value, low, high) => Math.min(high, Math.max(low, Math.round(value * 100) / 100));

/** The solve of a state, and one update of it. */
export function situation(values, {sets, orders}) {
  const span = new Span(values.points, kernelNamed(values.kernel, values.lengthscale), values.noise);
  const blocks = givenBlocks(sets[values.blocks]);
  const rule = orders[values.rule]?.[String(blocks.length)] ?? values.rule;
  const trajectory = new Trajectory(span, values.data, blocks, rule, STEPS);
  const j = Math.min(values.step, trajectory.steps.length - 1);
  return {span, trajectory, j, geometry: stepGeometry(trajectory, j)};
}

export class ProjectionView extends View {
  static longest = {steps: "20", what: "onto the span of {1, 2}, to which r⁽¹⁹⁾ stood at 32.2°", left: "1.23·10⁻⁶"};

  constructor(place, state, face) {
    super(place, state, face);
    const height = (width) => Math.min(460, Math.max(320, 0.8 * width));
    this.space = this.add(new Space(place, "", height, () => this.draw(state.values)));
    this.functions = this.plane("", height);
    this.norms = this.add(new NormsPicture(place, () => 250, state), true);
  }

  draw(values) {
    const now = situation(values, this.face.given),
      {geometry, trajectory, j} = now,
      passed = j ? this.moving(j, 900) : this.moving(0);
    this._drawSpace(now, values, passed);
    this._drawFunctions(now, values, passed);
    this.norms.draw(trajectory, j, "; it does with the preset “the Euclidean residual rises”");
    const start = norm(geometry.goal) || 1;
    return {
      steps: trajectory.steps.length - 1,
      what: j
        ? `onto the span of ${points(geometry.block)}, to which r${above(j - 1)} stood at ${degrees(geometry.angleBefore)}`
        : "no projection yet",
      left: number(norm(geometry.after) / start),
    };
  }

  /** In a motion the projection grows, and the rest of r begins at its tip: from r to r − Pr. */
  _drawSpace({geometry, trajectory, j}, values, passed) {
    const {space} = this,
      {kernels, residuals, goal, block} = geometry,
      ofSolution = values.picture === "solution";
    if (!this.isHeld) {
      this._box = boxOf([
        new Float64Array(3),
        ...kernels,
        ...residuals,
        ...residuals.map((each) => plus(goal, each, -1)),
      ]);
    }
    const [centre, half] = this._box,
      zero = new Float64Array(3);
    const zoom = zoomOf(norm(geometry.before) / norm(goal), ofSolution ? 0.45 : 0.7),
      place = (residual) => (ofSolution ? plus(goal, residual, -zoom) : scaled(residual, zoom)),
      start = ofSolution ? place(geometry.before) : zero,
      projection = scaled(geometry.projection, zoom);
    const corner = plus(start, projection, passed),
      tip = plus(start, geometry.before, zoom);
    space.begin(centre, half);
    drawAxes(space, half, kernels);
    if (block.length === 2) {
      const held = [zero, projection, ...(zoom > 1 && ofSolution ? [] : block.map((i) => kernels[i]))];
      const corners = rectangle(geometry.basis, held, 0.12 * half).map((each) => plus(each, start));
      space.polygon(corners, {fill: SPAN, "fill-opacity": 0.18, stroke: SPAN, "stroke-width": 1.5, "data-of": "what"});
    } else if (block.length === 1) {
      const [way] = geometry.basis,
        held = [0, dot(kernels[block[0]], way), dot(projection, way)];
      const ends = [Math.min(...held) - 0.3 * half, Math.max(...held) + 0.3 * half];
      space.line(
        ends.map((each) => plus(start, way, each)),
        {stroke: SPAN, "stroke-width": 2, "data-of": "what"},
      );
    }
    const shortest = Math.min(...kernels.map(norm));
    for (const [i, k, share] of [
      [0, 1, 0.45],
      [0, 2, 0.66],
      [1, 2, 0.3],
    ]) {
      const turn = arc(kernels[i], kernels[k], share * shortest);
      space.line(turn, {stroke: MUTED, "stroke-width": 1.5, "data-of": "lengthscale noise"});
      space.text(
        scaled(turn[turn.length >> 1], 1.14),
        `${((geometry.kernelAngles[i][k] * 180) / Math.PI).toFixed(0)}°`,
      );
    }
    kernels.forEach((each, i) => {
      space.arrow(zero, each, block.includes(i) ? SPAN : MUTED, 3);
      space.text(each, `k(x${below(i + 1)}, ·)`, {class: "name halo"}, outwards(space, each, 1.1));
    });
    // what came before would not fit
    const first = zoom > 1 ? j - 1 : 0,
      path = residuals.slice(first, j + 1).map(place);
    if (first) space.dot(goal, MUTED, 2.5, "g");
    space.line(path, {stroke: MUTED, "stroke-width": 1.5, "stroke-dasharray": "2 4"});
    path.forEach((each, k) => space.dot(each, MUTED, 2.5, `${ofSolution ? "s" : "r"}${above(first + k)}`));
    space.arrow(start, tip, INK, 3.5, 0.05);
    space.arrow(start, corner, PROJECTED, 4.5, 0.1, "what");
    // drawn where the projection ended, so that the right angle is seen; nothing is left over before a projection
    if (j) space.arrow(corner, tip, LEFT, 4.5, 0.1, "left");
    const mark = passed < 1 ? [] : rightAngle(corner, plus(start, corner, -1), plus(tip, corner, -1), 0.1 * half);
    space.line(mark, {stroke: INK, "stroke-width": 2}, 0.2);
    space.text(goal, "g", {class: "name halo"}, outwards(space, goal, 1.3, -0.5));
    if (j > 1 && !ofSolution) space.text(tip, `r${above(j - 1)}`, {class: "name halo"}, outwards(space, tip, 1.3));
    space.end();
    space.caption.textContent = j
      ? `Step ${j}: onto the span of ${points(block)}`
      : `Before the first projection: r${above(0)} = g`;
    space.legend([
      [`r${above(Math.max(j - 1, 0))}${j <= 1 ? " = g" : ""}`, INK, "line"],
      ["its projection onto the span", PROJECTED, "line"],
      [j ? `r${above(j)}, the rest` : "the rest", LEFT, "line"],
      [block.length ? `span of ${points(block)}` : "span of the block", SPAN, "line"],
    ]);
    const angles = `angles to the span: r${above(j - 1)} ${degrees(geometry.angleBefore)}, r${above(j)} ${degrees(geometry.angleAfter)} · `,
      lengths = zoom > 1 ? `r is drawn ${number(zoom)} times as long` : "lengths and angles are those of H";
    space.note(`${j ? angles : ""}${lengths} · turn the picture; drag the ring at g`);
    this._dragGoal(trajectory.span, goal, half);
  }

  /** The ring at g's tip: what moves in the plane of the picture moves the data, bᵢ = ⟨g, k(xᵢ, ·)⟩. */
  _dragGoal(span, goal, half) {
    const {space} = this,
      [x, y] = space.at(goal);
    const take = (move, from = goal) => {
      this.state.set({data: [...times(span.factor, plus(from, move))].map((each) => clipped(each, -MOST, MOST))});
    };
    space.handle(
      "g",
      {x, y, label: "the tip of g", value: `norm ${number(norm(goal))}`},
      {
        ...this.held(
          (px, py, first) => {
            if (first) this._from = {goal, x: px, y: py};
            take(space.moveOf(px - this._from.x, py - this._from.y), this._from.goal);
          },
          {x, y},
          (right, up) => {
            const pixels = 0.04 * half * space.scale;
            take(space.moveOf(right * pixels, -up * pixels));
          },
        ),
      },
    );
  }

  _drawFunctions({span, trajectory, geometry, j}, values, passed) {
    const plane = this.functions,
      {goal, steps, b} = trajectory;
    const grid = placesOfCurve(...ENDS, PLACES, span.x);
    const now = steps[j].weights,
      earlier = steps[Math.max(j - 1, 0)].weights,
      projection = scaled(plus(now, earlier, -1), passed),
      built = plus(earlier, projection);
    const [was, is] = [above(Math.max(j - 1, 0)), above(j)];
    const curves =
      values.picture === "residual"
        ? [
            [plus(goal, earlier, -1), `r${was}${j <= 1 ? " = g" : ""}`, INK],
            [projection, "its projection", PROJECTED, "what"],
            [plus(goal, built, -1), `r${is}, the rest`, LEFT, "left"],
          ]
        : [
            [goal, "g", INK],
            [built, `s${is}`, PROJECTED, "what"],
            [plus(goal, built, -1), `r${is} = g − s${is}`, LEFT, "left"],
          ];
    if (!this.isHeld) {
      const every = [...b, 0, ...span.values(goal, grid), ...steps.flatMap(({residual}) => [...residual])];
      this._heights = [Math.floor(2 * Math.min(...every) - 0.3) / 2, Math.ceil(2 * Math.max(...every) + 0.3) / 2];
    }
    if (!j) curves.splice(1);
    plane.begin({x: ENDS, y: this._heights, xLabel: "x", yLabel: "function value"});
    plane.line(ENDS, [0, 0], {color: MUTED, width: 1.5});
    for (const [weights, name, color, of] of curves) {
      plane.line(grid, span.values(weights, grid), {color, width: 3, of});
      times(span.gram, weights).forEach((each, i) => {
        plane.dot(
          span.x[i],
          each,
          {color, size: 4.5},
          `${name} at x${below(i + 1)} = ${number(span.x[i])}: ${number(each)}`,
        );
      });
    }
    b.forEach((each, i) => plane.dot(span.x[i], each, {color: INK, size: 2.5}, `b${below(i + 1)} = ${number(each)}`));
    for (const i of geometry.block)
      plane.dot(span.x[i], 0, {color: SPAN, size: 8, hollow: true}, "in the block: 0 is left");
    plane.end();
    plane.caption.textContent = j
      ? "The same step as functions: drag a point"
      : "The data as a function, g: drag a point";
    plane.legend([
      ...curves.map(([, name, color]) => [name, color, "line"]),
      ["its block: 0 is left", SPAN, "ring"],
      ["data b: drag", INK, "ring dashed"],
    ]);
    plane.note("dots: with σ²δ, which is part of k; curves: without");
    for (let i = 0; i < 3; i++) {
      const take = (x, datum) => {
        const change = (list, value) => list.map((each, k) => (k === i ? value : each));
        this.state.set({
          points: change(this.state.values.points, clipped(x, 0, 1)),
          data: change(this.state.values.data, clipped(datum, -MOST, MOST)),
        });
      };
      const value = `x${below(i + 1)} = ${number(span.x[i])}, b${below(i + 1)} = ${number(b[i])}`,
        spec = {x: plane.sx(span.x[i]), y: plane.sy(b[i]), label: `point ${i + 1}`, value};
      const drag = (px, py) => take(plane.fromX(px), plane.fromY(py)),
        step = (right, up) => take(span.x[i] + right * KEYS[0], b[i] + up * KEYS[1]);
      plane.handle(`point ${i}`, spec, this.held(drag, spec, step));
    }
  }
}

/** 1, 3, 10, 30, …: how many times as long a share of g is drawn, up to `most`; rounding is drawn as it is. */
function zoomOf(share, most) {
  const half = share > 1e-12 ? Math.max(0, Math.floor(2 * Math.log10(most / share))) : 0;
  return half % 2 ? 3 * 10 ** ((half - 1) / 2) : 10 ** (half / 2);
}

/** Middle and radius of a ball that holds all places, the same for every step. */
function boxOf(places) {
  const side = [0, 1, 2].map((i) => places.map((each) => each[i]));
  const low = side.map((each) => Math.min(...each)),
    high = side.map((each) => Math.max(...each));
  const centre = Float64Array.from(low, (each, i) => (each + high[i]) / 2);
  return [centre, Math.max(...places.map((each) => norm(plus(each, centre, -1)))) || 1];
}

function drawAxes(space, half, kernels) {
  const tips = kernels.map((each) => space.at(each));
  for (let i = 0; i < 3; i++) {
    const ends = [-1, 1].map((side) => {
      const end = new Float64Array(3);
      end[i] = space.centre[i] + side * 0.9 * half;
      return end;
    });
    if (ends[0][i] > 0) ends[0][i] = 0;
    if (ends[1][i] < 0) ends[1][i] = 0;
    space.line(ends, {stroke: "var(--grid)", "stroke-width": 1.5}, -1e3);
    const [x, y] = space.at(ends[1]);
    if (tips.some((tip) => Math.hypot(tip[0] - x, tip[1] - y) < 4 * space.em)) continue; // the place of the arrow's name
    space.text(ends[1], `e${below(i + 1)}`, {}, outwards(space, ends[1], 0.7));
  }
}

/** A corner's mark; nothing where one of its sides is. */
function rightAngle(corner, first, second, most) {
  const lengths = [norm(first), norm(second)];
  if (Math.min(...lengths) <= 0.02 * most) return [];
  const size = Math.min(most, 0.4 * Math.min(...lengths));
  const [a, b] = [scaled(first, size / lengths[0]), scaled(second, size / lengths[1])];
  return [plus(corner, a), plus(plus(corner, a), b), plus(corner, b)];
}

/** Pixels from a tip away from the origin, for its name. */
function outwards(space, tip, lines, more = 0) {
  const [x, y] = space.at(tip),
    [x0, y0] = space.at(new Float64Array(3)),
    long = Math.hypot(x - x0, y - y0) || 1;
  return [(1.6 * lines * space.em * (x - x0)) / long, (lines * space.em * (y - y0)) / long + more * space.em];
}
