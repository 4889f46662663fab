/** CG as a polynomial: after t iterations it has multiplied the error along every eigenvector by p(λ), with p(0) = 1. */

import {dot, norm, plus, rotateToDiagonal, scaled} from "./algebra.js";

/** of the first residual below which nothing is left to remove */
const SOLVED = 1e-13;

/** CG on a diagonal matrix, its residuals made orthogonal again after every iteration, as in exact arithmetic. */
export class KrylovPolynomial {
  /**
   * @param {ArrayLike<number>} eigenvalues
   * @param {ArrayLike<number>} b right-hand side along the eigenvectors
   * @param {number} most iterations
   */
  constructor(eigenvalues, b, most = b.length) {
    const values = Float64Array.from(eigenvalues),
      units = [];
    let r = Float64Array.from(b),
      direction = r;
    /** lengths of the steps, and how much of the last direction is kept after each */
    this.steps = [];
    this.kept = [];
    /** along the eigenvectors, before the first iteration and after each */
    this.residuals = [r];
    const start = norm(r);
    while (this.steps.length < most && norm(r) > SOLVED * start) {
      units.push(scaled(r, 1 / norm(r)));
      const along = values.map((each, i) => each * direction[i]),
        square = dot(r, r),
        step = square / dot(direction, along);
      r = plus(r, along, -step);
      for (const unit of [...units, ...units]) r = plus(r, unit, -dot(unit, r));
      const kept = dot(r, r) / square;
      direction = plus(r, direction, kept);
      this.steps.push(step);
      this.kept.push(kept);
      this.residuals.push(r);
    }
  }

  get length() {
    return this.steps.length;
  }

  /** p(λᵢ) after t iterations, from the residuals: products of many zeros lose all digits. */
  left(i, t) {
    return this.residuals[Math.min(t, this.length)][i] / this.residuals[0][i];
  }

  /** Zeros of p after t iterations, largest first: the eigenvalues of Lanczos' tridiagonal matrix. */
  zeros(t) {
    const count = Math.min(t, this.length),
      diagonal = new Float64Array(count),
      offDiagonal = new Float64Array(count);
    for (let j = 0; j < count; j++) {
      diagonal[j] = 1 / this.steps[j] + (j ? this.kept[j - 1] / this.steps[j - 1] : 0);
      offDiagonal[j] = j < count - 1 ? Math.sqrt(this.kept[j]) / this.steps[j] : 0;
    }
    if (count) rotateToDiagonal(diagonal, offDiagonal);
    return diagonal.sort().reverse();
  }
}

/** Π (1 − λ/θ) over zeros θ. */
export const productOf = (zeros, lambda) => zeros.reduce((product, each) => product * (1 - lambda / each), 1);
