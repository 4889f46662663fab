/** Rules of block selection on one system: how far each is after as many updates, and what every block would remove. */

import {dot, norm, part, plus, symmetricEigen} from "./algebra.js";
import {drawnOrder} from "./draws.js";
import {sequential} from "./partitions.js";
import {Trajectory, givenBlocks} from "./trajectory.js";

export const RULES = ["gauss-southwell", "cyclic", "random", "shuffled"];

/**
 * Blocks to choose from in one state, and what each rule takes.
 * @typedef {object} Choices
 * @property {Float64Array} residual b − Kw
 * @property {number} left ½‖r‖²_H, all that is left to remove
 * @property {number[]} decreasePerBlock by which each block would lower h now
 * @property {number[]} norms ‖r_I‖, what gauss-southwell looks at
 * @property {Record<string, number>} taken the block that each rule takes here
 * @property {number} guaranteed ‖r‖²/(2mλ′max), what gauss-southwell removes at least (proof of Theorem 1)
 * @property {number} best the block that would remove the most
 */

/** Trajectories of the four rules over the same blocks of neighbours. */
export class RuleComparison {
  /**
   * @param {import("./span.js").Span} span over points in increasing order
   * @param {ArrayLike<number>} b (n,) data at the points
   * @param {number} size points of a block
   * @param {number} steps updates of each rule; fewer where one is at the goal before
   * @param {number} seed of random and shuffled
   */
  constructor(span, b, size, steps, seed) {
    this.blocks = sequential(span.n, size);
    const blocks = givenBlocks(this.blocks);
    const solve = (rule) => {
      const next = drawnOrder(rule, blocks.length, steps + 1, seed);
      return [rule, new Trajectory(span, b, blocks, next, steps + 1)];
    };
    /** with an update more than `steps`, so that the last state has a next block too */
    this.trajectories = Object.fromEntries(RULES.map(solve));
    this.steps = Math.min(steps, ...Object.values(this.trajectories).map((each) => each.steps.length - 2));
    /** ‖r‖_H after every update, as a share of that before the first */
    this.errors = Object.fromEntries(
      RULES.map((rule) => {
        const errors = this.trajectories[rule].errors().slice(0, this.steps + 1);
        return [rule, errors.map((each) => each / errors[0])];
      }),
    );
    /** λ′max, exact */
    this.lambdaMaxBlock = Math.max(...this.blocks.map((rows) => symmetricEigen(part(span.gram, rows)).values[0]));
  }

  /** Rules after a number of updates, the smallest ‖r‖_H first. */
  ranking(number) {
    return [...RULES].sort((one, other) => this.errors[one][number] - this.errors[other][number]);
  }

  /**
   * Blocks to choose from where the trajectory of a rule is after a number of updates. Cyclic, random and shuffled do not
   * look at the residual: they take here what they take in their own trajectory.
   * @returns {Choices}
   */
  choices(rule, number) {
    const {span, goal, steps} = this.trajectories[rule],
      {residual, weights} = steps[number];
    const norms = this.blocks.map((rows) => norm(Float64Array.from(rows, (i) => residual[i])));
    const taken = Object.fromEntries(RULES.map((each) => [each, this.trajectories[each].steps[number + 1].block]));
    if (rule !== "gauss-southwell") taken["gauss-southwell"] = norms.indexOf(Math.max(...norms));
    const decreasePerBlock = this.trajectories[rule].decreasePerBlock(number);
    return {
      residual,
      left: 0.5 * span.norm(plus(weights, goal, -1)) ** 2,
      decreasePerBlock,
      norms,
      taken,
      guaranteed: dot(residual, residual) / (2 * this.blocks.length * this.lambdaMaxBlock),
      best: decreasePerBlock.indexOf(Math.max(...decreasePerBlock)),
    };
  }

  /** Numbers, from 1, of gauss-southwell's updates in whose place another block would have removed more. */
  suboptimalUpdates() {
    const found = this.trajectories["gauss-southwell"],
      numbers = Array.from({length: this.steps}, (_, k) => k + 1);
    return numbers.filter((number) => {
      const each = found.decreasePerBlock(number - 1);
      return each[found.steps[number].block] < Math.max(...each);
    });
  }

  /** The largest share of what is left that a block would remove in any state of a rule. */
  largestShare(rule) {
    const found = this.trajectories[rule],
      errors = found.errors();
    const shares = found.steps.slice(0, -1).map((_, j) => Math.max(...found.decreasePerBlock(j)) / (0.5 * errors[j] ** 2));
    return Math.max(...shares);
  }
}
