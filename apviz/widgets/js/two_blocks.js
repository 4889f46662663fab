/** Angles between the spans of two blocks, and what they say of the speed of alternating projection over both. */

import {backward, cholesky, forward, part, plus, scaled, svd, times, transpose} from "./algebra.js";

/** between neighbours in a block, in units of x */
export const SPACING = 0.1;
/** of ‖g‖_H below which a measured ratio is one of rounding errors */
const ROUNDING = 1e-9;

/**
 * Two blocks on a line that own p points each, `distance` apart, and share the nearest of the other block's.
 * @returns {{x: Float64Array, first: number[], second: number[], shared: number[]}}
 */
export function twoBlocks(p, distance, shared = 0) {
  const x = Float64Array.from({length: 2 * p}, (_, i) => {
    return i < p ? -(distance / 2 + SPACING * (p - 1 - i)) : distance / 2 + SPACING * (i - p);
  });
  const byFirst = Math.ceil(shared / 2),
    bySecond = Math.floor(shared / 2);
  const from = (start, end) => Array.from({length: end - start}, (_, i) => start + i);
  return {x, first: from(0, p + byFirst), second: from(p - bySecond, 2 * p), shared: from(p - bySecond, p + byFirst)};
}

/**
 * Principal angles between the spans of k(xᵢ, ·) over two sets (Björck & Golub 1973): with K[I, I] = MMᵀ and
 * K[J, J] = NNᵀ their cosines are the singular values of M⁻¹K[I, J]N⁻ᵀ, and with its singular vectors a, b the
 * functions of norm 1 that meet there have the weights M⁻ᵀa and N⁻ᵀb.
 */
export class Angles {
  /**
   * @param {import("./span.js").Span} span
   * @param {number[]} first points of the first block
   * @param {number[]} second
   */
  constructor(span, first, second) {
    Object.assign(this, {span, first, second});
    this.shared = first.filter((i) => second.includes(i)).length;
    this._m = cholesky(part(span.gram, first));
    this._n = cholesky(part(span.gram, second));
    const half = transpose(transpose(part(span.gram, first, second)).map((column) => forward(this._m, column)));
    const {u, values, v} = svd(half.map((row) => forward(this._n, row)));
    this.cosines = values.map((each) => Math.min(1, each));
    Object.assign(this, {_u: u, _v: v});
  }

  /** Radians, smallest first. */
  get all() {
    return this.cosines.map(Math.acos);
  }

  /** The smallest angle that is not of what both spans hold; a right angle where there is none. */
  get friedrichs() {
    return this.all[this.shared] ?? Math.PI / 2;
  }

  /** cos²θ of ‖r‖_H: what a sweep over both blocks leaves at the worst, after the first; θ the Friedrichs angle. */
  get contraction() {
    return Math.cos(this.friedrichs) ** 2;
  }

  /** Weights of the two functions of norm 1, one in each span, that meet at the Friedrichs angle. */
  pair() {
    const u = this._spread(this.first, backward(this._m, this._u[this.shared]));
    const v = this._spread(this.second, backward(this._n, this._v[this.shared]));
    const values = times(this.span.gram, u);
    const largest = values.reduce((best, each) => (Math.abs(each) > Math.abs(best) ? each : best), 0);
    return [scaled(u, Math.sign(largest)), scaled(v, Math.sign(largest))];
  }

  /** Data of largest entry 1 for which every sweep after the first leaves all that the angle allows. */
  worstCaseRhs() {
    const [u, v] = this.pair();
    const b = times(this.span.gram, plus(v, u, -this.span.inner(v, u)));
    return scaled(b, 1 / Math.max(...b.map(Math.abs)));
  }

  _spread(points, weights) {
    const found = new Float64Array(this.span.n);
    points.forEach((i, k) => (found[i] = weights[k]));
    return found;
  }
}

/**
 * Errors after each sweep of a trajectory that takes two blocks in turn, and the bound c²ᵏ⁻¹‖g‖_H after k sweeps.
 * @param {import("./trajectory.js").Trajectory} trajectory
 * @param {number} contraction c²
 * @returns {{errors: number[], bound: number[], measured: number, measuredAt: number}} `measured` is the ratio in the
 *     last sweep that ended above rounding; NaN, at 0, where the first ended below
 */
export function sweepsOf(trajectory, contraction) {
  const errors = trajectory.errors().filter((_, j) => j % 2 === 0);
  const bound = errors.map((_, k) => errors[0] * Math.sqrt(contraction) ** Math.max(2 * k - 1, 0));
  const last = errors.findLastIndex((each) => each > ROUNDING * errors[0]);
  const measured = last >= 2 ? errors[last] / errors[last - 1] : NaN;
  return {errors, bound, measured, measuredAt: last >= 2 ? last : 0};
}
