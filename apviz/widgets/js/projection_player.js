/** A regression of few points, one block after another: functions, residual, matrix and norms of one step. */

import {norm} from "./algebra.js";
import {drawnOrder} from "./draws.js";
import {kernelNamed} from "./kernels.js";
import {MatrixPicture} from "./matrix_picture.js";
import {NormsPicture} from "./norms.js";
import {blocksWithMargins, sequential} from "./partitions.js";
import {above, below, number, placesOfCurve} from "./plane.js";
import {Span} from "./span.js";
import {Trajectory} from "./trajectory.js";
import {BLUE as BUILT, INK, MUTED, ORANGE as LIT, View} from "./view.js";

/** updates of a trajectory; points of a curve; the ends of x, and of data */
const STEPS = 30,
  PLACES = 161,
  ENDS = [-0.03, 1.03],
  MOST = 2,
  KEY = 0.05;

const clipped = (value) => Math.min(MOST, Math.max(-MOST, Math.round(value * 100) / 100));
const heightOf = (residuals) => 1.15 * Math.max(...residuals.flatMap((each) => [...each].map(Math.abs))) || 1;

/** The solve of a state: points in increasing order, `order` of them among those that were drawn, and blocks. */
export function situation({points, block_size, rule, overlap, lengthscale, noise, data}, {x}) {
  const order = [...Array(points).keys()].sort((i, j) => x[i] - x[j]);
  const span = new Span(
    order.map((i) => x[i]),
    kernelNamed("matern52", lengthscale),
    noise,
  );
  const places = Array.from(span.x, (each) => [each]);
  const blocks = blocksWithMargins(places, sequential(points, Math.min(points, block_size)), overlap);
  const b = order.map((i) => data[i]);
  const trajectory = new Trajectory(span, b, blocks, drawnOrder(rule, blocks.length, STEPS), STEPS);
  return {order, span, blocks, trajectory};
}

export class ProjectionPlayerView extends View {
  static longest = {steps: "30", what: "block 39 of 0 to 39 is projected onto"};

  constructor(place, state, face) {
    super(place, state, face);
    this._at = 0;
    this.functions = this.plane("", () => 300, true);
    this.residual = this.plane("", () => 190, true);
    this.matrix = this.add(new MatrixPicture(place, "", (width) => Math.min(300, width)));
    this.norms = this.add(new NormsPicture(place, () => 310, state));
  }

  /** Blocks that are no larger than all points together. */
  static limit(name, {points}) {
    return name === "block_size" ? points : Infinity;
  }

  draw(values) {
    const {step} = values,
      key = JSON.stringify({...values, step: 0, speed: 0});
    if (key !== this._key) [this._key, this._now] = [key, situation(values, this.face.given)];
    const now = this._now,
      {trajectory, blocks} = now;
    const j = Math.min(step, trajectory.steps.length - 1),
      {block, residual} = trajectory.steps[j];
    const lit = block < 0 ? [] : blocks[block].solved;
    this._drawFunctions(now, j, lit);
    this._drawResidual(now, j, lit);
    this._drawMatrix(now, block, lit);
    this.norms.draw(trajectory, j);
    const errors = trajectory.errors(),
      share = (each, start) => number(start ? each / start : 0, 3);
    return {
      steps: trajectory.steps.length - 1,
      what: j ? `block ${block} of 0 to ${blocks.length - 1} is projected onto` : "no projection yet",
      left: share(errors[j], errors[0]),
      euclidean: share(norm(residual), norm(trajectory.b)),
    };
  }

  /** Edges between neighbouring blocks, in the middle between two points. */
  _edges({span: {x}, blocks}) {
    const between = blocks.slice(1).map(({owned}) => (x[owned[0] - 1] + x[owned[0]]) / 2);
    return [ENDS[0], ...between, ENDS[1]];
  }

  /** Every other block shaded, and the one that was projected onto. */
  _shadeBlocks(plane, now, j) {
    const edges = this._edges(now),
      chosen = now.trajectory.steps[j].block;
    for (let k = 0; k < now.blocks.length; k++) {
      if (k === chosen) plane.box([edges[k], edges[k + 1]], undefined, {color: LIT, opacity: 0.16, of: "what"}, `block ${k}`);
      else if (k % 2) plane.box([edges[k], edges[k + 1]], undefined, {color: "var(--grid)", opacity: 0.45, of: "block_size"}, `block ${k}`);
    }
  }

  _drawFunctions(now, j, lit) {
    const plane = this.functions,
      {span, trajectory} = now,
      {goal, steps, b} = trajectory;
    if (now !== this._drawn) {
      this._drawn = now;
      this._grid = placesOfCurve(...ENDS, PLACES, span.x);
      this._goal = span.values(goal, this._grid);
    }
    if (!this.isHeld) {
      const every = [0, ...b, ...this._goal];
      this._heights = [Math.floor(2 * Math.min(...every) - 0.3) / 2, Math.ceil(2 * Math.max(...every) + 0.3) / 2];
    }
    plane.begin({x: ENDS, y: this._heights, xLabel: "x", yLabel: "function value"});
    this._shadeBlocks(plane, now, j);
    plane.line(ENDS, [0, 0], {color: MUTED, width: 1});
    plane.line(this._grid, this._goal, {color: MUTED, width: 2.5, dash: "7 4", of: "lengthscale noise"});
    plane.line(this._grid, span.values(steps[j].weights, this._grid), {color: BUILT, width: 3.5, of: "step"});
    b.forEach((each, i) => {
      const look = lit.includes(i) ? {color: LIT, size: 6, of: "points what"} : {color: INK, size: 4, of: "points"};
      plane.dot(span.x[i], each, look, `x${below(i + 1)} = ${number(span.x[i])}: b${below(i + 1)} = ${number(each)}`);
    });
    plane.end();
    plane.caption.textContent = j ? `Step ${j}: the function so far; drag a point` : "Before the first step; drag a point";
    plane.legend([
      [`s${above(j)}, the function so far`, BUILT, "line"],
      ["g, the posterior mean", MUTED, "dashes"],
      ["data b: drag", INK, "ring dashed"],
      ["the block of the step", LIT, "dot"],
    ]);
    this._dragData(now);
  }

