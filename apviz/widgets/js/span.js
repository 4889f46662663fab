/** Functions Σᵢ wᵢ k(xᵢ, ·) over few points of a line, and their geometry in the kernel's Hilbert space H. */

import {backward, cholesky, dot, matrix, norm, part, solve, times, transposedTimes} from "./algebra.js";

/** The span of k(x₁, ·), …, k(xₙ, ·), whose functions are given by weights; k includes σ²δ. */
export class Span {
  /**
   * @param {ArrayLike<number>} x (n,) points
   * @param {(x: number, z: number) => number} kernel without noise
   * @param {number} noise σ² > 0
   */
  constructor(x, kernel, noise) {
    this.x = Float64Array.from(x);
    this.kernel = kernel;
    this.noise = noise;
    /** K = LLᵀ, the Gram matrix of the k(xᵢ, ·) */
    this.gram = matrix(this.n, this.n, (i, j) => kernel(this.x[i], this.x[j]) + (i === j ? noise : 0));
    /** L, whose row i holds the coordinates of k(xᵢ, ·) in an orthonormal basis */
    this.factor = cholesky(this.gram);
  }

  get n() {
    return this.x.length;
  }

  /** Lᵀw: coordinates in which lengths and angles are those of H. */
  coordinates(weights) {
    return transposedTimes(this.factor, weights);
  }

  /** Weights of a function given by coordinates. */
  weightsOf(coordinates) {
    return backward(this.factor, coordinates);
  }

  /** Weights K⁻¹b of g, the function of least norm with g(xᵢ) = bᵢ. */
  interpolant(b) {
    return solve(this.factor, b);
  }

  /** ⟨·, ·⟩_H = vᵀKw. */
  inner(v, w) {
    return dot(v, times(this.gram, w));
  }

  /** ‖·‖_H = √(wᵀKw). */
  norm(weights) {
    return norm(this.coordinates(weights));
  }

  /** Weights of the projection onto span{k(xᵢ, ·): i in block}: K[I, I]⁻¹(Kw)_I there, else zero. */
  project(weights, block) {
    const found = new Float64Array(this.n),
      values = times(this.gram, weights);
    const u = solve(
      cholesky(part(this.gram, block)),
      block.map((i) => values[i]),
    );
    block.forEach((i, k) => (found[i] = u[k]));
    return found;
  }

  /** Values k(z, X)w away from the points, where there is no noise. */
  values(weights, z) {
    const found = new Float64Array(z.length);
    for (let i = 0; i < this.n; i++) {
      if (weights[i] === 0) continue;
      for (let k = 0; k < z.length; k++) found[k] += weights[i] * this.kernel(z[k], this.x[i]);
    }
    return found;
  }
}
