/** Alternating projection over the blocks of a span, every state kept: the paper's Algorithm 1 for one right-hand side. */

import {cholesky, dot, forward, norm, part, plus, solve, times} from "./algebra.js";

/** of ‖b‖ below which a residual is rounding, and a solve at its end */
const SOLVED = 1e-15;

/**
 * Points of a block.
 * @typedef {{solved: number[], owned: number[]}} Block
 *
 * A state of a solve after an update.
 * @typedef {object} Step
 * @property {number} block projected onto; −1 for the state before the first update
 * @property {Float64Array} weights of the function s that has been built
 * @property {Float64Array} residual b − Kw, computed from w
 * @property {number} energyDecrease by which the update lowered h(w) = ½wᵀKw − bᵀw
 */

/**
 * Blocks that solve on given sets; a point in several sets is owned by the first of them.
 * @returns {Block[]}
 */
export function givenBlocks(sets) {
  const taken = new Set();
  return sets.map((set) => {
    const solved = [...set].sort((i, j) => i - j),
      owned = solved.filter((i) => !taken.has(i));
    owned.forEach((i) => taken.add(i));
    return {solved, owned};
  });
}

/** States of a solve of Kw = b, one after another. */
export class Trajectory {
  /**
   * @param {import("./span.js").Span} span
   * @param {ArrayLike<number>} b (n,) data at the points
   * @param {Block[]} blocks
   * @param {"gauss-southwell" | "cyclic" | number[]} rule the block of largest ‖r‖ over what it owns, all in turn, or
   *     numbers of the blocks in the order in which they were drawn
   * @param {number} count updates; fewer where r vanishes, or numbers end, before
   */
  constructor(span, b, blocks, rule, count) {
    Object.assign(this, {span, blocks, b: Float64Array.from(b)});
    this.goal = span.interpolant(this.b);
    this._factors = blocks.map(({solved}) => cholesky(part(span.gram, solved)));
    const most = Array.isArray(rule) ? Math.min(count, rule.length) : count;
    let weights = new Float64Array(span.n),
      residual = this.b,
      energy = 0;
    /** @type {Step[]} */
    this.steps = [{block: -1, weights, residual, energyDecrease: 0}];
    while (this.steps.length <= most && norm(residual) > SOLVED * norm(this.b)) {
      const block = next(rule, this.steps.length - 1, residual, blocks),
        {solved} = blocks[block];
      const u = solve(
        this._factors[block],
        solved.map((i) => residual[i]),
      );
      weights = Float64Array.from(weights);
      solved.forEach((i, k) => (weights[i] += u[k]));
      residual = plus(this.b, times(span.gram, weights), -1);
      // h(w) = −½wᵀ(b + r)
      const now = -0.5 * dot(weights, plus(this.b, residual));
      this.steps.push({block, weights, residual, energyDecrease: energy - now});
      energy = now;
    }
  }

  /** ½r_IᵀK[I, I]⁻¹r_I, by which each block would lower h in a state. */
  decreasePerBlock(number) {
    const {residual} = this.steps[number];
    return this.blocks.map(({solved}, block) => {
      const half = forward(
        this._factors[block],
        solved.map((i) => residual[i]),
      );
      return 0.5 * dot(half, half);
    });
  }

  /** ‖s⁽ʲ⁾ − g‖_H, which never rises. */
  errors() {
    return this.steps.map(({weights}) => this.span.norm(plus(weights, this.goal, -1)));
  }

  /** Euclidean ‖b − Kw‖, which may rise. */
  residualNorms() {
    return this.steps.map(({residual}) => norm(residual));
  }
}

function next(rule, number, residual, blocks) {
  if (rule === "cyclic") return number % blocks.length;
  if (rule !== "gauss-southwell") return rule[number];
  const norms = blocks.map(({owned}) => owned.reduce((sum, i) => sum + residual[i] ** 2, 0));
  return norms.indexOf(Math.max(...norms));
}