  /** One ring a point; by keys left and right go to the neighbour, up and down move the datum. */
  _dragData({span, order, trajectory: {b}}) {
    const plane = this.functions,
      {n} = span;
    this._at = Math.min(this._at, n - 1);
    const take = (i, value) => {
      this.state.set({data: this.state.values.data.map((each, k) => (k === order[i] ? clipped(value) : each))});
    };
    const nearest = (px, py) => {
      const away = [...b].map((each, i) => Math.hypot(plane.sx(span.x[i]) - px, plane.sy(each) - py));
      return away.indexOf(Math.min(...away));
    };
    plane.keepHandles(Array.from({length: n}, (_, i) => `point ${i}`));
    for (let i = 0; i < n; i++) {
      const value = `x${below(i + 1)} = ${number(span.x[i])}, b${below(i + 1)} = ${number(b[i])}`;
      const spec = {x: plane.sx(span.x[i]), y: plane.sy(b[i]), label: `point ${i + 1}`, value, size: 8};
      plane.handle(`point ${i}`, {...spec, tab: i === this._at ? 0 : -1}, {
        drag: (px, py, first) => {
          // rings overlap where points are many
          if (first) [this.isHeld, this._at] = [true, nearest(px, py)];
          if (first) this._grab = py - plane.sy(b[this._at]);
          take(this._at, plane.fromY(py - this._grab));
        },
        step: (right, up) => {
          if (right) {
            this._at = Math.min(n - 1, Math.max(0, i + Math.sign(right)));
            plane.focus(`point ${this._at}`);
          }
          if (up) take(i, b[i] + up * KEY);
          else this.draw(this.state.values);
        },
        drop: () => {
          this.isHeld = false;
          this.state.tell();
        },
      });
    }
  }

  _drawResidual(now, j, lit) {
    const plane = this.residual,
      {span, trajectory} = now,
      {residual} = trajectory.steps[j],
      before = trajectory.steps[Math.max(0, j - 1)].residual,
      passed = this.moving(j),
      shown = residual.map((each, i) => before[i] + passed * (each - before[i]));
    if (!this.isHeld) this._most = heightOf(trajectory.steps.map((each) => each.residual));
    plane.begin({x: ENDS, y: [-this._most, this._most], xLabel: "x", yLabel: "residual"});
    this._shadeBlocks(plane, now, j);
    plane.line(ENDS, [0, 0], {color: MUTED, width: 1});
    const places = [...span.x].flatMap((each) => [each, each, each]);
    const stems = [...shown].flatMap((each) => [0, each, NaN]);
    plane.line(places, stems, {color: MUTED, width: 2});
    if (j) before.forEach((each, i) => plane.dot(span.x[i], each, {color: MUTED, size: 5, hollow: true}, `before: ${number(each)}`));
    shown.forEach((each, i) => {
      const look = lit.includes(i) ? {color: LIT, size: 6, of: "euclidean what"} : {color: INK, size: 4, of: "euclidean"};
      plane.dot(span.x[i], each, look, `residual at x${below(i + 1)} = ${number(span.x[i])}: ${number(each)}`);
    });
    plane.end();
    plane.caption.textContent = j ? "The residual b − Kw: zero on the block, moved elsewhere" : "The residual b − Kw";
    plane.legend(j ? [["before the step", MUTED, "ring"], ["now", INK, "dot"], ["on the block: zero", LIT, "dot"]] : [["residual", INK, "dot"]]);
    plane.note("shades are blocks; drag the ring at the edge of the first to resize them all");
    const edge = this._edges(now)[1];
    const size = (x) => this._setSize([...span.x].filter((each) => each < x).length);
    this._dragSize(plane, now, {x: plane.sx(edge), y: plane.top}, (px) => size(plane.fromX(px)));
  }

  _drawMatrix(now, block, lit) {
    const {matrix} = this,
      {blocks, span} = now;
    matrix.draw(
      span.gram,
      blocks.map(({owned}) => owned),
      lit,
      LIT,
    );
    matrix.caption.textContent = block < 0 ? "K and its blocks" : "K: solve with K[I, I], subtract K[:, I] u";
    matrix.legend([
      ["K[:, I]", LIT, "square"],
      ["K[I, I]", LIT, "line"],
      ["blocks", MUTED, "line"],
    ]);
    matrix.note("the stronger a shade, the larger k(xᵢ, xⱼ)");
    const corner = matrix.at(blocks[0].owned.length);
    this._dragSize(matrix, now, {x: matrix.left + corner, y: corner}, (px, py) => {
      this._setSize(Math.round(Math.max(px - matrix.left, py) / matrix.cell));
    });
  }

  /** A handle on the size of a block. */
  _dragSize(figure, {blocks}, place, drag) {
    const size = blocks[0].owned.length,
      label = figure === this.matrix ? "the corner of the first block" : "the edge of the first block";
    figure.handle(
      "size",
      {...place, label, value: `${size} points a block`, of: "block_size"},
      {drag: (px, py, first) => !first && drag(px, py), step: (right, up) => this._setSize(size + right - up)},
    );
  }

  _setSize(size) {
    this.change("block_size", 0, size);
  }
}
