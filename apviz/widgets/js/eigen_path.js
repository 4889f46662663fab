/** Trajectories along the eigenvectors of K: what CG and alternating projection remove first, and for how much work. */

import {dot, norm, plus, scaled, times} from "./algebra.js";
import {finished} from "./partitions.js";
import {largestOfPart} from "./spectra.js";

/** of ‖b‖ below which a residual is rounding, and a solve at its end */
const SOLVED = 1e-15;

/**
 * States of CG (Hestenes & Stiefel 1952) for one right-hand side, the residual of each computed as b − Kw.
 * @param {import("./span.js").Span} span
 * @param {Float64Array} b
 * @param {number} count iterations; fewer where r vanishes before
 * @returns {{weights: Float64Array, residual: Float64Array}[]}
 */
export function conjugateGradient({gram, n}, b, count) {
  let weights = new Float64Array(n),
    r = Float64Array.from(b),
    direction = r,
    square = dot(r, r);
  const states = [{weights, residual: r}];
  while (states.length <= count && norm(states.at(-1).residual) > SOLVED * norm(b)) {
    const along = times(gram, direction),
      step = square / dot(direction, along);
    weights = plus(weights, direction, step);
    r = plus(r, along, -step);
    const next = dot(r, r);
    direction = plus(r, direction, next / square);
    square = next;
    states.push({weights, residual: plus(b, times(gram, weights), -1)});
  }
  return states;
}

/**
 * Eigenvalues of K, largest first, and eigenvectors, each turned so that b begins with cᵢ ≥ 0.
 * @param {{values: Float64Array, vectors: Float64Array[]}} plain of K without noise
 */
export function turned({values, vectors}, noise, b) {
  return {
    values: values.map((each) => each + noise),
    // w − w* starts at −K⁻¹b
    vectors: vectors.map((each) => (dot(each, b) > 0 ? scaled(each, -1) : each)),
  };
}

/** A solve as a path in orthonormal coordinates cᵢ = √λᵢ vᵢᵀ(w − w*), with ‖W−W*‖²_K = Σcᵢ² and ‖r‖² = Σλᵢcᵢ². */
export class EigenPath {
  /**
   * @param {{weights: Float64Array, residual: Float64Array, block?: number}[]} states
   * @param {Float64Array} goal w*
   * @param {{values: Float64Array, vectors: Float64Array[]}} eigen of K, of `turned`
   * @param {number[][]} solved rows that each block solves on; none for CG
   */
  constructor(states, goal, eigen, solved = []) {
    Object.assign(this, {states, goal, eigen, solved});
    const n = goal.length,
      sizes = solved.map((each) => each.length);
    let work = sizes.reduce((sum, each) => sum + each ** 2, 0) / n ** 2;
    /** kernel entries ÷ n² up to and including each state */
    this.work = states.map(({block}, j) => (work += j === 0 ? 0 : sizes.length ? sizes[block] / n : 1));
    /** ‖W−W*‖²_K, since r = K(w* − w), and ‖r‖², after each state */
    this.errors = states.map(({weights, residual}) => Math.max(0, dot(plus(goal, weights, -1), residual)));
    this.residuals = states.map(({residual}) => dot(residual, residual));
  }

  get kappa() {
    return this.eigen.values[0] / this.eigen.values.at(-1);
  }

  /** λ′max/λmin over the sets that are solved on; κ for CG, whose only block is all of K. */
  kappaPrime(gram) {
    const largest = this.solved.map((set) => finished(largestOfPart(gram, set)));
    return largest.length ? Math.max(...largest) / this.eigen.values.at(-1) : this.kappa;
  }

  /** Coordinate i of every state. */
  coordinate(i) {
    return this.states.map((_, j) => this._coordinate(i, j));
  }

  /** All coordinates of a state. */
  coordinates(state) {
    return this.eigen.vectors.map((_, i) => this._coordinate(i, state));
  }

  _coordinate(i, state) {
    const {weights} = this.states[state],
      {values, vectors} = this.eigen;
    return Math.sqrt(values[i]) * (dot(vectors[i], weights) - dot(vectors[i], this.goal));
  }

  /** Factor on ‖W−W*‖²_K that theory promises after every state: Theorem 1, or the bound of CG by κ. */
  bound(gram, rule) {
    const rate = this.kappaPrime(gram);
    if (!this.solved.length) {
      const root = Math.sqrt(this.kappa);
      return this.states.map((_, t) => 4 * ((root - 1) / (root + 1)) ** (2 * t));
    }
    return this.states.map((_, j) => (rule === "gauss-southwell" ? Math.exp(-j / this.solved.length / rate) : NaN));
  }

  /** Number of the last state that so much work pays for; −1 for none. */
  at(work) {
    return this.work.findLastIndex((each) => each <= work * (1 + 1e-12));
  }

  /** ‖r⁽¹⁾‖²/‖r⁽⁰⁾‖² of CG: m₂/m₁² − 1, with the moments m of λ under the shares of b. */
  firstCgStep() {
    const {values, vectors} = this.eigen,
      shares = vectors.map((each) => dot(each, this.states[0].residual) ** 2);
    const total = shares.reduce((sum, each) => sum + each, 0),
      moment = (power) => shares.reduce((sum, each, i) => sum + each * values[i] ** power, 0) / total;
    return moment(2) / moment(1) ** 2 - 1;
  }
}

/** The two eigenvectors of a plane, by number, the larger λ first. */
export function eigenvectorPair(path, plane) {
  const start = path.coordinates(0).map((each) => each * each),
    n = start.length;
  const largest = (shares) => shares.indexOf(Math.max(...shares));
  if (plane === "largest and smallest λ") return [0, n - 1];
  if (plane === "largest λ and most error") return [0, 1 + largest(start.slice(1))];
  const shares = plane === "the two with most error" ? start : start.map((each, i) => each * path.eigen.values[i]);
  const first = largest(shares),
    second = largest(shares.map((each, i) => (i === first ? -1 : each)));
  return [Math.min(first, second), Math.max(first, second)];
}

